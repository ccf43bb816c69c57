package fbc

import (
	"testing"
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
