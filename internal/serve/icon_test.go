package serve

import (
	"maps"
	"slices"
	"testing"
)

// FuzzIconType holds that nothing is served as a type that is not on the list, whatever a catalog
// claims or contains.
func FuzzIconType(f *testing.F) {
	f.Add([]byte("<svg/>"), "")
	f.Add([]byte("<html><svg/></html>"), "")
	f.Add([]byte("<!DOCTYPE html>"), "image/png, text/html")
	f.Add([]byte("<?xml version='1.0' encoding='utf-7'?><svg:svg xmlns:svg='x'>"), " ")
	f.Add([]byte("GIF89a"), "text/html; charset=\"image/png\"")
	safe := append(slices.Collect(maps.Values(imageTypes)), typeBytes)
	f.Fuzz(func(t *testing.T, data []byte, claimed string) {
		if got := iconType(data, claimed); !slices.Contains(safe, got) {
			t.Errorf("iconType(%q, %q) = %q", data, claimed, got)
		}
	})
}
