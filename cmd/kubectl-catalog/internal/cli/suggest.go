package cli

import (
	"cmp"
	"context"
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

// noPackage is the error of a package that is not in a catalog, or with an empty catalog in any.
func (e *env) noPackage(ctx context.Context, name, catalog string) error {
	completions, err := e.packageNames(ctx, completionScope{catalog: catalog})
	if err != nil {
		return missing(err, catalog)
	}
	names := make([]string, len(completions))
	for i, c := range completions {
		names[i], _, _ = strings.Cut(c, "\t")
	}
	hint := didYouMean(name, names)
	if hint == "" {
		hint = ": kubectl catalog search WORDS finds packages"
	}
	return notFoundf("there is no package %q%s%s", name, getOptions{catalog: catalog}.where(), hint)
}

// noCatalog is the error of a catalog that does not exist.
func (e *env) noCatalog(ctx context.Context, name string) error {
	var names []string
	catalogs, _ := e.catalogs(ctx, nil, "", "")
	for _, c := range catalogs {
		names = append(names, c.Name)
	}
	if hint := didYouMean(name, names); hint != "" {
		return notFoundf("there is no catalog %q%s", name, hint)
	}
	return notFoundf("there is no catalog %q: kubectl catalog list shows those there are", name)
}
