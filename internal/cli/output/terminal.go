// Package output prints values: tables that fit the terminal, the formats of kubectl, colors, Markdown and progress. It knows no cluster.
//
// Texts of catalogs are printed without characters that could harm a terminal. Output to a file or a pipe is neither cut nor colored.
package output

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/term"

	"github.com/operator-catalogs/catalogd/internal/textwidth"
)

// A Terminal is the destination of output: a terminal, a file or a pipe.
type Terminal struct {
	io.Writer
	Width  int  // in columns; 0: unlimited
	Colors bool // whether styles are shown
	Live   bool // whether lines can be overwritten
}

// New returns the Terminal of w. getenv is os.Getenv: NO_COLOR (no-color.org) and TERM=dumb disable colors, COLUMNS sets the width.
func New(w io.Writer, getenv func(string) string) *Terminal {
	t := &Terminal{Writer: w}
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		t.Live = getenv("TERM") != "dumb"
		t.Colors = t.Live && getenv("NO_COLOR") == ""
		t.Width, _, _ = term.GetSize(int(file.Fd()))
	}
	if columns, err := strconv.Atoi(getenv("COLUMNS")); err == nil && columns > 0 {
		t.Width = columns
	}
	return t
}

// Title prints a heading.
func (t *Terminal) Title(text string) error {
	_, err := fmt.Fprintf(t, "\n%s\n", t.Paint(Bold, text))
	return err
}

// Warnf prints a warning.
func (t *Terminal) Warnf(format string, args ...any) {
	fmt.Fprintf(t, "%s %s\n", t.Paint(Yellow, "warning:"), Line(fmt.Sprintf(format, args...)))
}

// Clean returns the function that makes a text harmless for the terminal: JSON for JSON, Text otherwise. Files and
// pipes get the text unchanged.
func (t *Terminal) Clean(json bool) func(string) string {
	switch {
	case !t.Live:
		return func(text string) string { return text }
	case json:
		return JSON
	}
	return Text
}

// A Style of text. The zero Style is plain.
type Style string

// Styles are the parameters of SGR (ECMA-48). They use the 16 colors of the user's palette.
const (
	Plain     Style = ""
	Bold      Style = "1"
	Faint     Style = "2"
	Italic    Style = "3"
	Underline Style = "4"
	Red       Style = "31"
	Green     Style = "32"
	Yellow    Style = "33"
	Cyan      Style = "36"
)

// Paint returns a text in a style.
func (t *Terminal) Paint(style Style, text string) string {
	if !t.Colors || style == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(style) + "m" + text + "\x1b[0m"
}

// Line returns an untrusted text as one line, without control characters and characters that change the direction of writing.
func Line(text string) string {
	text = Text(strings.ReplaceAll(text, "\r", " "))
	return strings.TrimSpace(strings.ReplaceAll(text, "\n", " "))
}

// Text is Line for several lines.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r == '\t':
			return ' '
		case r == '\r':
			return -1
		case isHarmful(r):
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// JSON is Text for JSON. Harmful characters are escaped, so the value stays the same.
func JSON(text string) string {
	return escape(text, func(r rune) bool {
		return isHarmful(r) && r != '\n' && r != '\r' && r != '\t' // in JSON, these three occur only between values
	})
}

// escape escapes the selected characters of JSON, which are at most U+FFFF.
func escape(text string, selected func(rune) bool) string {
	var b strings.Builder
	for _, r := range text {
		if selected(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isHarmful(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

// Fields writes labels and values like `kubectl describe`. It wraps long values and omits empty ones.
func (t *Terminal) Fields(indent int, pairs ...[2]string) error {
	pairs = slices.DeleteFunc(slices.Clone(pairs), func(p [2]string) bool { return p[1] == "" })
	widest := 0
	for _, p := range pairs {
		widest = max(widest, textwidth.Of(p[0]))
	}
	begin := indent + widest + 3
	for _, p := range pairs {
		label := p[0] + ":" + strings.Repeat(" ", widest-textwidth.Of(p[0]))
		lines := t.Wrap(strings.TrimRight(p[1], "\n"), begin)
		value := strings.Join(lines, "\n"+strings.Repeat(" ", begin))
		if _, err := fmt.Fprintf(t, "%s%s  %s\n", strings.Repeat(" ", indent), t.Paint(Bold, label), value); err != nil {
			return err
		}
	}
	return nil
}

// leastText is the minimum width of wrapped text.
const leastText = 20

// Wrap breaks a text that starts at column begin into lines, at spaces.
func (t *Terminal) Wrap(text string, begin int) []string {
	lines := strings.Split(text, "\n")
	if t.Width == 0 {
		return lines
	}
	var wrapped []string
	for _, line := range lines {
		wrapped = append(wrapped, fill(strings.Split(line, " "), max(t.Width-begin, leastText))...)
	}
	return wrapped
}

// fill joins words to lines of at most limit columns. Longer words stay whole, so that addresses and digests can be copied.
func fill(words []string, limit int) []string {
	var lines []string
	line := words[0]
	for _, word := range words[1:] {
		if textwidth.Of(unpainted(line+" "+word)) > limit {
			lines = append(lines, line)
			line = word
		} else {
			line += " " + word
		}
	}
	return append(lines, line)
}

var painting = regexp.MustCompile("\x1b\\[[0-9;]*m")

// unpainted returns a text without the escape sequences of Paint.
func unpainted(text string) string { return painting.ReplaceAllString(text, "") }
