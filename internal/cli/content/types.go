package content

// Named is a reference by name.
type Named struct {
	Name string `json:"name"`
}

// Names returns the names of references.
func Names(all []Named) []string {
	names := make([]string, len(all))
	for i, n := range all {
		names[i] = n.Name
	}
	return names
}

// A Deprecation of a package, a channel or a bundle.
type Deprecation struct {
	Message string `json:"message"`
}

// Variables returns the variables of a query that have a value, from pairs of name and value.
func Variables(namesAndValues ...string) map[string]any {
	values := map[string]any{}
	for i := 0; i < len(namesAndValues); i += 2 {
		if namesAndValues[i+1] != "" {
			values[namesAndValues[i]] = namesAndValues[i+1]
		}
	}
	return values
}
