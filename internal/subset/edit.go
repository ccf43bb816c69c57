package subset

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/operator-catalogs/catalogd/internal/fbc/splice"
)

// Edit is the change of a blob that stays.
type Edit struct {
	defaultChannel string         // of a package; empty: unchanged
	drop           []int          // entries of a channel or of deprecations
	replaces       map[int]string // by entry
}

// Patches returns the patches that change a blob in a text. v has the places of its values.
func (e Edit) Patches(text []byte, v *splice.Value) ([]splice.Patch, error) {
	if e.defaultChannel != "" {
		at := v.Get("defaultChannel")
		if at == nil {
			return nil, nil // the package is invalid
		}
		p, err := splice.ReplaceScalar(text, at, e.defaultChannel)
		return []splice.Patch{p}, err
	}
	entries := v.Get("entries")
	if entries == nil || entries.Kind != splice.List {
		return nil, fmt.Errorf("its entries are not a list")
	}
	places := map[*splice.Value]int{}
	for i, it := range entries.Items {
		places[it.Value] = i
	}
	patches, err := splice.RemoveItems(text, entries, func(it splice.Item) bool {
		_, found := slices.BinarySearch(e.drop, places[it.Value])
		return found
	})
	for i, to := range e.replaces {
		if err != nil {
			break
		}
		var p splice.Patch
		p, err = splice.ReplaceScalar(text, entries.Items[i].Value.Get("replaces"), to)
		patches = append(patches, p)
	}
	return patches, err
}

// Apply returns a changed copy of a blob in JSON.
func (e Edit) Apply(blob []byte) ([]byte, error) {
	v, err := splice.ParseJSON(blob, 0)
	if err != nil {
		return nil, err
	}
	patches, err := e.Patches(blob, v)
	if err != nil {
		return nil, err
	}
	changed := splice.Apply(blob, patches...)
	if !json.Valid(changed) {
		return nil, errors.New("the change would make it invalid JSON")
	}
	return changed, nil
}
