package fbc

import (
	"testing"

	"github.com/blang/semver/v4"
)

func TestCompareVersions(t *testing.T) {
	ordered := []string{"", "latest", "0.9.0", "1.0.0-rc.1", "1.0.0", "1.10.0"}
	for i, a := range ordered {
		for j, b := range ordered {
			got := CompareVersions(a, b)
			if (i < j) != (got < 0) || (i > j) != (got > 0) {
				t.Errorf("CompareVersions(%q, %q) = %d", a, b, got)
			}
		}
	}
}

func TestIsDowngrade(t *testing.T) {
	for _, test := range []struct {
		from, to string
		want     bool
	}{
		{"1.9.5", "1.5.3", true},
		{"1.9.0", "1.10.0", false},
		{"1.0.1", "1.0.1-1", false},
		{"1.0.1-2", "1.0.1-1", false},
		{"1.0.2-1", "1.0.1", true},
		{"1.0.1", "1.0.1", false},
	} {
		if got := IsDowngrade(semver.MustParse(test.from), semver.MustParse(test.to)); got != test.want {
			t.Errorf("from %s to %s: got %v", test.from, test.to, got)
		}
	}
}
