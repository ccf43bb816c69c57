package store

import (
	"bytes"
	"slices"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// Query selects blobs. Empty fields match any; all that are given must match exactly.
type Query struct {
	Schema, Package, Name string
	Custom                bool    // only blobs of schemas that OLM does not define
	Property              string  // only bundles that carry a property of this type
	Provides              fbc.GVK // only bundles that provide such an API; its empty fields match any, the zero GVK asks nothing
}

// Select returns the blobs that match, in the order of the catalog. It reads the index only: of the lists that the
// query names it walks the shortest and looks the numbers up in the others.
func (s *Snapshot) Select(q Query) *Blobs {
	lists := s.lists(q)
	numbers := s.index.all()
	if len(lists) > 0 {
		slices.SortStableFunc(lists, func(a, b posting) int { return a.len() - b.len() })
		numbers = lists[0].all()
		lists = lists[1:]
	}
	var matching []uint32
	for n := range numbers {
		in := !q.Custom || fbc.IsCustom(s.schema(n))
		for i := 0; in && i < len(lists); i++ {
			lists[i] = lists[i].from(n)
			in = lists[i].len() > 0 && lists[i].at(0) == n
		}
		if in {
			matching = append(matching, n)
		}
	}
	return s.blobs(matching)
}

// lists are the blobs that match a query, for each of the things that it asks for.
func (s *Snapshot) lists(q Query) []posting {
	var lists []posting
	add := func(value string, find func(key uint32) posting) {
		if value == "" {
			return
		}
		list := posting{size: 4} // of nothing
		if key, ok := s.index.find(value); ok {
			list = find(key)
		}
		lists = append(lists, list)
	}
	field := func(field int) func(uint32) posting {
		return func(key uint32) posting { return s.index.posting(field, key) }
	}
	add(q.Schema, field(fieldSchema))
	add(q.Package, field(fieldPackage))
	add(q.Name, field(fieldName))
	add(q.Property, func(key uint32) posting { return s.index.fact(factProperty, key) })
	switch api := q.Provides; {
	case api == fbc.GVK{}:
	case api.Group != "" && api.Version != "" && api.Kind != "":
		add(api.String(), func(key uint32) posting { return s.index.fact(factAPI, key) })
	default:
		lists = append(lists, s.index.providers(func(key []byte) bool { return fits(key, api) }))
	}
	return lists
}

// fits tells whether the key of an API ("group/version/kind") has the fields that are asked for.
func fits(key []byte, api fbc.GVK) bool {
	group, rest, _ := bytes.Cut(key, []byte("/"))
	version, kind, _ := bytes.Cut(rest, []byte("/"))
	return (api.Group == "" || string(group) == api.Group) &&
		(api.Version == "" || string(version) == api.Version) &&
		(api.Kind == "" || string(kind) == api.Kind)
}

func (s *Snapshot) schema(n uint32) string {
	return string(s.index.key(s.index.blobKey(n, fieldSchema)))
}

// Package returns all that belongs to a package, in the order of the catalog: its olm.package blob and every blob
// whose package it is.
func (s *Snapshot) Package(name string) *Blobs {
	key, ok := s.index.find(name)
	if !ok || name == "" {
		return s.blobs(nil)
	}
	var own []uint32
	for n := range s.index.posting(fieldName, key).all() {
		if s.schema(n) == fbc.SchemaPackage {
			own = append(own, n)
		}
	}
	return s.blobs(merge(own, s.index.posting(fieldPackage, key)))
}

// merge merges two lists in file order; a blob in both counts once.
func merge(a []uint32, b posting) []uint32 {
	out := make([]uint32, 0, len(a)+b.len())
	for n := range b.all() {
		for len(a) > 0 && a[0] < n {
			out, a = append(out, a[0]), a[1:]
		}
		if len(a) > 0 && a[0] == n {
			a = a[1:]
		}
		out = append(out, n)
	}
	return append(out, a...)
}
