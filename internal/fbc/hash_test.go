package fbc

import (
	"slices"
	"testing"
)

// Clients keep hashes across releases, so they must not change. The values are those of sha256sum.
func TestHash(t *testing.T) {
	a, b := HashOf([]byte(`{"a":1}`)), HashOf([]byte(`{"b":2}`))
	if got, want := a.String(), "015abd7f5cc57a2dd94b7590f04ad808"; got != want {
		t.Errorf("hash of a blob: got %s, want %s", got, want)
	}
	if got, want := HashOfBlobs(slices.Values([]Hash{a, b})).String(), "325814df680c667f39c830b6e667cd7c"; got != want {
		t.Errorf("hash of two blobs: got %s, want %s", got, want)
	}
}
