package output

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// Sort sorts rows by a field of their objects, a JSONPath as in kubectl get --sort-by. Rows without the field come first. Fields
// named version are compared as semantic versions, so that 1.9 comes before 1.10. An empty path keeps the order.
func Sort(rows []Row, by string) error {
	if by == "" || len(rows) == 0 {
		return nil
	}
	field, err := parseField(by)
	if err != nil {
		return exit.Usagef("--sort-by: %w", err)
	}
	type keyed struct {
		row Row
		key []any
	}
	all, found := make([]*keyed, len(rows)), false
	for i, row := range rows {
		values, err := valuesOf(row.Object, field)
		if err != nil {
			return exit.Usagef("--sort-by: %w", err)
		}
		all[i] = &keyed{row, values[:min(len(values), 1)]}
		found = found || len(values) > 0
	}
	if !found {
		return exit.Usagef("--sort-by: no object has the field %s", by)
	}
	compare := compareValues
	if name := strings.Trim(by, "{}."); strings.EqualFold(name[strings.LastIndexByte(name, '.')+1:], "version") {
		compare = func(a, b any) int { return fbc.CompareVersions(fmt.Sprint(a), fmt.Sprint(b)) }
	}
	slices.SortStableFunc(all, func(a, b *keyed) int { return slices.CompareFunc(a.key, b.key, compare) })
	for i, k := range all {
		rows[i] = k.row
	}
	return nil
}

// compareValues compares numbers by value, texts that are quantities by quantity, and others by text.
func compareValues(a, b any) int {
	x, isNumber := number(a)
	y, areNumbers := number(b)
	if isNumber && areNumbers {
		return cmp.Compare(x, y)
	}
	s, t := fmt.Sprint(a), fmt.Sprint(b)
	p, errP := resource.ParseQuantity(s)
	q, errQ := resource.ParseQuantity(t)
	if errP == nil && errQ == nil {
		return p.Cmp(q)
	}
	return strings.Compare(s, t)
}

func number(value any) (float64, bool) {
	switch n := value.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}
