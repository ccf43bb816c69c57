package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// ErrNotValidated reports that the packages of a snapshot are not validated yet.
var ErrNotValidated = errors.New("the packages of the catalog are not validated yet")

// Validated reports whether the packages are validated. They are not in the first seconds of a catalog's first content, or
// after a crash in them.
func (s *Snapshot) Validated() bool { return s.validation.Load() != nil }

// Packages returns the valid packages, sorted by name; none before the validation.
func (s *Snapshot) Packages() []PackageVersion {
	var out []PackageVersion
	for v, r := range s.records() {
		if r.valid() {
			out = append(out, PackageVersion{Name: string(v.name(r)), Hash: r.content.String()})
		}
	}
	return out
}

// PackageHash returns the hash of a package, valid or not, as in PackageVersion; "" if it is missing or not validated.
func (s *Snapshot) PackageHash(name string) string {
	if _, r, ok := s.record(name); ok {
		return r.content.String()
	}
	return ""
}

// IsValid reports whether a package exists and is valid; false before the validation.
func (s *Snapshot) IsValid(name string) bool {
	_, r, ok := s.record(name)
	return ok && r.valid()
}

// InvalidPackageCount returns the number of invalid packages; 0 before the validation.
func (s *Snapshot) InvalidPackageCount() (n int) {
	for _, r := range s.records() {
		if !r.valid() {
			n++
		}
	}
	return n
}

// InvalidPackages returns the invalid packages, sorted by name; none before the validation.
func (s *Snapshot) InvalidPackages() ([]InvalidPackage, error) {
	var out []InvalidPackage
	for v, r := range s.records() {
		if r.valid() {
			continue
		}
		invalid, err := decode[InvalidPackage](v, r, r.first)
		if err != nil {
			return nil, err
		}
		invalid.Hash = r.content.String()
		out = append(out, invalid)
	}
	return out, nil
}

// Summaries returns the summaries of the valid packages, sorted by name. It reads them one by one. An error, such as
// ErrNotValidated, ends the sequence.
func (s *Snapshot) Summaries() iter.Seq2[fbc.Summary, error] {
	return s.SummariesIf(func([]byte) bool { return true })
}

// SummariesIf is Summaries without the packages for which may returns false. The argument of may is the summary as JSON. That JSON
// escapes only quotes, backslashes, control characters, U+2028, U+2029 and U+FFFD. Skipping a summary saves decoding it, which takes
// ten times as long.
func (s *Snapshot) SummariesIf(may func(summary []byte) bool) iter.Seq2[fbc.Summary, error] {
	return func(yield func(fbc.Summary, error) bool) {
		if !s.Validated() {
			yield(fbc.Summary{}, ErrNotValidated)
			return
		}
		for v, r := range s.records() {
			if !r.valid() {
				continue
			}
			var summary fbc.Summary
			line, err := v.line(r, r.first)
			if err == nil && !may(line) {
				continue
			}
			if err == nil {
				err = json.Unmarshal(line, &summary)
			}
			if !yield(summary, err) || err != nil {
				return
			}
		}
	}
}

// Summary returns the summary of a valid package and reads no other. The error can be ErrNotValidated.
func (s *Snapshot) Summary(name string) (summary fbc.Summary, ok bool, err error) {
	v, r, ok := s.record(name)
	if v == nil {
		return summary, false, ErrNotValidated
	}
	if !ok || !r.valid() {
		return summary, false, nil
	}
	summary, err = decode[fbc.Summary](v, r, r.first)
	return summary, err == nil, err
}

// LoadPackage returns a valid package as the validation loaded it. The error can be ErrNotValidated.
func (s *Snapshot) LoadPackage(name string) (*fbc.Package, error) {
	v, r, ok := s.record(name)
	if v == nil {
		return nil, ErrNotValidated
	}
	if !ok || !r.valid() {
		return nil, fmt.Errorf("valid package %q not found", name)
	}
	pkg, err := decode[fbc.Package](v, r, r.second)
	return &pkg, err
}

// records returns the records of all packages, sorted by name.
func (s *Snapshot) records() iter.Seq2[*validation, packageRecord] {
	return func(yield func(*validation, packageRecord) bool) {
		v := s.validation.Load()
		for i := 0; v != nil && i < v.count() && yield(v, v.at(i)); i++ {
		}
	}
}

// record returns the record of a package. The validation is nil before it is done.
func (s *Snapshot) record(name string) (v *validation, r packageRecord, ok bool) {
	if v = s.validation.Load(); v != nil {
		r, ok = v.find(name)
	}
	return v, r, ok
}

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
