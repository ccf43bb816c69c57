// Package output writes for people: tables that fit the terminal, colours where they are wanted, and the texts of catalogs without what could
// play tricks on a terminal. What is written to a file or a pipe is neither cut nor coloured.
package output

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
)

// A Terminal is where output goes to.
type Terminal struct {
	io.Writer
	Width   int  // in columns; 0: nothing is to be cut
	Colours bool // whether styles are shown
	Live    bool // whether a line can be written over: a terminal that a person looks at
}

// New tells what w is. getenv is os.Getenv: NO_COLOR (no-color.org) and TERM=dumb take the colours away, COLUMNS says how wide it is.
func New(w io.Writer, getenv func(string) string) *Terminal {
	t := &Terminal{Writer: w}
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		t.Live = getenv("TERM") != "dumb"
		t.Colours = t.Live && getenv("NO_COLOR") == ""
		t.Width, _, _ = term.GetSize(int(file.Fd()))
	}
	if columns, err := strconv.Atoi(getenv("COLUMNS")); err == nil && columns > 0 {
		t.Width = columns
	}
	return t
}

// A Style is how a text is shown. The zero Style is plain.
type Style string

// The styles, by their codes of ECMA-48 (SGR): the 16 colours that every terminal has, as its owner chose them.
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

// Paint shows a text in a style.
func (t *Terminal) Paint(style Style, text string) string {
	if !t.Colours || style == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(style) + "m" + text + "\x1b[0m"
}

// Line makes one line of a text that came from elsewhere: no control characters, which could write over other lines or worse, and none that
// change the direction of what follows.
func Line(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case isHarmful(r):
			return unicode.ReplacementChar
		}
		return r
	}, text))
}

// Text is Line for texts of many lines.
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

// JSON is Text for JSON: what is harmful is escaped there, so that the JSON says the same.
func JSON(text string) string {
	if strings.IndexFunc(text, isEscaped) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if isEscaped(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// isEscaped leaves line ends and tabs, which stand between the values of JSON only.
func isEscaped(r rune) bool { return isHarmful(r) && r != '\n' && r != '\r' && r != '\t' }

func isHarmful(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

// width is how many columns a text takes. The ambiguous characters of Unicode are taken to be narrow, as terminals do outside East Asia.
func width(text string) int { return narrow.StringWidth(text) }

var narrow = &runewidth.Condition{}

// Cut shortens a text to a width, with an ellipsis.
func Cut(text string, most int) string {
	if width(text) <= most {
		return text
	}
	return narrow.Truncate(text, most, "…")
}

// cutCell shortens a name in the middle, as names begin alike and end with a version, and other texts at their end.
func cutCell(text string, most int) string {
	if width(text) <= most || most < enough || strings.Contains(text, " ") {
		return Cut(text, most)
	}
	begin := narrow.Truncate(text, (most-1)/2, "")
	return begin + narrow.TruncatePrefix(text, most-width(begin), "…")
}
