package store

import (
	"bytes"
	"iter"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// Changes are the names of the packages that differ between two snapshots, valid or not. Each list is sorted.
type Changes struct{ Added, Changed, Removed []string }

// ChangesSince compares the packages of a snapshot with those of an older one, by their hashes. It reads no blobs, and holds
// no more than the names that it returns.
func (s *Snapshot) ChangesSince(old *Snapshot) Changes {
	var out Changes
	nextBefore, stop := iter.Pull2(old.contents())
	defer stop()
	nextNow, stop := iter.Pull2(s.contents())
	defer stop()
	before, was, inBefore := nextBefore()
	now, is, inNow := nextNow()
	for inBefore || inNow {
		order := bytes.Compare(before, now)
		if !inNow {
			order = -1
		} else if !inBefore {
			order = 1
		}
		switch {
		case order < 0:
			out.Removed = append(out.Removed, string(before))
		case order > 0:
			out.Added = append(out.Added, string(now))
		case was != is:
			out.Changed = append(out.Changed, string(now))
		}
		if order <= 0 {
			before, was, inBefore = nextBefore()
		}
		if order >= 0 {
			now, is, inNow = nextNow()
		}
	}
	return out
}

// contents returns the name and the hash of each package, valid or not, sorted by name. Blobs that do not name their package
// are left out.
func (s *Snapshot) contents() iter.Seq2[[]byte, fbc.Hash] {
	return func(yield func([]byte, fbc.Hash) bool) {
		if s.Validated() {
			for v, r := range s.records() {
				if name := v.name(r); len(name) > 0 && !yield(name, r.content) {
					return
				}
			}
			return
		}
		for _, g := range s.packageBlobs() {
			if name := s.index.key(g.key); len(name) > 0 && !yield(name, s.contentOf(g.blobs)) {
				return
			}
		}
	}
}
