package store

import "slices"

// history is the versions that catalogs served before and whose snapshots still exist, by name, newest first.
type history map[string][]Catalog

// version returns a catalog with a version that it served.
func (h history) version(name, version string) (Catalog, bool) {
	i := slices.IndexFunc(h[name], func(c Catalog) bool { return c.Snapshot.Version() == version })
	if i < 0 {
		return Catalog{}, false
	}
	return h[name][i], true
}

// has reports whether any catalog served the snapshot of a key.
func (h history) has(key string) bool {
	for _, previous := range h {
		if slices.ContainsFunc(previous, keyIs(key)) {
			return true
		}
	}
	return false
}

// drop removes the snapshot of a key from the history of every catalog.
func (h history) drop(key string) {
	for name, previous := range h {
		h[name] = without(previous, key)
	}
}

func keyIs(key string) func(Catalog) bool {
	return func(c Catalog) bool { return c.Snapshot.Key() == key }
}

// without returns a copy of a list without the snapshot of a key.
func without(catalogs []Catalog, key string) []Catalog {
	return slices.DeleteFunc(slices.Clone(catalogs), keyIs(key))
}
