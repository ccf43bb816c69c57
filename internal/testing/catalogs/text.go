package catalogs

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
)

var syllables = strings.Fields("ba co de fir ga hel in jo ka lo mi net or pa qua re so ter ul ver wa xe yo zen st th")

// word returns a word of two to four syllables.
func word(r *rand.Rand) string {
	var b strings.Builder
	for range 2 + r.IntN(3) {
		b.WriteString(syllables[r.IntN(len(syllables))])
	}
	return b.String()
}

// writer makes text of a vocabulary in which some words are much more frequent than others.
type writer struct {
	r     *rand.Rand
	words []string
}

func newWriter(r *rand.Rand) *writer {
	const vocabulary = 1200
	w := &writer{r: r, words: make([]string, vocabulary)}
	for i := range w.words {
		w.words[i] = word(r)
	}
	return w
}

func (w *writer) word() string {
	return w.words[int(float64(len(w.words))*math.Pow(w.r.Float64(), 3.2))]
}

// text returns sentences of n bytes, plus up to one word, with occasional line breaks and characters that JSON
// escapes.
func (w *writer) text(n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(w.word())
		switch w.r.IntN(40) {
		case 0:
			b.WriteString(".\n\n")
		case 1:
			b.WriteString(", \"")
			b.WriteString(w.word())
			b.WriteString("\" ")
		case 2:
			b.WriteString("\n* `--")
			b.WriteString(w.word())
			b.WriteString("` <")
			b.WriteString(w.word())
			b.WriteString("> ")
		default:
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// identifier returns words in camel case.
func (w *writer) identifier(words int) string {
	var b strings.Builder
	for range words {
		next := w.word()
		b.WriteString(strings.ToUpper(next[:1]) + next[1:])
	}
	return b.String()
}

// hex returns n random hexadecimal digits.
func (w *writer) hex(n int) string {
	const digits = "0123456789abcdef"
	b := make([]byte, n)
	for i := range b {
		b[i] = digits[w.r.IntN(len(digits))]
	}
	return string(b)
}

func (w *writer) image(repository string) string {
	return "quay.io/bench/" + repository + "@sha256:" + w.hex(64)
}

// icon returns an image of n bytes in base64, and its type: an SVG drawing, or data that begins like a PNG.
func (w *writer) icon(n int) (data, mediaType string) {
	var b strings.Builder
	raw := n * 3 / 4
	if w.r.IntN(2) == 0 {
		b.WriteString("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
		for b.Len() < raw {
			b.WriteByte(byte(w.r.UintN(256)))
		}
		return base64.StdEncoding.EncodeToString([]byte(b.String())), "image/png"
	}
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?><svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 512 512"><path d="M0 0`)
	for b.Len() < raw-20 {
		fmt.Fprintf(&b, "c%.2f,%.2f,%.1f,%.2f,%.1f,%.2f", w.coordinate(), w.coordinate(), w.coordinate(), w.coordinate(), w.coordinate(),
			w.coordinate())
	}
	b.WriteString(`z"/></svg>`)
	return base64.StdEncoding.EncodeToString([]byte(b.String())), "image/svg+xml"
}

func (w *writer) coordinate() float64 { return w.r.Float64()*120 - 60 }
