package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"

	"github.com/operator-catalogs/catalogd/cmd/kubectl-catalog/internal/term"
)

// maxSuggested is how many names a suggestion has.
const maxSuggested = 3

// didYouMean is the end of a sentence on a name that there is not, with those of all names that may have been meant; empty if none may.
func didYouMean(name string, all []string) string {
	type candidate struct {
		name     string
		distance int
	}
	var near []candidate
	for _, other := range all {
		distance := levenshtein.ComputeDistance(strings.ToLower(name), strings.ToLower(other))
		within := len(name) > 2 && strings.Contains(strings.ToLower(other), strings.ToLower(name))
		if within || distance <= max(min(2, len(name)/2), len(name)/4) {
			near = append(near, candidate{other, distance})
		}
	}
	slices.SortFunc(near, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	var quoted []string
	for _, c := range slices.Compact(near) {
		if len(quoted) < maxSuggested && c.distance <= near[0].distance+1 { // of a slip of the finger the nearest is meant
			quoted = append(quoted, fmt.Sprintf("%q", term.Line(c.name)))
		}
	}
	if len(quoted) == 0 {
		return ""
	}
	return ": did you mean " + strings.Join(quoted, " or ") + "?"
}
