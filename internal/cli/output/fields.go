package output

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/textwidth"
)

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
