// Package listing filters, counts and sorts packages by fields of their summaries. It keeps these fields in compact indexes in memory,
// so listing thousands of packages takes a millisecond.
package listing

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// Facet is a property to filter and count packages. A package can have several values of a facet.
type Facet int

// The facets. The values of Kind are "Kind.group", those of Deprecated "true" and "false".
const (
	Category Facet = iota
	Provider
	Capability
	Feature
	Architecture
	OperatingSystem
	InstallMode
	Kind
	Deprecated
	facets // number of facets
)

// valuesOf returns the values of a facet. Callers ignore empty ones.
func valuesOf(f Facet, s *fbc.Summary) []string {
	switch f {
	case Category:
		return s.Categories
	case Provider:
		return []string{s.Provider}
	case Capability:
		return []string{s.Capabilities}
	case Feature:
		return s.Features
	case Architecture:
		return s.Architectures
	case OperatingSystem:
		return s.OperatingSystems
	case InstallMode:
		return s.InstallModes
	case Kind:
		kinds := make([]string, len(s.Provides))
		for i, api := range s.Provides {
			kinds[i] = strings.TrimSuffix(api.Kind+"."+api.Group, ".")
		}
		return kinds
	}
	return []string{fmt.Sprint(s.Deprecation != "")}
}

// Limits of an index, so that a catalog with absurd facts fits into the cache: otherwise each request would read it again. Titles
// and values are cut; values beyond the other limits are not found.
const (
	maxTitle    = 128 // bytes
	maxValue    = 256 // bytes
	maxOfOne    = 1000
	maxAllIDs   = 1_000_000
	maxAllBytes = 6 << 20 // of all values
)

// space is what is left of the limits of an index.
type space struct{ ids, bytes int }

func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.Clone(strings.ToValidUTF8(text[:limit], "")) // without the rest in memory
}

// Order is an order of packages.
type Order int

// The orders. All but the first ignore case.
const (
	ByName     Order = iota
	ByTitle          // by display name, or by name if it is empty; deprecated packages last
	ByProvider       // by provider, then by title; packages without a provider last
	orders           // number of orders
)

// Index has the packages of a snapshot. Their numbers follow the order of names. It is immutable.
type Index struct {
	names   []string
	titles  []string // folded
	icons   []fbc.Hash
	columns [facets]column
	sorted  [orders][]uint32 // numbers; nil for ByName
	size    int64            // approximate bytes of memory
}

// column has the values of a facet. Values that differ only in case are merged.
type column struct {
	values []value  // sorted by folded
	ids    []uint32 // indexes in values, concatenated for all packages
	ends   []uint32 // the end of each package in ids
}

type value struct{ text, folded string }

// fold returns a text for comparisons that ignore case.
func fold(text string) string { return strings.ToLower(text) }

// of returns the ids of the values of a package.
func (c *column) of(number int) []uint32 {
	start := uint32(0)
	if number > 0 {
		start = c.ends[number-1]
	}
	return c.ids[start:c.ends[number]]
}

// newIndex reads the summaries of a snapshot. The error can be store.ErrNotValidated.
func newIndex(ctx context.Context, snapshot *store.Snapshot) (*Index, error) {
	ix, left := &Index{}, space{maxAllIDs, maxAllBytes}
	var known [facets]map[string]uint32
	for f := range known {
		known[f] = map[string]uint32{}
	}
	for summary, err := range snapshot.Summaries() {
		if err = cmp.Or(err, context.Cause(ctx)); err != nil {
			return nil, err
		}
		ix.names = append(ix.names, summary.Name)
		ix.titles = append(ix.titles, fold(cut(cmp.Or(summary.DisplayName, summary.Name), maxTitle)))
		var icon fbc.Hash
		_, _ = hex.Decode(icon[:], []byte(summary.IconHash)) // 16 bytes, or none without an icon
		ix.icons = append(ix.icons, icon)
		for f := range facets {
			ix.columns[f].add(known[f], valuesOf(f, &summary), &left)
		}
	}
	for f := range ix.columns {
		ix.columns[f].sort()
	}
	for _, order := range []Order{ByTitle, ByProvider} {
		numbers := make([]uint32, len(ix.names))
		for i := range numbers {
			numbers[i] = uint32(i)
		}
		slices.SortFunc(numbers, func(a, b uint32) int { return Compare(order, ix, a, ix, b) })
		ix.sorted[order] = numbers
	}
	ix.measure()
	return ix, nil
}

// add adds the values of the next package, as far as they fit.
func (c *column) add(known map[string]uint32, texts []string, left *space) {
	start := len(c.ids)
	for _, text := range texts[:min(len(texts), maxOfOne)] {
		text = cut(text, maxValue)
		folded := fold(text)
		id, ok := known[folded]
		if size := 2*16 + len(text) + len(folded); !ok {
			if size > left.bytes {
				continue
			}
			left.bytes -= size
			id = uint32(len(c.values))
			known[folded] = id
			c.values = append(c.values, value{text, folded})
		}
		if text != "" && left.ids > 0 && !slices.Contains(c.ids[start:], id) {
			c.ids = append(c.ids, id)
			left.ids--
		}
	}
	c.ends = append(c.ends, uint32(len(c.ids)))
}

// sort sorts the values and renumbers them.
func (c *column) sort() {
	order := make([]uint32, len(c.values))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int { return strings.Compare(c.values[a].folded, c.values[b].folded) })
	values, ids := make([]value, len(order)), make([]uint32, len(order))
	for to, from := range order {
		values[to], ids[from] = c.values[from], uint32(to)
	}
	c.values, c.ids = values, slices.Clip(c.ids)
	for i, id := range c.ids {
		c.ids[i] = ids[id]
	}
}

func (ix *Index) measure() {
	const each = 2*16 + fbc.HashSize + 4*int(orders) + 4*int(facets) // bytes per package: strings, hash, positions, ends
	ix.size = int64(each * len(ix.names))
	for i, name := range ix.names {
		ix.size += int64(len(name) + len(ix.titles[i]))
	}
	for _, c := range ix.columns {
		ix.size += int64(4 * len(c.ids))
		for _, v := range c.values {
			ix.size += int64(2*16 + len(v.text) + len(v.folded))
		}
	}
}

// Len returns the number of packages.
func (ix *Index) Len() int { return len(ix.names) }

// Name returns the name of a package.
func (ix *Index) Name(number uint32) string { return ix.names[number] }

// Find returns the number of a package.
func (ix *Index) Find(name string) (number uint32, ok bool) {
	i, ok := slices.BinarySearch(ix.names, name)
	return uint32(i), ok
}

// WithIcon returns the name of the first package whose icon has the given hash in hex.
func (ix *Index) WithIcon(hash string) (name string, ok bool) {
	var want fbc.Hash
	if n, err := hex.Decode(want[:], []byte(hash)); err != nil || n != len(want) {
		return "", false
	}
	i := slices.Index(ix.icons, want)
	if i < 0 || want == (fbc.Hash{}) {
		return "", false
	}
	return ix.names[i], true
}

// Compare compares package i of an index with package j of another.
func Compare(order Order, a *Index, i uint32, b *Index, j uint32) int {
	byName := strings.Compare(a.names[i], b.names[j])
	byTitle := strings.Compare(a.titles[i], b.titles[j])
	switch order {
	case ByTitle:
		return cmp.Or(strings.Compare(a.first(Deprecated, i), b.first(Deprecated, j)), byTitle, byName)
	case ByProvider:
		p, q := a.first(Provider, i), b.first(Provider, j)
		if (p == "") != (q == "") {
			return strings.Compare(q, p)
		}
		return cmp.Or(strings.Compare(p, q), byTitle, byName)
	}
	return byName
}

// first returns the first value of a package, folded; empty if it has none.
func (ix *Index) first(f Facet, number uint32) string {
	c := &ix.columns[f]
	if ids := c.of(int(number)); len(ids) > 0 {
		return c.values[ids[0]].folded
	}
	return ""
}
