package cli

import (
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"

	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

// What is said to come next works as it stands, though repositories have names that catalogs cannot have.
func TestNextAfterPush(t *testing.T) {
	for image, want := range map[string]string{
		"r.example/team/mine:v1":         "kubectl catalog add mine r.example/team/mine:v1 --wait\nif it is there already: kubectl catalog refresh mine --wait\n",
		"r.example/team/my_catalog.4:v1": "kubectl catalog add my-catalog-4 r.example/team/my_catalog.4:v1 --wait\nif it is there already: kubectl catalog refresh my-catalog-4 --wait\n",
	} {
		tag, err := name.NewTag(image)
		if err != nil {
			t.Fatal(err)
		}
		var out, errs strings.Builder
		e := &env{stdout: &term.Terminal{Writer: &out}, stderr: &term.Terminal{Writer: &errs}}
		if err := e.tellPushed(tag, "sha256:0123", false, pushOptions{}); err != nil || !strings.HasSuffix(errs.String(), want) {
			t.Errorf("%v: %s", err, errs.String())
		}
		errs.Reset()
		if err := e.tellPushed(tag, "sha256:0123", true, pushOptions{}); err != nil || errs.String() != "" {
			t.Errorf("of what catalogd would refuse: %v: %s", err, errs.String())
		}
	}
}
