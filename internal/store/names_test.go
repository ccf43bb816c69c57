package store

import (
	"strings"
	"testing"
	"time"
)

// Names of catalogs have dots and up to 253 characters. None is taken for a file of the store's own.
func TestNamesWithDots(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, c)
	names := []string{
		"a", "a.b", "a.b.c", "a.tmp", "catalogs", "catalogs.json", "format", "layout-2", "tmp-a", "tmp.a",
		strings.Repeat("x", 253), strings.Repeat("x", 252) + "y",
	}
	for i, name := range names {
		commit(t, s, name, i, blobs(name))
	}
	for range 2 {
		if got := len(s.Catalogs()); got != len(names) {
			t.Errorf("got %d catalogs, want %d", got, len(names))
		}
		for _, name := range names {
			serves(t, s, name, name)
		}
		s = reopen(t, s, dir, c)
		c.advance(time.Hour)
		sweep(t, s)
	}
	for _, name := range names {
		if err := s.Remove(name); err != nil {
			t.Error(err)
		}
	}
	wantNames(t, dir+"/catalogs")
}
