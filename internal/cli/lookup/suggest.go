package lookup

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"

	"github.com/operator-catalogs/catalogd/internal/cli/output"
)

// Limits of a suggestion and of a list of all names.
const (
	maxSuggested = 3
	maxListed    = 8
)

// DidYouMean returns the end of a sentence with the names that are similar to an unknown one. It is empty if none is.
func DidYouMean(name string, all []string) string {
	type candidate struct {
		name     string
		distance int
	}
	var sharing, near []candidate
	for _, other := range all {
		lower, asked := strings.ToLower(other), strings.ToLower(name)
		c := candidate{other, levenshtein.ComputeDistance(asked, lower)}
		first, _, isLonger := strings.Cut(lower, "-")
		switch {
		case len(name) > 2 && strings.Contains(lower, asked), len(other) > 2 && strings.Contains("-"+asked+"-", "-"+lower+"-"):
			sharing = append(sharing, c)
		case c.distance <= max(min(2, len(name)/2), len(name)/4),
			isLonger && len(name) > maxSuggested && levenshtein.ComputeDistance(asked, first) <= 1: // skuper: skupper-operator
			near = append(near, c)
		}
	}
	byDistance := func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	}
	slices.SortFunc(sharing, byDistance)
	slices.SortFunc(near, byDistance)
	near = slices.DeleteFunc(near, func(c candidate) bool { return c.distance > near[0].distance+1 }) // a typo means the nearest
	var quoted []string
	for _, c := range slices.Compact(append(sharing, near...)) {
		if len(quoted) < maxSuggested {
			quoted = append(quoted, fmt.Sprintf("%q", output.Line(c.name)))
		}
	}
	if len(quoted) == 0 {
		return ""
	}
	return ": did you mean " + strings.Join(quoted, " or ") + "?"
}

// OrListed is DidYouMean but, if no name is similar, lists the first of the existing names.
func OrListed(name string, all []string) string {
	if near := DidYouMean(name, all); near != "" || len(all) == 0 {
		return near
	}
	var distinct []string // several catalogs may have the same name
	for _, other := range all {
		if line := output.Line(other); !slices.Contains(distinct, line) {
			distinct = append(distinct, line)
		}
	}
	return "; it has " + output.First(distinct, maxListed)
}
