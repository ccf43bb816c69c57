// Package thumbnail shrinks the icons of packages. The icons are untrusted.
package thumbnail

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/gif" // registers the format
	_ "image/jpeg"
	"image/png"

	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp" // registers the format
)

const (
	// maxPixels and maxMemory limit a decoded image. The largest known icon has 9 megapixels and takes 35 MB.
	maxPixels = 25_000_000
	maxMemory = 64 << 20
	maxSide   = 1 << 16
)

// ErrTooLarge is the error for an image that exceeds the limits of pixels or memory.
var ErrTooLarge = errors.New("the image is too large")

// Make decodes a PNG, JPEG, GIF or WebP image, shrinks it to fit a square of side pixels, and encodes it as PNG. It does not
// enlarge a smaller image. It checks the dimensions before it decodes the image, which takes at most 64 MiB.
func Make(data []byte, side int) ([]byte, error) {
	cfg, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if cfg.Width < 1 || cfg.Height < 1 || cfg.Width > maxSide || cfg.Height > maxSide || cfg.Width*cfg.Height > maxPixels ||
		cfg.Width*cfg.Height*pixelBytes(format, cfg.ColorModel) > maxMemory {
		return nil, fmt.Errorf("%w: %d x %d pixels", ErrTooLarge, cfg.Width, cfg.Height)
	}
	src, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	bounds := src.Bounds()
	width, height := fit(bounds.Dx(), bounds.Dy(), side)
	dst := image.NewNRGBA(image.Rect(0, 0, width, height))
	if bounds.Dx() == width && bounds.Dy() == height {
		draw.Draw(dst, dst.Bounds(), src, bounds.Min, draw.Src)
	} else {
		draw.CatmullRom.Scale(dst, dst.Bounds(), src, bounds, draw.Src, nil)
	}
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	err = encoder.Encode(&out, withPalette(dst))
	return out.Bytes(), err
}

// pixelBytes returns the maximum memory for decoding, in bytes per pixel.
func pixelBytes(format string, model color.Model) int {
	if format == "jpeg" {
		return 15 // a progressive one: coefficients of 4 bytes, and the result, for three components
	}
	switch model {
	case color.Gray16Model, color.RGBA64Model, color.NRGBA64Model: // a gray one gets all channels if a chunk makes a shade transparent
		return 8
	}
	if _, ok := model.(color.Palette); ok {
		return 1
	}
	return 4
}

// fit returns the dimensions of an image after shrinking it to a square.
func fit(width, height, side int) (int, int) {
	if width <= side && height <= side {
		return width, height
	}
	if width > height {
		return side, max(1, (height*side+width/2)/width)
	}
	return max(1, (width*side+height/2)/height), side
}

// withPalette converts an image with at most 256 colors to a paletted image, which is smaller as PNG.
func withPalette(src *image.NRGBA) image.Image {
	out := image.NewPaletted(src.Bounds(), nil)
	known := map[color.NRGBA]uint8{}
	for y := range src.Bounds().Dy() {
		for x := range src.Bounds().Dx() {
			c := src.NRGBAAt(x, y)
			if c.A == 0 {
				c = color.NRGBA{}
			}
			i, ok := known[c]
			if !ok {
				if len(known) == 256 {
					return src
				}
				i = uint8(len(known))
				known[c] = i
				out.Palette = append(out.Palette, c)
			}
			out.SetColorIndex(x, y, i)
		}
	}
	return out
}
