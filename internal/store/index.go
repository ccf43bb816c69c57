package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"slices"
	"sort"
)

// The index of a snapshot says where in catalog.jsonl the blobs are. It is one byte slice, checked when it is opened
// and then read in place: nothing is decoded into maps, so opening costs one pass over it and memory is its size,
// about 60 bytes a blob. All integers are little endian.
//
//	header    magic "fbcindex", CRC-32C of all that follows it, then the counts of blobs, keys, key bytes, packages, files
//	blobs     offset u64, size u32 (without the newline), schema, package, name (key numbers)
//	lists     three: the numbers of all blobs ordered by schema, by package, by name, each then by number
//	keys      key offsets u32 (one more than there are keys), then the bytes; sorted and unique, so that the
//	          number of a key is its rank; key 0 is the empty string
//	packages  key, content hash: the sound packages, sorted by key
//	files     content hash, first blob, number of blobs: the files the blobs came from, sorted by hash
const (
	indexMagic  = "fbcindex"
	headerSize  = 8 + 4 + 5*4
	blobSize    = 8 + 4 + 3*4
	packageSize = 4 + hashSize
	fileSize    = hashSize + 4 + 4
	hashSize    = 16
)

// The fields of a blob record, as offsets into it; also the three lists, in this order.
const (
	fieldSchema  = 12
	fieldPackage = 16
	fieldName    = 20
)

// hash is the first half of a SHA-256: of the bytes of a file, or of the blobs of a package.
type hash [hashSize]byte

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	le         = binary.LittleEndian
)

// index is an opened, checked index. All of it is immutable.
type index struct {
	blobs    []byte
	lists    [3][]byte
	offsets  []byte // of the keys
	keys     []byte
	packages []byte
	files    []byte
}

// openIndex checks an index against its checksum and its own structure, so that nothing read from it later can be out
// of bounds. catalogSize is the size of the catalog.jsonl it belongs to.
func openIndex(data []byte, catalogSize int64) (*index, error) {
	if len(data) < headerSize || string(data[:8]) != indexMagic {
		return nil, errors.New("not an index of this version")
	}
	if le.Uint32(data[8:]) != crc32.Checksum(data[12:], castagnoli) {
		return nil, errors.New("the index is damaged: its checksum does not fit")
	}
	var counts [5]int64
	for i := range counts {
		counts[i] = int64(le.Uint32(data[12+4*i:]))
	}
	blobs, keys, keyBytes, packages, files := counts[0], counts[1], counts[2], counts[3], counts[4]
	if headerSize+blobs*(blobSize+3*4)+(keys+1)*4+keyBytes+packages*packageSize+files*fileSize != int64(len(data)) {
		return nil, errors.New("the index is damaged: its counts do not fit its size")
	}
	rest := data[headerSize:]
	cut := func(n int64) []byte {
		section := rest[:n:n]
		rest = rest[n:]
		return section
	}
	ix := &index{blobs: cut(blobs * blobSize)}
	for i := range ix.lists {
		ix.lists[i] = cut(blobs * 4)
	}
	ix.offsets, ix.keys = cut((keys+1)*4), cut(keyBytes)
	ix.packages, ix.files = cut(packages*packageSize), cut(files*fileSize)
	return ix, ix.check(catalogSize)
}

// check looks at every number that is later used as one.
func (ix *index) check(catalogSize int64) error {
	if err := ix.checkKeys(); err != nil {
		return err
	}
	end := uint64(0)
	for i := range ix.blobCount() {
		offset, size := ix.extent(i)
		if offset != end {
			return fmt.Errorf("the index is damaged: blob %d is out of place", i)
		}
		end = offset + uint64(size) + 1
		for _, field := range []int{fieldSchema, fieldPackage, fieldName} {
			if ix.blobKey(i, field) >= ix.keyCount() {
				return fmt.Errorf("the index is damaged: blob %d has an unknown key", i)
			}
		}
	}
	if end != uint64(catalogSize) {
		return fmt.Errorf("the index covers %d bytes of a catalog.jsonl of %d", end, catalogSize)
	}
	for _, list := range ix.lists {
		for i := 0; i < len(list); i += 4 {
			if le.Uint32(list[i:]) >= ix.blobCount() {
				return errors.New("the index is damaged: a list names an unknown blob")
			}
		}
	}
	for i := 0; i < len(ix.packages); i += packageSize {
		if le.Uint32(ix.packages[i:]) >= ix.keyCount() {
			return errors.New("the index is damaged: a package has an unknown key")
		}
	}
	for i := 0; i < len(ix.files); i += fileSize {
		first, count := le.Uint32(ix.files[i+hashSize:]), le.Uint32(ix.files[i+hashSize+4:])
		if uint64(first)+uint64(count) > uint64(ix.blobCount()) {
			return errors.New("the index is damaged: a file names unknown blobs")
		}
	}
	return nil
}

func (ix *index) checkKeys() error {
	last := uint32(0)
	for i := 0; i < len(ix.offsets); i += 4 {
		offset := le.Uint32(ix.offsets[i:])
		if offset < last {
			return errors.New("the index is damaged: its keys are out of order")
		}
		last = offset
	}
	if int(last) != len(ix.keys) {
		return errors.New("the index is damaged: its keys do not fill their section")
	}
	return nil
}

func (ix *index) blobCount() uint32 { return uint32(len(ix.blobs) / blobSize) }
func (ix *index) keyCount() uint32  { return uint32(len(ix.offsets)/4) - 1 }

// extent is where blob i lies in catalog.jsonl, without its newline.
func (ix *index) extent(i uint32) (offset uint64, size uint32) {
	r := ix.blobs[int(i)*blobSize:]
	return le.Uint64(r), le.Uint32(r[8:])
}

// blobKey is the number of a key of blob i.
func (ix *index) blobKey(i uint32, field int) uint32 {
	return le.Uint32(ix.blobs[int(i)*blobSize+field:])
}

// key is the bytes of a key, in place.
func (ix *index) key(number uint32) []byte {
	return ix.keys[le.Uint32(ix.offsets[number*4:]):le.Uint32(ix.offsets[number*4+4:])]
}

// find returns the number of a key.
func (ix *index) find(key string) (uint32, bool) {
	n := sort.Search(int(ix.keyCount()), func(i int) bool { return string(ix.key(uint32(i))) >= key })
	if n == int(ix.keyCount()) || string(ix.key(uint32(n))) != key {
		return 0, false
	}
	return uint32(n), true
}

// posting is a list of blob numbers in file order, in place.
type posting []byte

func (p posting) len() int        { return len(p) / 4 }
func (p posting) at(i int) uint32 { return le.Uint32(p[i*4:]) }

func (p posting) all() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for i := 0; i < p.len() && yield(p.at(i)); i++ {
		}
	}
}

// all walks the numbers of all blobs.
func (ix *index) all() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for n := uint32(0); n < ix.blobCount() && yield(n); n++ {
		}
	}
}

// posting returns the blobs whose field is the key of a number.
func (ix *index) posting(field int, key uint32) posting {
	list := posting(ix.lists[(field-fieldSchema)/4])
	from := sort.Search(list.len(), func(i int) bool { return ix.blobKey(list.at(i), field) >= key })
	to := from + sort.Search(list.len()-from, func(i int) bool { return ix.blobKey(list.at(from+i), field) > key })
	return list[from*4 : to*4]
}

// file returns the blobs that a file of this content gave.
func (ix *index) file(content hash) (first, count uint32, ok bool) {
	n := len(ix.files) / fileSize
	i := sort.Search(n, func(i int) bool { return bytes.Compare(ix.files[i*fileSize:][:hashSize], content[:]) >= 0 })
	if i == n || !bytes.Equal(ix.files[i*fileSize:][:hashSize], content[:]) {
		return 0, 0, false
	}
	r := ix.files[i*fileSize+hashSize:]
	return le.Uint32(r), le.Uint32(r[4:]), true
}

// indexBuilder gathers what becomes an index. Blobs are added in the order in which they are written.
type indexBuilder struct {
	blobs    []blobRecord
	keys     map[string]uint32 // to a number in order of appearance
	size     uint64
	packages map[string]hash
	files    []fileRecord
}

type blobRecord struct {
	offset uint64
	size   uint32
	keys   [3]uint32 // schema, package, name
}

type fileRecord struct {
	content      hash
	first, count uint32
}

func newIndexBuilder() *indexBuilder {
	return &indexBuilder{keys: map[string]uint32{"": 0}, packages: map[string]hash{}}
}

func (b *indexBuilder) add(schema, pkg, name string, size int) {
	b.blobs = append(b.blobs, blobRecord{b.size, uint32(size), [3]uint32{b.key(schema), b.key(pkg), b.key(name)}})
	b.size += uint64(size) + 1
}

// extent is where blob n lies, as it is in the index.
func (b *indexBuilder) extent(n uint32) (offset uint64, size uint32) {
	return b.blobs[n].offset, b.blobs[n].size
}

func (b *indexBuilder) key(s string) uint32 {
	n, ok := b.keys[s]
	if !ok {
		n = uint32(len(b.keys))
		b.keys[s] = n
	}
	return n
}

// bytes returns the finished index.
func (b *indexBuilder) bytes() []byte {
	sorted := make([]string, 0, len(b.keys))
	keyBytes := 0
	for s := range b.keys {
		sorted = append(sorted, s)
		keyBytes += len(s)
	}
	slices.Sort(sorted)
	rank := make([]uint32, len(sorted))
	for i, s := range sorted {
		rank[b.keys[s]] = uint32(i)
	}

	out := make([]byte, 0, headerSize+len(b.blobs)*(blobSize+12)+len(sorted)*4+4+keyBytes+len(b.packages)*packageSize+len(b.files)*fileSize)
	out = append(out, indexMagic...)
	out = le.AppendUint32(out, 0) // the checksum, below
	for _, n := range []int{len(b.blobs), len(sorted), keyBytes, len(b.packages), len(b.files)} {
		out = le.AppendUint32(out, uint32(n))
	}
	for i := range b.blobs {
		r := &b.blobs[i]
		for k := range r.keys {
			r.keys[k] = rank[r.keys[k]]
		}
		out = le.AppendUint64(out, r.offset)
		out = le.AppendUint32(out, r.size)
		for _, k := range r.keys {
			out = le.AppendUint32(out, k)
		}
	}
	for k := range 3 {
		out = b.appendList(out, k)
	}
	out = appendKeys(out, sorted)
	out = b.appendPackages(out, sorted)
	out = b.appendFiles(out)
	le.PutUint32(out[8:], crc32.Checksum(out[12:], castagnoli))
	return out
}

func (b *indexBuilder) appendList(out []byte, k int) []byte {
	order := make([]uint32, len(b.blobs))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortStableFunc(order, func(x, y uint32) int {
		return int(int64(b.blobs[x].keys[k]) - int64(b.blobs[y].keys[k]))
	})
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

func (b *indexBuilder) appendPackages(out []byte, sorted []string) []byte {
	for i, s := range sorted {
		if h, ok := b.packages[s]; ok {
			out = le.AppendUint32(out, uint32(i))
			out = append(out, h[:]...)
		}
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
