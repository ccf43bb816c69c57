package store

import (
	"bytes"
	"cmp"
	"hash/crc32"
	"slices"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// indexBuilder gathers what becomes an index. Blobs are added in the order in which they are written, packages in the
// order of their names.
type indexBuilder struct {
	blobs        []blobRecord
	facts        [factCount][]pair
	keys         map[string]uint32 // to a number in order of appearance
	size         uint64
	packages     []packageRecord
	packagesSize uint64
	files        []fileRecord
}

type blobRecord struct {
	offset uint64
	size   uint32
	keys   [4]uint32 // schema, package, name, version
}

type packageRecord struct {
	key     uint32
	content hash
	offset  uint64 // of its summary
	size    uint32
}

type fileRecord struct {
	content      hash
	first, count uint32
}

func newIndexBuilder() *indexBuilder {
	return &indexBuilder{keys: map[string]uint32{"": 0}}
}

func (b *indexBuilder) add(blob fbc.Blob) {
	number := uint32(len(b.blobs))
	b.blobs = append(b.blobs, blobRecord{
		offset: b.size, size: uint32(len(blob.JSON)),
		keys: [4]uint32{b.key(blob.Schema), b.key(blob.Package), b.key(blob.Name), b.key(blob.Bundle.Version)},
	})
	b.size += uint64(len(blob.JSON)) + 1
	for _, typ := range blob.Bundle.Properties {
		b.facts[factProperty] = append(b.facts[factProperty], pair{b.key(typ), number})
	}
	for _, api := range blob.Bundle.Provides {
		b.facts[factAPI] = append(b.facts[factAPI], pair{b.key(api.String()), number})
	}
}

// addPackage adds a sound package whose summary, on one line, has a size.
func (b *indexBuilder) addPackage(name string, content hash, size int) {
	b.packages = append(b.packages, packageRecord{b.key(name), content, b.packagesSize, uint32(size)})
	b.packagesSize += uint64(size) + 1
}

// extent is where blob n lies, as it is in the index.
func (b *indexBuilder) extent(n uint32) (offset uint64, size uint32) {
	return b.blobs[n].offset, b.blobs[n].size
}

// is tells whether blob n has a schema and a name.
func (b *indexBuilder) is(n uint32, schema, name string) bool {
	return b.blobs[n].keys[0] == b.key(schema) && b.blobs[n].keys[2] == b.key(name)
}

func (b *indexBuilder) key(s string) uint32 {
	n, ok := b.keys[s]
	if !ok {
		n = uint32(len(b.keys))
		b.keys[s] = n
	}
	return n
}

// bytes returns the finished index. Nothing can be added after it.
func (b *indexBuilder) bytes() []byte {
	sorted, keyBytes := b.rankKeys()
	counts := []int{len(b.blobs), len(b.facts[0]), len(b.facts[1]), len(sorted), keyBytes, len(b.packages), len(b.files)}
	out := make([]byte, 0, headerSize+len(b.blobs)*(blobSize+3*4)+(len(b.facts[0])+len(b.facts[1]))*pairSize+
		len(sorted)*4+4+keyBytes+len(b.packages)*packageSize+len(b.files)*fileSize)
	out = append(out, indexMagic...)
	out = le.AppendUint32(out, 0) // the checksum, below
	for _, n := range counts {
		out = le.AppendUint32(out, uint32(n))
	}
	for _, r := range b.blobs {
		out = le.AppendUint64(out, r.offset)
		out = le.AppendUint32(out, r.size)
		for _, k := range r.keys {
			out = le.AppendUint32(out, k)
		}
	}
	for k := range 3 {
		out = b.appendList(out, k)
	}
	for _, list := range b.facts {
		slices.SortFunc(list, pair.compare)
		for _, p := range list {
			out = le.AppendUint32(out, p.key)
			out = le.AppendUint32(out, p.blob)
		}
	}
	out = appendKeys(out, sorted)
	out = b.appendPackages(out)
	out = b.appendFiles(out)
	le.PutUint32(out[8:], crc32.Checksum(out[12:], castagnoli))
	return out
}

// rankKeys sorts the keys and puts the rank of each in the place of its number.
func (b *indexBuilder) rankKeys() (sorted []string, size int) {
	sorted = make([]string, 0, len(b.keys))
	for s := range b.keys {
		sorted = append(sorted, s)
		size += len(s)
	}
	slices.Sort(sorted)
	rank := make([]uint32, len(sorted))
	for i, s := range sorted {
		rank[b.keys[s]] = uint32(i)
	}
	for i := range b.blobs {
		for k, number := range b.blobs[i].keys {
			b.blobs[i].keys[k] = rank[number]
		}
	}
	for _, list := range b.facts {
		for i := range list {
			list[i].key = rank[list[i].key]
		}
	}
	for i := range b.packages {
		b.packages[i].key = rank[b.packages[i].key]
	}
	return sorted, size
}

func (b *indexBuilder) appendList(out []byte, k int) []byte {
	order := make([]uint32, len(b.blobs))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortStableFunc(order, func(x, y uint32) int { return cmp.Compare(b.blobs[x].keys[k], b.blobs[y].keys[k]) })
	for _, n := range order {
		out = le.AppendUint32(out, n)
	}
	return out
}

func appendKeys(out []byte, sorted []string) []byte {
	offset := 0
	for _, s := range sorted {
		out = le.AppendUint32(out, uint32(offset))
		offset += len(s)
	}
	out = le.AppendUint32(out, uint32(offset))
	for _, s := range sorted {
		out = append(out, s...)
	}
	return out
}

func (b *indexBuilder) appendPackages(out []byte) []byte {
	for _, p := range b.packages {
		out = le.AppendUint32(out, p.key)
		out = append(out, p.content[:]...)
		out = le.AppendUint64(out, p.offset)
		out = le.AppendUint32(out, p.size)
	}
	return out
}

func (b *indexBuilder) appendFiles(out []byte) []byte {
	slices.SortStableFunc(b.files, func(x, y fileRecord) int { return bytes.Compare(x.content[:], y.content[:]) })
	for _, f := range b.files {
		out = append(out, f.content[:]...)
		out = le.AppendUint32(out, f.first)
		out = le.AppendUint32(out, f.count)
	}
	return out
}
