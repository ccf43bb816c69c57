package status

import (
	"testing"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

func TestInOurWords(t *testing.T) {
	var c v1beta1.CatalogSource
	c.Name = "mine"
	for message, want := range map[string]string{
		"0 packages are published. See status.content.invalidPackages.": "0 packages are published. kubectl catalog describe mine lists them all.",
		"Finding the digest: 404 Not Found:":                            "Finding the digest: 404 Not Found",
	} {
		if got := Sentence(&c, message); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
