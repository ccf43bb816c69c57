package version

import "testing"

func TestCompare(t *testing.T) {
	ordered := []string{"", "latest", "0.9.0", "1.0.0-rc.1", "1.0.0", "1.10.0"}
	for i, a := range ordered {
		for j, b := range ordered {
			got := Compare(a, b)
			if (i < j) != (got < 0) || (i > j) != (got > 0) {
				t.Errorf("Compare(%q, %q) = %d", a, b, got)
			}
		}
	}
}

func TestRange(t *testing.T) {
	var got Range
	for _, version := range []string{"1.9.0", "1.10.0", "1.2.0"} {
		got.Add(version, "1.10.0")
	}
	if want := (Range{From: "1.2.0", To: "1.10.0", Versions: 3, Current: true}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
