// Package version compares versions of bundles.
package version

import (
	"cmp"

	"github.com/blang/semver/v4"
)

// Compare compares two versions of bundles by precedence (semver 2.0, section 11). Invalid versions are lower than all valid ones.
func Compare(a, b string) int {
	va, errA := semver.Parse(a)
	vb, errB := semver.Parse(b)
	switch {
	case errA != nil && errB != nil:
		return cmp.Compare(a, b)
	case errA != nil:
		return -1
	case errB != nil:
		return 1
	}
	return va.Compare(vb)
}

// Range has the lowest and the highest of several versions of a package.
type Range struct {
	From     string `json:"from"`
	To       string `json:"to"`
	Versions int    `json:"versions"` // their number
	Current  bool   `json:"current"`  // whether the current version is one of them
}

// Add adds a version of a package whose current version is current.
func (r *Range) Add(version, current string) {
	if r.Versions == 0 || Compare(version, r.From) < 0 {
		r.From = version
	}
	if r.Versions == 0 || Compare(version, r.To) > 0 {
		r.To = version
	}
	r.Versions++
	r.Current = r.Current || version == current
}
