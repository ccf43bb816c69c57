package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// toAny converts a value to the maps, slices and scalars of JSON.
func toAny(value any) any {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err) // a type of this package that cannot be marshalled
	}
	var out any
	if err := json.Unmarshal(raw, &out); err != nil {
		panic(err)
	}
	return out
}

// withoutEmpty removes members of objects that are null, false, "" or zero: clients cannot distinguish them from
// absent ones. It keeps items of arrays.
func withoutEmpty(value any) any {
	switch v := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		for key, member := range v {
			if member = withoutEmpty(member); !isEmpty(member) {
				kept[key] = member
			}
		}
		return kept
	case []any:
		kept := make([]any, len(v))
		for i, item := range v {
			kept[i] = withoutEmpty(item)
		}
		return kept
	default:
		return value
	}
}

func isEmpty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	default:
		return false
	}
}

// differences lists the paths at which got differs from want.
func differences(path string, want, got any) (found []string) {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		keys := maps.Clone(w)
		maps.Copy(keys, g)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			found = append(found, differences(path+"."+key, w[key], g[key])...)
		}
		return found
	case []any:
		g, ok := got.([]any)
		if !ok {
			break
		}
		if len(w) != len(g) {
			return []string{fmt.Sprintf("%s has %d items, want %d: got %s, want %s", path, len(g), len(w), brief(g), brief(w))}
		}
		for i := range w {
			found = append(found, differences(fmt.Sprintf("%s[%d]", path, i), w[i], g[i])...)
		}
		return found
	}
	if reflect.DeepEqual(want, got) {
		return nil
	}
	return []string{fmt.Sprintf("%s is %s, want %s", path, brief(got), brief(want))}
}

func brief(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	const most = 300
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}
