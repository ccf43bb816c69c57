package packages

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	upgrade "github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
)

// A step to a lower version is marked: a catalog with a slip in replaces has them.
func TestPathMarksDowngrades(t *testing.T) {
	graph := upgrade.New(upgrade.Channel{
		Package: "foo", Name: "stable", Entries: []upgrade.Entry{{Name: "foo.v1.5.3", Version: "1.5.3", Replaces: "foo.v1.9.5"}},
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
	if views := stepViews(paths.OLM); !views[0].IsDown {
		t.Errorf("-o json does not tell of the downgrade: %+v", views)
	}
}
