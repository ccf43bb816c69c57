package graph

import (
	"encoding/json"
	"strings"
	"testing"
)

// The values of first are those of gqlparser: of a literal or a default, of a variable, and null.
func TestComplexityOfConnections(t *testing.T) {
	const child = 3
	for name, c := range map[string]struct {
		field string
		args  map[string]any
		child int
		want  int // 0: the default complexity
	}{
		"literal":                {"Query.packages", map[string]any{"first": int64(10)}, child, 50 + 10*child},
		"variable":               {"Query.channels", map[string]any{"first": json.Number("10")}, child, 20 + 10*child},
		"null":                   {"Query.bundles", map[string]any{"first": nil}, child, 20 + DefaultFirst*child},
		"absent":                 {"Query.deprecations", nil, child, 20 + DefaultFirst*child},
		"zero":                   {"Query.blobs", map[string]any{"first": int64(0)}, child, 20 + child},
		"negative":               {"Package.bundles", map[string]any{"first": json.Number("-2147483648")}, child, 1 + child},
		"more than allowed":      {"Package.blobs", map[string]any{"first": int64(2147483647)}, child, 1 + MaxFirst*child},
		"no number":              {"Query.packages", map[string]any{"first": json.Number("1.5")}, child, 0},
		"another type":           {"Query.packages", map[string]any{"first": true}, child, 0},
		"an expensive selection": {"Query.packages", map[string]any{"first": int64(100)}, 1<<63 - 1, 50 + 100<<40},
		"no connection":          {"Query.package", map[string]any{"first": int64(10)}, child, 0},
		"no list of nodes":       {"PackageConnection.facets", map[string]any{"first": int64(10)}, child, 0},
	} {
		t.Run(name, func(t *testing.T) {
			typeName, field, _ := strings.Cut(c.field, ".")
			got, ok := NewSchema().Complexity(t.Context(), typeName, field, c.child, c.args)
			if got != c.want || ok != (c.want > 0) {
				t.Errorf("got %d, %t, want %d", got, ok, c.want)
			}
		})
	}
}

func TestEachConnectionHasAComplexity(t *testing.T) {
	missing := len(listings)
	for _, def := range NewSchema().Schema().Types {
		for _, field := range def.Fields {
			if !strings.HasSuffix(field.Type.Name(), "Connection") {
				continue
			}
			missing--
			if _, ok := listings[def.Name+"."+field.Name]; !ok {
				t.Errorf("%s.%s is missing", def.Name, field.Name)
			}
		}
	}
	if missing != 0 {
		t.Errorf("%d entries are no connections", missing)
	}
}
