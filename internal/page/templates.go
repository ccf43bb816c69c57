package page

import (
	"embed"
	"fmt"
	"html/template"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

//go:embed templates/*.html
var templateFiles embed.FS

// parseTemplates returns the template of each page, with the layout.
func parseTemplates() map[string]*template.Template {
	names, err := templateFiles.ReadDir("templates")
	if err != nil {
		panic(err) // embedded files can be read
	}
	out := map[string]*template.Template{}
	for _, file := range names {
		name := file.Name()
		if name == "layout.html" {
			continue
		}
		out[name] = template.Must(template.New(name).Funcs(functions).
			ParseFS(templateFiles, "templates/layout.html", path.Join("templates", name)))
	}
	return out
}

// functions has the functions of all templates.
var functions = template.FuncMap{
	"short":    shorten,
	"initial":  initial,
	"counted":  counted,
	"bytes":    byteSize,
	"iso":      func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"when":     func(t time.Time) string { return t.UTC().Format("2 Jan 2006 15:04 UTC") },
	"digest":   shortDigest,
	"linkable": isLinkable,
	"shell":    shellText,
}

// shorten cuts a text to a number of characters.
func shorten(limit int, text string) string {
	if len(text) <= limit {
		return text
	}
	count, end := 0, 0
	for i := range text {
		if count == limit-1 {
			end = i
		}
		if count++; count > limit {
			return text[:end] + "…"
		}
	}
	return text
}

// initial returns the first letter or digit of a name in upper case. It replaces a missing icon.
func initial(name string) string {
	for _, r := range name {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return string(unicode.ToUpper(r))
		}
	}
	return "?"
}

// counted returns "1 package" or "3 packages".
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// byteSize returns a size with its unit, as in "114.2 MB".
func byteSize(n int64) string {
	size, unit := float64(n), "B"
	for _, next := range []string{"kB", "MB", "GB", "TB"} {
		if size < 1000 {
			break
		}
		size, unit = size/1000, next
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", size, unit)
}

// shortDigest returns the first 12 hex digits of a digest.
func shortDigest(digest string) string {
	_, hex, ok := strings.Cut(digest, ":")
	if !ok {
		return shorten(20, digest)
	}
	return hex[:min(12, len(hex))]
}

// maxMarks limits the combining characters of a letter. Languages need three or four.
const maxMarks = 8

// visible replaces characters that change how other text appears: control characters and bidirectional formatting characters
// (Unicode TR36, section 2.1). It drops excessive combining characters, which would cover other text. URLs in a page have none of
// these, because they are percent-encoded.
func visible(html []byte) []byte {
	out := make([]byte, 0, len(html))
	marks := 0
	for len(html) > 0 {
		r, size := utf8.DecodeRune(html)
		if marks++; !unicode.Is(unicode.M, r) {
			marks = 0
		}
		switch {
		case hidesText(r):
			out = utf8.AppendRune(out, unicode.ReplacementChar)
		case marks <= maxMarks:
			out = append(out, html[:size]...)
		}
		html = html[size:]
	}
	return out
}

func hidesText(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case unicode.IsControl(r), r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069, r == 0x200E, r == 0x200F, r == 0x061C, r == 0xFEFF:
		return true
	}
	return false
}
