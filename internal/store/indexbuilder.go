package store

import (
	"bytes"
	"cmp"
	"hash/crc32"
	"slices"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// indexBuilder makes an index of files that were read, added in the order of the catalog.
type indexBuilder struct {
	keys  *keyTable
	blobs []blobRecord
	facts [factCount][]pair
	size  uint64
	files []fileRecord
}

// keyTable numbers strings in order of appearance.
type keyTable struct {
	numbers map[string]uint32
	size    int // of the strings, in bytes
}

func newKeyTable() *keyTable { return &keyTable{numbers: map[string]uint32{"": 0}} }

func (t *keyTable) number(s string) uint32 {
	n, ok := t.numbers[s]
	if !ok {
		n = uint32(len(t.numbers))
		t.numbers[s] = n
		t.size += len(s)
	}
	return n
}

type blobRecord struct {
	offset uint64
	size   uint32
	keys   [4]uint32 // schema, package, name, version
	hash   hash
}

type fileRecord struct {
	content      hash
	first, count uint32
}

// newIndexBuilder makes a builder of files, in their order, whose keys are numbers of a table. It takes what they gave: a large
// catalog is not to be held twice.
func newIndexBuilder(keys *keyTable, files []*readFile) *indexBuilder {
	b := &indexBuilder{keys: keys}
	blobs, facts := 0, [factCount]int{}
	for _, f := range files {
		blobs += len(f.blobs)
		for kind := range facts {
			facts[kind] += len(f.facts[kind])
		}
	}
	b.blobs = make([]blobRecord, 0, blobs)
	for kind := range facts {
		b.facts[kind] = make([]pair, 0, facts[kind])
	}
	for _, f := range files {
		b.add(f)
		f.blobs, f.facts = nil, [factCount][]pair{}
	}
	return b
}

// add adds the blobs of a file behind those of the files before.
func (b *indexBuilder) add(f *readFile) {
	first := uint32(len(b.blobs))
	b.files = append(b.files, fileRecord{f.content, first, uint32(len(f.blobs))})
	for _, r := range f.blobs {
		r.offset = b.size
		b.size += uint64(r.size) + 1
		b.blobs = append(b.blobs, r)
	}
	for kind, pairs := range f.facts {
		for _, p := range pairs {
			b.facts[kind] = append(b.facts[kind], pair{p.key, first + p.blob})
		}
	}
}

// count sets what an Info says of the blobs.
func (b *indexBuilder) count(info *Info) {
	info.Blobs, info.Bytes = len(b.blobs), int64(b.size)
	info.Packages, info.Channels, info.Bundles = 0, 0, 0
	packages, channels, bundles := b.keys.number(fbc.SchemaPackage), b.keys.number(fbc.SchemaChannel), b.keys.number(fbc.SchemaBundle)
	for i := range b.blobs {
		switch b.blobs[i].keys[0] {
		case packages:
			info.Packages++
		case channels:
			info.Channels++
		case bundles:
			info.Bundles++
		}
	}
}

// bytes returns the finished index of a snapshot with what its snapshot.json has. Nothing can be added after it.
func (b *indexBuilder) bytes(info []byte) []byte {
	sorted, keyBytes := b.rankKeys()
	counts := []int{len(b.blobs), len(b.facts[0]), len(b.facts[1]), len(sorted), keyBytes, len(b.files), len(info)}
	out := make([]byte, 0, headerSize+len(b.blobs)*(blobSize+3*4)+(len(b.facts[0])+len(b.facts[1]))*pairSize+
		len(sorted)*4+4+keyBytes+len(b.files)*fileSize+len(info))
	out = append(out, indexMagic...)
	out = append(out, make([]byte, 8)...) // the checksums, below
	for _, n := range counts {
		out = le.AppendUint32(out, uint32(n))
	}
	for _, r := range b.blobs {
		out = le.AppendUint64(out, r.offset)
		out = le.AppendUint32(out, r.size)
		for _, k := range r.keys {
			out = le.AppendUint32(out, k)
		}
		out = append(out, r.hash[:]...)
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
	keysEnd := len(out)
	out = append(b.appendFiles(out), info...)
	le.PutUint32(out[12:], crc32.Checksum(out[headerSize:keysEnd], castagnoli))
	sum, _ := indexSums(out, keysEnd)
	le.PutUint32(out[8:], sum)
	return out
}

// rankKeys sorts the keys that are used, of which files that were replaced have others, and puts the rank of each in the place
// of its number.
func (b *indexBuilder) rankKeys() (sorted []string, size int) {
	used := b.usedKeys()
	sorted = make([]string, 0, len(b.keys.numbers))
	for s, number := range b.keys.numbers {
		if used[number] {
			sorted = append(sorted, s)
			size += len(s)
		}
	}
	slices.Sort(sorted)
	rank := make([]uint32, len(b.keys.numbers))
	for i, s := range sorted {
		rank[b.keys.numbers[s]] = uint32(i)
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
	return sorted, size
}

func (b *indexBuilder) usedKeys() []bool {
	used := make([]bool, len(b.keys.numbers))
	used[0] = true // the empty string always has its number
	for i := range b.blobs {
		for _, number := range b.blobs[i].keys {
			used[number] = true
		}
	}
	for _, list := range b.facts {
		for i := range list {
			used[list[i].key] = true
		}
	}
	return used
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

func (b *indexBuilder) appendFiles(out []byte) []byte {
	slices.SortStableFunc(b.files, func(x, y fileRecord) int { return bytes.Compare(x.content[:], y.content[:]) })
	for _, f := range b.files {
		out = append(out, f.content[:]...)
		out = le.AppendUint32(out, f.first)
		out = le.AppendUint32(out, f.count)
	}
	return out
}
