package fbc

import (
	"cmp"

	"github.com/blang/semver/v4"
)

// CompareVersions compares two versions of bundles by precedence (semver 2.0, section 11). Invalid versions are
// lower than all valid ones.
func CompareVersions(a, b string) int {
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
