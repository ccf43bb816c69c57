package listing

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Filter has the wanted values of facets, ignoring case. A package matches if it has a wanted value of each facet in the filter.
type Filter map[Facet][]string

// Selection has the packages of an index that match a condition and a filter.
type Selection struct {
	*Index
	has    func(number uint32) bool
	filter wanted
}

// wanted has the wanted value ids of each facet; nil for a facet that is not in the filter.
type wanted [facets][]bool

// Select selects the packages that match a filter and a condition. A nil condition matches all packages.
func (ix *Index) Select(filter Filter, has func(number uint32) bool) *Selection {
	return &Selection{Index: ix, has: has, filter: ix.find(filter)}
}

// Matches returns a function that reports whether a package matches a filter.
func (ix *Index) Matches(filter Filter) func(number uint32) bool {
	w := ix.find(filter)
	return func(number uint32) bool {
		n, _ := ix.misses(&w, number)
		return n == 0
	}
}

func (ix *Index) find(filter Filter) (w wanted) {
	for f, texts := range filter {
		c := &ix.columns[f]
		w[f] = make([]bool, len(c.values))
		for _, text := range texts {
			byText := func(v value, folded string) int { return strings.Compare(v.folded, folded) }
			if id, ok := slices.BinarySearchFunc(c.values, fold(cut(text, maxValue)), byText); ok {
				w[f][id] = true
			}
		}
	}
	return w
}

// misses returns the number of facets that a package does not match, and one of these facets.
func (ix *Index) misses(w *wanted, number uint32) (n int, facet Facet) {
	for f, ids := range w {
		if ids != nil && !slices.ContainsFunc(ix.columns[f].of(int(number)), func(id uint32) bool { return ids[id] }) {
			n, facet = n+1, Facet(f)
		}
	}
	return n, facet
}

// Numbers returns the numbers of the packages in an order.
func (s *Selection) Numbers(order Order) []uint32 {
	var out []uint32
	for i := range uint32(s.Len()) {
		if order != ByName {
			i = s.sorted[order][i]
		}
		if s.has != nil && !s.has(i) {
			continue
		}
		if n, _ := s.misses(&s.filter, i); n == 0 {
			out = append(out, i)
		}
	}
	return out
}

// Counts counts packages by the values of facets. The counts of a facet ignore the filter of that facet, so they show the result of
// another choice.
type Counts struct {
	index  *Index
	Total  int // packages that match all filters
	counts [facets][]uint32
}

// Count counts the selected packages.
func (s *Selection) Count() *Counts {
	c := &Counts{index: s.Index}
	for f := range c.counts {
		c.counts[f] = make([]uint32, len(s.columns[f].values))
	}
	for i := range uint32(s.Len()) {
		if s.has != nil && !s.has(i) {
			continue
		}
		n, missed := s.misses(&s.filter, i)
		if n > 1 {
			continue
		}
		if n == 0 {
			c.Total++
		}
		for f := range facets {
			if n == 1 && f != missed {
				continue
			}
			for _, id := range s.columns[f].of(int(i)) {
				c.counts[f][id]++
			}
		}
	}
	return c
}

// Value is a value of a facet and the number of packages that have it.
type Value struct {
	Text  string
	Count int
}

// Top returns the most frequent values of a facet in several catalogs, sorted by count, then by text. It merges values that differ
// only in case and keeps the first spelling.
func Top(f Facet, all []*Counts, limit int) []Value {
	if len(all) == 1 {
		return all[0].top(f, limit)
	}
	known := map[string]*Value{}
	for _, c := range all {
		for id, n := range c.counts[f] {
			if n == 0 {
				continue
			}
			v := &c.index.columns[f].values[id]
			if known[v.folded] == nil {
				known[v.folded] = &Value{Text: v.text}
			}
			known[v.folded].Count += int(n)
		}
	}
	keys := slices.SortedFunc(maps.Keys(known), func(a, b string) int {
		return cmp.Or(known[b].Count-known[a].Count, strings.Compare(a, b))
	})
	out := make([]Value, min(len(keys), limit))
	for i := range out {
		out[i] = *known[keys[i]]
	}
	return out
}

// top is Top for one catalog. It sorts only the values that it returns, because a catalog can have tens of thousands of kinds.
func (c *Counts) top(f Facet, limit int) (out []Value) {
	counts := c.counts[f]
	if len(counts) == 0 {
		return nil
	}
	least, left := slices.Max(counts), limit // return left values with the count least, the first in the order
	frequency := make([]int, least+1)
	for _, n := range counts {
		frequency[n]++
	}
	for ; least > 0 && frequency[least] <= left; least-- {
		left -= frequency[least]
	}
	for id, n := range counts {
		if n > least || n == least && n > 0 && left > 0 {
			out = append(out, Value{c.index.columns[f].values[id].text, int(n)})
		}
		if n == least {
			left--
		}
	}
	slices.SortStableFunc(out, func(a, b Value) int { return b.Count - a.Count })
	return out
}
