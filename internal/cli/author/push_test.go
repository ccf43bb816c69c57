package author

import (
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/operator-catalogs/catalogd/internal/cli/session/sessiontest"
)

// The suggested commands are valid, even if the name of the repository is not a valid name of a catalog.
func TestNextCommandAfterPush(t *testing.T) {
	for image, want := range map[string]string{
		"r.example/team/mine:v1": "kubectl catalog add mine r.example/team/mine:v1 --wait\nif it is already there: kubectl " +
			"catalog refresh mine --wait\n",
		"r.example/team/my_catalog.4:v1": "kubectl catalog add my-catalog-4 r.example/team/my_catalog.4:v1 --wait\nif it is already " +
			"there: kubectl catalog refresh my-catalog-4 --wait\n",
	} {
		tag, err := name.NewTag(image)
		if err != nil {
			t.Fatal(err)
		}
		var errs strings.Builder
		s := sessiontest.New(t, &errs)
		if err := (&pushed{tag: tag}).report(s, ""); err != nil || !strings.HasSuffix(errs.String(), want) {
			t.Errorf("%v: %s", err, errs.String())
		}
		errs.Reset()
		if err := (&pushed{tag: tag, refused: true}).report(s, ""); err != nil || errs.String() != "\n" {
			t.Errorf("of what catalogd would reject: %v: %s", err, errs.String())
		}
	}
}
