package packages

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
)

// TestPathMarksDowngrades checks a step to a lower version. Catalogs with a mistake in replaces have such steps.
func TestPathMarksDowngrades(t *testing.T) {
	graph := channel.New(channel.Channel{
		Package: "foo", Name: "stable", Entries: []channel.Entry{{Name: "foo.v1.5.3", Version: "1.5.3", Replaces: "foo.v1.9.5"}},
	})
	paths, err := graph.Paths("1.9.5", "")
	if err != nil {
		t.Fatal(err)
	}
	const want = `OLM takes 1 step from 1.9.5 to 1.5.3:
  1. 1.9.5 -> 1.5.3
     1.5.3 replaces 1.9.5
     this is a downgrade: 1.5.3 is lower than 1.9.5
`
	if diff := cmp.Diff(want, stepsText(&output.Terminal{}, "OLM takes", paths.OLM)); diff != "" {
		t.Error(diff)
	}
	if step := paths.OLM[0]; !step.IsDowngrade {
		t.Errorf("the step is not marked as a downgrade: %+v", step)
	}
}
