package status

import (
	"testing"
)

func TestMessagesForTerminals(t *testing.T) {
	var c Catalog
	c.Name = "mine"
	for message, want := range map[string]struct{ sentence, brief string }{
		"0 packages are published. See status.content.invalidPackages.": {
			"0 packages are published. kubectl catalog describe mine lists them all.", "0 packages are published.",
		},
		"Finding the digest: 404 Not Found:": {"Finding the digest: 404 Not Found", "Finding the digest: 404 Not Found"},
	} {
		if got := Sentence(&c, message); got != want.sentence {
			t.Errorf("sentence: got %q, want %q", got, want.sentence)
		}
		if got := Brief(message); got != want.brief {
			t.Errorf("brief: got %q, want %q", got, want.brief)
		}
	}
}
