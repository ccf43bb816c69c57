package channel

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/blang/semver/v4"
)

// Clean returns a text from a catalog as one line without control characters.
func Clean(text string) string {
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

// Label returns the version of a bundle, or its name if the version is unknown.
func (g *Graph) Label(name string) string {
	if i, ok := g.index[name]; ok {
		if g.nodes[i].version != nil {
			return g.nodes[i].Version
		}
		return Clean(name)
	}
	if v := versionIn(name); v != nil && g.IsConventional(name, v.String()) {
		return v.String()
	}
	return Clean(name)
}

// Labels returns the labels of the first limit bundles and the number of the others: "1.0.0, 1.1.0 and 3 more".
func (g *Graph) Labels(names []string, limit int) string {
	labels := make([]string, 0, limit)
	for _, name := range names[:min(limit, len(names))] {
		labels = append(labels, g.Label(name))
	}
	text := strings.Join(labels, ", ")
	if more := len(names) - limit; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// IsConventional reports whether a bundle name is a version after the package name, or after the prefix of the head's name.
func (g *Graph) IsConventional(name, version string) bool {
	stem := strings.TrimSuffix(strings.TrimSuffix(name, version), "v")
	return stem != name && (stem == g.Channel.Package+"." || stem == g.stem)
}

// NewestFirst sorts bundle names by version. The version of a bundle that is not an entry is the suffix of its name;
// bundles without a version are last.
func (g *Graph) NewestFirst(names []string) []string {
	version := func(name string) *semver.Version {
		if i, ok := g.index[name]; ok {
			return g.nodes[i].version
		}
		return versionIn(name)
	}
	return slices.SortedStableFunc(slices.Values(names), func(a, b string) int { return compareVersions(version(b), version(a)) })
}

// versionIn returns the version at the end of a bundle name such as foo.v1.2.0, or nil.
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
