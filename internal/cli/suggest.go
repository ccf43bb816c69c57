package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/cobra"

	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

// How many names a suggestion has, and a list of all there are.
const (
	maxSuggested = 3
	maxListed    = 8
)

// didYouMean is the end of a sentence on a name that there is not, with those of all names that may have been meant; empty if none may.
func didYouMean(name string, all []string) string {
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
	near = slices.DeleteFunc(near, func(c candidate) bool { return c.distance > near[0].distance+1 }) // of a slip of the finger the nearest is meant
	var quoted []string
	for _, c := range slices.Compact(append(sharing, near...)) {
		if len(quoted) < maxSuggested {
			quoted = append(quoted, fmt.Sprintf("%q", term.Line(c.name)))
		}
	}
	if len(quoted) == 0 {
		return ""
	}
	return ": did you mean " + strings.Join(quoted, " or ") + "?"
}

// distinct leaves out what stood before.
func distinct(names []string) []string {
	var kept []string
	for _, name := range names {
		if !slices.Contains(kept, name) {
			kept = append(kept, name)
		}
	}
	return kept
}

// namesOf are the names that completions complete to.
func namesOf(completions []cobra.Completion) []string {
	names := make([]string, len(completions))
	for i, c := range completions {
		names[i], _, _ = strings.Cut(c, "\t")
	}
	return names
}

// orListed is didYouMean or, where no name is like the one that was asked for, the first of those that there are.
func orListed(name string, all []string) string {
	if near := didYouMean(name, all); near != "" || len(all) == 0 {
		return near
	}
	all = distinct(all) // several catalogs may have the same
	text := ": there is "
	if len(all) > 1 {
		text = ": there are "
	}
	for i, other := range all[:min(len(all), maxListed)] {
		if i > 0 {
			text += ", "
		}
		text += term.Line(other)
	}
	if len(all) > maxListed {
		text += fmt.Sprintf(" and %d more", len(all)-maxListed)
	}
	return text
}
