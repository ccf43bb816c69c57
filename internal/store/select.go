package store

import (
	"bytes"
	"slices"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// Query selects blobs. An empty field matches any blob; a blob must match all others exactly.
type Query struct {
	Schema, Package, Name string
	Custom                bool    // only blobs of schemas that OLM does not define
	Property              string  // only bundles that have a property of this type
	Provides              fbc.GVK // only bundles that provide such an API; its empty fields match any, the zero GVK every blob
}

// Select returns the matching blobs in the order of the catalog. It reads only the index: it walks the shortest list that
// the query names and looks the numbers up in the others.
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

// lists returns the matching blobs for each field of a query.
func (s *Snapshot) lists(q Query) []posting {
	var lists []posting
	add := func(value string, find func(key uint32) posting) {
		if value == "" {
			return
		}
		list := posting{size: 4} // empty
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
		lists = append(lists, s.index.providers(func(key []byte) bool { return matchesAPI(key, api) }))
	}
	return lists
}

// matchesAPI reports whether the key of an API ("group/version/kind") has the non-empty fields of another.
func matchesAPI(key []byte, api fbc.GVK) bool {
	group, rest, _ := bytes.Cut(key, []byte("/"))
	version, kind, _ := bytes.Cut(rest, []byte("/"))
	return (api.Group == "" || string(group) == api.Group) &&
		(api.Version == "" || string(version) == api.Version) &&
		(api.Kind == "" || string(kind) == api.Kind)
}

func (s *Snapshot) schema(n uint32) string {
	return string(s.index.key(s.index.blobKey(n, fieldSchema)))
}

// Package returns all blobs of a package in the order of the catalog: its olm.package blob and every blob that names it.
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
	numbers := slices.AppendSeq(own, s.index.posting(fieldPackage, key).all())
	slices.Sort(numbers)
	return s.blobs(slices.Compact(numbers))
}
