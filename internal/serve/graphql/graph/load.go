package graph

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// blob is one blob of a source. There is one for each that a request meets, whichever ways lead to it.
type blob struct {
	src   *source
	entry store.Entry
	json  []byte // nil until a batch with it was loaded

	readPaid, decodedPaid bool // it is charged already; guarded by src.mu

	decoded lazy[any]
	head    lazy[string]       // of a channel
	csv     lazy[*CSVMetadata] // of a bundle
}

// blob gives the one of an entry; the caller holds mu.
func (s *source) blob(e store.Entry) *blob {
	b := s.blobs[e.Number]
	if b == nil {
		b = &blob{src: s, entry: e}
		s.blobs[e.Number] = b
	}
	return b
}

// part are some blobs of one source.
type part struct {
	src   *source
	blobs *store.Blobs
}

// batch is the blobs that siblings of an answer stand for, in the order of the sources and of the file. The first sibling that is asked for
// bytes reads those of all: the others are asked for the same next.
type batch struct {
	parts  []part
	loaded lazy[struct{}]
}

func (b *batch) len() int {
	n := 0
	for _, p := range b.parts {
		n += p.blobs.Len()
	}
	return n
}

// slice is as the slice expression [from:to] of its blobs.
func (b *batch) slice(from, to int) *batch {
	out := &batch{}
	for _, p := range b.parts {
		n := p.blobs.Len()
		if lo, hi := max(from, 0), min(to, n); lo < hi {
			out.parts = append(out.parts, part{p.src, p.blobs.Slice(lo, hi)})
		}
		from, to = from-n, to-n
	}
	return out
}

// nodes are its blobs. Nothing is read.
func (b *batch) nodes() []node {
	nodes := make([]node, 0, b.len())
	for _, p := range b.parts {
		p.src.mu.Lock()
		for i := range p.blobs.Len() {
			nodes = append(nodes, node{p.src.blob(p.blobs.Entry(i)), b})
		}
		p.src.mu.Unlock()
	}
	return nodes
}

func (b *batch) load() error {
	_, err := b.loaded.get(func() (struct{}, error) {
		for _, p := range b.parts {
			if err := p.src.load(p.blobs); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	})
	return err
}

// load reads those of the blobs that were not read before, in the order of the file.
func (s *source) load(blobs *store.Blobs) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	owed := int64(0)
	missing := blobs.Keep(func(e store.Entry) bool {
		b := s.blob(e)
		if b.json == nil {
			owed += b.payRead()
		}
		return b.json == nil
	})
	if err := s.r.spendRead(owed); err != nil {
		return err
	}
	i := 0
	for content, err := range missing.All() {
		if err != nil {
			return fmt.Errorf("reading blob %d of catalog %s: %w", missing.Entry(i).Number, s.at.Name, err)
		}
		s.blob(missing.Entry(i)).json = bytes.Clone(content)
		i++
	}
	return nil
}

// payRead is how much reading the blob is still to be charged for; the caller holds mu of its source.
func (b *blob) payRead() int64 {
	if b.readPaid {
		return 0
	}
	b.readPaid = true
	return int64(b.entry.Size) + 1
}

// spendDecoded charges the request for decoding the blob, once.
func (b *blob) spendDecoded(values int) error {
	b.src.mu.Lock()
	paid := b.decodedPaid
	b.decodedPaid = true
	b.src.mu.Unlock()
	if paid {
		return nil
	}
	return b.src.r.spendDecoded(values)
}

// node is a blob where it stands in the answer: among the siblings that are read with it.
type node struct {
	*blob
	batch *batch
}

// content is the JSON of the blob.
func (n node) content() ([]byte, error) {
	if err := n.batch.load(); err != nil {
		return nil, err
	}
	return n.json, nil
}

// Hash is that of the blob's JSON. Nothing is read.
func (b *blob) Hash() string { return b.src.at.Snapshot.BlobHash(b.entry.Number) }

// decode reads the blob as a T, once: all that ask for a blob ask for the same type.
func decode[T any](n node) (*T, error) {
	content, err := n.content()
	if err != nil {
		return nil, err
	}
	value, err := n.decoded.get(func() (any, error) {
		value := new(T)
		if err := n.spendDecoded(scan.CountValues(content)); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(content, value); err != nil {
			return nil, fmt.Errorf("reading %s %q of package %q in catalog %s: %w", n.entry.Schema, n.entry.Name, n.entry.Package, n.src.at.Name,
				err)
		}
		return value, nil
	})
	if err != nil {
		return nil, err
	}
	return value.(*T), nil
}
