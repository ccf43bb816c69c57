package store

import (
	"bufio"
	"bytes"
	"cmp"
	"hash/crc32"
	"io"
	"slices"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// indexBuilder makes an index of the blobs of files, in the order of the catalog.
type indexBuilder struct {
	keys  *keyTable
	blobs []blobRecord
	facts [factCount][]pair
	size  uint64
	files []fileRecord

	// Set by finish.
	sorted   []string // keys
	keyBytes int
	orders   [3][]uint32 // of all blobs by schema, by package, by name
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
	hash   fbc.Hash
}

type fileRecord struct {
	content      fbc.Hash
	first, count uint32
}

// newIndexBuilder returns a builder with the blobs of files, whose keys are numbers of a table. It empties the files, so that
// a large catalog is not held twice.
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

// add appends the blobs of a file.
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

// count sets the counts and sizes of an Info.
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

// bytes finishes and returns the index of a snapshot with the content of snapshot.json.
func (b *indexBuilder) bytes(info []byte) []byte {
	var out bytes.Buffer
	b.finish()
	_ = b.write(&out, info) // a Buffer does not fail
	return out.Bytes()
}

// finish sorts the lists. Nothing can be added after it.
func (b *indexBuilder) finish() {
	b.sorted, b.keyBytes = b.rankKeys()
	b.keys = nil // may be large
	for _, list := range b.facts {
		slices.SortFunc(list, pair.compare)
	}
	for key := range b.orders {
		b.orders[key] = b.order(key)
	}
}

// write writes the finished index piece by piece, so that memory does not hold it twice.
func (b *indexBuilder) write(w io.Writer, info []byte) error {
	rest := append(b.appendFiles(nil), info...)
	counts := le.AppendUint32(nil, uint32(len(b.blobs)))
	for _, n := range []int{len(b.facts[0]), len(b.facts[1]), len(b.sorted), b.keyBytes, len(b.files), len(info)} {
		counts = le.AppendUint32(counts, uint32(n))
	}
	bodySum := crc32.New(castagnoli)
	_ = b.writeBody(bodySum) // a checksum does not fail
	restSum := crc32.Checksum(le.AppendUint32(nil, bodySum.Sum32()), castagnoli)
	restSum = crc32.Update(crc32.Update(restSum, castagnoli, counts), castagnoli, rest)

	header := le.AppendUint32([]byte(indexMagic), restSum)
	header = append(le.AppendUint32(header, bodySum.Sum32()), counts...)
	if _, err := w.Write(header); err != nil {
		return err
	}
	if err := b.writeBody(w); err != nil {
		return err
	}
	_, err := w.Write(rest)
	return err
}

// writeBody writes the part from blobs to keys.
func (b *indexBuilder) writeBody(w io.Writer) error {
	out := bufio.NewWriterSize(w, 256<<10) // Flush returns its first error
	var buf []byte
	put := func(p []byte) {
		_, _ = out.Write(p)
		buf = p[:0]
	}
	for i := range b.blobs {
		put(b.blobs[i].append(buf))
	}
	for _, order := range b.orders {
		for _, n := range order {
			put(le.AppendUint32(buf, n))
		}
	}
	for _, list := range b.facts {
		for _, p := range list {
			put(le.AppendUint32(le.AppendUint32(buf, p.key), p.blob))
		}
	}
	offset := 0
	for _, s := range b.sorted {
		put(le.AppendUint32(buf, uint32(offset)))
		offset += len(s)
	}
	put(le.AppendUint32(buf, uint32(offset)))
	for _, s := range b.sorted {
		put(append(buf, s...))
	}
	return out.Flush()
}

func (r *blobRecord) append(out []byte) []byte {
	out = le.AppendUint64(out, r.offset)
	out = le.AppendUint32(out, r.size)
	for _, k := range r.keys {
		out = le.AppendUint32(out, k)
	}
	return append(out, r.hash[:]...)
}

// rankKeys sorts the used keys and replaces the number of each by its rank. Replaced files leave unused keys.
func (b *indexBuilder) rankKeys() (sorted []string, size int) {
	used := make([]bool, len(b.keys.numbers))
	used[0] = true // the empty string always has its number
	b.eachKey(func(number *uint32) { used[*number] = true })
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
	b.eachKey(func(number *uint32) { *number = rank[*number] })
	return sorted, size
}

// eachKey calls f with every reference to a key.
func (b *indexBuilder) eachKey(f func(number *uint32)) {
	for i := range b.blobs {
		for k := range b.blobs[i].keys {
			f(&b.blobs[i].keys[k])
		}
	}
	for _, list := range b.facts {
		for i := range list {
			f(&list[i].key)
		}
	}
}

// order returns the numbers of all blobs sorted by one of their keys, then by number.
func (b *indexBuilder) order(key int) []uint32 {
	order := make([]uint32, len(b.blobs))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortStableFunc(order, func(x, y uint32) int { return cmp.Compare(b.blobs[x].keys[key], b.blobs[y].keys[key]) })
	return order
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
