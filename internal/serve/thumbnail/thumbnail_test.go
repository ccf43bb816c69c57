package thumbnail

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"testing"
)

// picture is red on the left half and transparent on the right one.
func picture(width, height int) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width / 2 {
			img.SetNRGBA(x, y, color.NRGBA{R: 255, A: 255})
		}
	}
	return img
}

func encoded(tb testing.TB, encode func(*bytes.Buffer) error) []byte {
	tb.Helper()
	var out bytes.Buffer
	if err := encode(&out); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func pngOf(tb testing.TB, img image.Image) []byte {
	return encoded(tb, func(out *bytes.Buffer) error { return png.Encode(out, img) })
}

func jpegOf(tb testing.TB, img image.Image) []byte {
	return encoded(tb, func(out *bytes.Buffer) error { return jpeg.Encode(out, img, nil) })
}

func gifOf(tb testing.TB, img image.Image) []byte {
	return encoded(tb, func(out *bytes.Buffer) error { return gif.Encode(out, img, nil) })
}

// webP has one pixel.
func webP(tb testing.TB) []byte {
	tb.Helper()
	data, err := base64.StdEncoding.DecodeString("UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA")
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// withSize returns a PNG image whose header claims other dimensions.
func withSize(image []byte, width, height uint32) []byte {
	out := bytes.Clone(image)
	binary.BigEndian.PutUint32(out[16:], width)
	binary.BigEndian.PutUint32(out[20:], height)
	binary.BigEndian.PutUint32(out[29:], crc32.ChecksumIEEE(out[12:29]))
	return out
}

func TestMake(t *testing.T) {
	deep := image.NewRGBA64(image.Rect(0, 0, 90, 10))
	for name, c := range map[string]struct {
		data          []byte
		width, height int
	}{
		"PNG":            {pngOf(t, picture(400, 200)), 80, 40},
		"PNG, high":      {pngOf(t, picture(30, 4000)), 1, 80},
		"PNG, small":     {pngOf(t, picture(16, 8)), 16, 8},
		"PNG, 16 bits":   {pngOf(t, deep), 80, 9},
		"JPEG":           {jpegOf(t, picture(81, 81)), 80, 80},
		"GIF":            {gifOf(t, picture(100, 300)), 27, 80},
		"WebP":           {webP(t), 1, 1},
		"PNG and a text": {append(pngOf(t, picture(80, 80)), "text"...), 80, 80},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := Make(c.data, 80)
			if err != nil {
				t.Fatal(err)
			}
			got, err := png.Decode(bytes.NewReader(out))
			if err != nil || got.Bounds().Dx() != c.width || got.Bounds().Dy() != c.height {
				t.Errorf("got %v %v, want %d x %d", got.Bounds(), err, c.width, c.height)
			}
		})
	}
	out, err := Make(pngOf(t, picture(400, 200)), 80)
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	for x, want := range map[int]color.NRGBA{10: {R: 255, A: 255}, 70: {}} {
		if got := color.NRGBAModel.Convert(img.At(x, 20)); got != want {
			t.Errorf("at %d: got %v, want %v", x, got, want)
		}
	}
}

func TestMakeRefuses(t *testing.T) {
	small := pngOf(t, picture(20, 20))
	for name, data := range map[string][]byte{
		"nothing":   nil,
		"a text":    []byte("text"),
		"an SVG":    []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`),
		"truncated": small[:len(small)-20],
		"no pixels": withSize(small, 0, 10),
	} {
		if out, err := Make(data, 80); err == nil || errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: got %d bytes, %v", name, len(out), err)
		}
	}
	for name, data := range map[string][]byte{
		"pixels": withSize(small, 6000, 6000), "memory": withSize(small, 4200, 4200), "width": withSize(small, 1<<20, 1),
		"an overflow": withSize(small, 1<<31-1, 1<<31-1), "memory of a JPEG": jpegOf(t, image.NewGray(image.Rect(0, 0, 2200, 2200))),
		// With a transparent shade, these are decoded to all channels.
		"memory of gray":         withSize(pngOf(t, image.NewGray(image.Rect(0, 0, 9, 9))), 4200, 4200),
		"memory of gray, 16 bit": withSize(pngOf(t, image.NewGray16(image.Rect(0, 0, 9, 9))), 3000, 3000),
	} {
		if _, err := Make(data, 80); err == nil || name != "an overflow" && !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: got error %v", name, err)
		}
	}
}

// FuzzMake checks that any input gives a small PNG or an error.
func FuzzMake(f *testing.F) {
	img := picture(90, 60)
	for _, seed := range [][]byte{pngOf(f, img), jpegOf(f, img), gifOf(f, img), webP(f), withSize(pngOf(f, img), 3000, 3000), []byte("BM")} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := Make(data, 16)
		if err != nil {
			return
		}
		cfg, err := png.DecodeConfig(bytes.NewReader(out))
		if err != nil || cfg.Width > 16 || cfg.Height > 16 || len(out) > 4096 {
			t.Errorf("got %d bytes, %+v, %v", len(out), cfg, err)
		}
	})
}
