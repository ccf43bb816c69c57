package status

import (
	"bytes"
	"os"
	"testing"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

func TestSentenceNamesCommands(t *testing.T) {
	var c v1beta1.CatalogSource
	c.Name = "mine"
	for message, want := range map[string]string{
		"0 packages are published. See status.content.invalidPackages.": "0 packages are published. kubectl catalog describe mine lists " +
			"them all.",
		"Finding the digest: 404 Not Found:": "Finding the digest: 404 Not Found",
	} {
		if got := Sentence(&c, message); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Sentence and Brief match the end of a message that the sync writes. The plugin may not import the sync.
func TestSyncEndsItsMessageAsExpected(t *testing.T) {
	source, err := os.ReadFile("../../sync/status/status.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(source, []byte(". "+seeInvalid+`"`)) {
		t.Errorf("internal/sync/status no longer ends a message with %q", seeInvalid)
	}
}
