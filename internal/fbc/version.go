package fbc

import (
	"cmp"

	"github.com/blang/semver/v4"
)

// CompareVersions compares two versions of bundles by precedence (semver 2.0, section 11). What is none comes before all that are.
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

// IsDowngrade tells whether an upgrade leads to a lower version. What stands behind a hyphen does not count: some write 1.0.1-1 where 1.0.1 is
// published again.
func IsDowngrade(from, to semver.Version) bool {
	return to.FinalizeVersion() != from.FinalizeVersion() && to.LT(from)
}
