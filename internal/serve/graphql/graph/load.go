package graph

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// blob is a blob of a source. A request has one for each blob that it uses.
type blob struct {
	src *source
	store.Entry
	json []byte // nil until a batch with it is loaded

	readPaid, decodedPaid bool // already charged; guarded by src.mu

	decoded lazy[any]
	head    lazy[string]       // of a channel
	csv     lazy[*CSVMetadata] // of a bundle
	opened  lazy[*BundleContent]
}

// lazy is sync.OnceValues without allocations. If the function panics, later calls return an error.
type lazy[T any] struct {
	once  sync.Once
	value T
	err   error
}

func (l *lazy[T]) get(find func() (T, error)) (T, error) {
	l.once.Do(func() {
		l.err = errPanicked
		l.value, l.err = find()
	})
	return l.value, l.err
}

var errPanicked = errors.New("an earlier attempt panicked")

// blob returns the blob of an entry. The caller holds mu.
func (s *source) blob(e store.Entry) *blob {
	b := s.blobs[e.Number]
	if b == nil {
		b = &blob{src: s, Entry: e}
		s.blobs[e.Number] = b
	}
	return b
}

// part is the share of a source in a batch.
type part struct {
	src   *source
	blobs *store.Blobs
}

// batch is the blobs of siblings in the reply, ordered by source, then as in the catalog. The first read reads the blobs of
// all siblings, because the request needs them next.
type batch struct {
	parts []part
	once  lazy[struct{}] // load
}

func newBatch(src *source, blobs *store.Blobs) *batch { return &batch{parts: []part{{src, blobs}}} }

func (b *batch) add(src *source, blobs *store.Blobs) { b.parts = append(b.parts, part{src, blobs}) }

func (b *batch) len() int {
	n := 0
	for _, p := range b.parts {
		n += p.blobs.Len()
	}
	return n
}

// slice returns the blobs from..to-1.
func (b *batch) slice(from, to int) *batch {
	out := &batch{}
	for _, p := range b.parts {
		n := p.blobs.Len()
		if lo, hi := max(from, 0), min(to, n); lo < hi {
			out.add(p.src, p.blobs.Slice(lo, hi))
		}
		from, to = from-n, to-n
	}
	return out
}

// nodes returns the blobs without reading them.
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
	_, err := b.once.get(func() (struct{}, error) {
		for _, p := range b.parts {
			if err := p.src.load(p.blobs); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	})
	return err
}

// load reads the blobs that the request has not read yet, in the order of the file.
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
			return fmt.Errorf("reading blob %d of catalog %s: %w", missing.Entry(i).Number, s.catalog.Name, err)
		}
		s.blob(missing.Entry(i)).json = bytes.Clone(content)
		i++
	}
	return nil
}

// payRead returns the bytes to charge for reading the blob, 0 if already charged. The caller holds mu of the source.
func (b *blob) payRead() int64 {
	if b.readPaid {
		return 0
	}
	b.readPaid = true
	return int64(b.Size) + 1
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

// node is a blob with its siblings in the reply.
type node struct {
	*blob
	batch *batch
}

// content returns the JSON of the blob.
func (n node) content() ([]byte, error) {
	if err := n.batch.load(); err != nil {
		return nil, err
	}
	return n.json, nil
}

// pkg returns the valid package of the blob.
func (n node) pkg() *packageFacts { return n.src.pkg(n.Entry.Package) }

// Package returns the valid package of the blob.
func (n node) Package() *Package { return n.pkg().alone() }

// Catalog returns the catalog that contains the blob.
func (n node) Catalog() *Catalog { return n.src.catalog }

// Hash returns the hash of the JSON.
func (n node) Hash() string { return n.src.snapshot.BlobHash(n.Number) }

// decode decodes the blob as a T, once. A blob has one type.
func decode[T any](n node) (decoded T, err error) {
	content, err := n.content()
	if err != nil {
		return decoded, err
	}
	value, err := n.decoded.get(func() (any, error) {
		var value T
		if err := n.spendDecoded(scan.CountValues(content)); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(content, &value); err != nil {
			return nil, fmt.Errorf("decoding %s %q of package %q in catalog %s: %w",
				n.Schema, n.Name, n.Entry.Package, n.src.catalog.Name, err)
		}
		return value, nil
	})
	if err != nil {
		return decoded, err
	}
	return value.(T), nil
}
