package cli

import (
	"testing"
)

func TestSkew(t *testing.T) {
	for _, c := range []struct {
		client, server string
		warns          bool
	}{
		{"v1.2.0", "v1.2.9", false},
		{"v1.2.0", "v1.3.0", false},
		{"v1.3.0", "v1.2.0", false},
		{"v1.2.0", "v1.4.0", true},
		{"v1.4.0", "v1.2.0", true},
		{"v1.2.0", "v2.2.0", true},
		{"v1.2.0-4-gabcdef0", "v1.2.0", false},
		{"unknown", "v1.2.0", false},
		{"v1.2.0", "60bfc11-dirty", false},
	} {
		if got := skew(c.client, c.server); (got != "") != c.warns {
			t.Errorf("%s and %s: %q", c.client, c.server, got)
		}
	}
}
