package upgrade

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/blang/semver/v4"
	"golang.org/x/text/width"
)

// clean makes one line of a text that a catalog brought, without anything that acts on a terminal.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(text, string(unicode.ReplacementChar)))
}

// label is what a bundle is called where the package is known: its version, if it has one that can be read, else its name.
func (g *Graph) label(name string) string {
	if i, ok := g.index[name]; ok {
		if g.nodes[i].version != nil {
			return g.nodes[i].Version
		}
		return clean(name)
	}
	if v := versionIn(name); v != nil && g.isConventional(name, v.String()) {
		return v.String()
	}
	return clean(name)
}

// labels names the first of some bundles, and how many more there are.
func (g *Graph) labels(names []string, most int) string {
	var b strings.Builder
	for i, name := range names {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(names)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(g.label(name))
	}
	return b.String()
}

// isConventional tells whether the name of a bundle follows from the version: it begins with the name of the package, as by convention, or as
// that of the head does.
func (g *Graph) isConventional(name, version string) bool {
	stem := strings.TrimSuffix(strings.TrimSuffix(name, version), "v")
	return stem != name && (stem == g.Channel.Package+"." || stem == g.stem)
}

// versionIn is the version that the name of a bundle ends with, as foo.v1.2.0 does; nil if there is none.
func versionIn(name string) *semver.Version {
	for i, r := range name {
		if r != '.' && r != '-' {
			continue
		}
		if v := parseVersion(strings.TrimPrefix(name[i+1:], "v")); v != nil {
			return v
		}
	}
	return nil
}

// displayWidth is how many columns of a terminal a text takes that clean gave.
func displayWidth(text string) int {
	n := 0
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// truncate cuts a text to a width, the mark that says so included.
func truncate(text string, most int, mark string) string {
	if displayWidth(text) <= most {
		return text
	}
	left := most - displayWidth(mark)
	if left < 0 {
		return ""
	}
	for i, r := range text {
		if left -= runeWidth(r); left < 0 {
			return strings.TrimRight(text[:i], " ") + mark
		}
	}
	return text
}
