package e2e

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/testing/browser"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// TestPagePictures writes the pictures of the README, with flag -update: `make page-pictures`.
func TestPagePictures(t *testing.T) {
	if !*updateGolden {
		t.Skip("flag -update is not set")
	}
	chromium := browser.Start(t)
	w := newWorld(t, shared, "--page")
	ref, digest := w.registry.push(t, "sample", catalogImage(t, sampleCatalog))
	w.createCatalog(t, "sample", ref, nil)
	w.waitReady(t, "sample", digest)
	tab := chromium.Tab(t, browser.Options{Width: 1200, Height: 900})
	for name, path := range map[string]string{"packages": "/", "channel": stable + "?from=1.9.2"} {
		tab.Open(w.page(path))
		tab.Wait("[...document.images].every(i => i.complete)")
		dir := filepath.Join("..", "docs", "images")
		must.Succeed(t, os.MkdirAll(dir, 0o755))
		picture := small(t, tab.Picture())
		if len(picture) > 100_000 {
			t.Errorf("%s has %d bytes", name, len(picture))
		}
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644))
	}
}

// small reduces a picture to its 256 most frequent colors.
func small(t *testing.T, content []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(content))
	must.Succeed(t, err)
	bounds := full.Bounds()
	count := map[color.Color]int{}
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			count[full.At(x, y)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return cmp.Compare(count[b], count[a]) })
	reduced := image.NewPaletted(bounds, colors[:min(256, len(colors))])
	nearest := map[color.Color]uint8{}
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			c := full.At(x, y)
			i, ok := nearest[c]
			if !ok {
				i = uint8(reduced.Palette.Index(c))
				nearest[c] = i
			}
			reduced.SetColorIndex(x, y, i)
		}
	}
	var out bytes.Buffer
	must.Succeed(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, reduced))
	return out.Bytes()
}
