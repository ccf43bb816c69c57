package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"slices"
	"sort"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// The index of a snapshot has the positions of the blobs in catalog.jsonl. It is one byte slice, checked when it is opened
// and then read in place: opening it takes one pass, and memory is its size, some 170 bytes per blob of real catalogs.
// Integers are little endian.
//
//	header    magic "fbcindex", CRC-32C of the rest of the header, files and info, CRC-32C of blobs to keys, then the
//	          counts of blobs, properties, APIs, keys, key bytes, files, bytes of info
//	blobs     offset u64, size u32 (without the newline), schema, package, name, version (key numbers), content hash
//	lists     three: the numbers of all blobs ordered by schema, by package, by name, each then by number
//	facts     two lists of pairs (key number, blob number), sorted: the types of the properties of bundles, and
//	          the APIs that they provide, as "group/version/kind"
//	keys      key offsets u32 (one more than there are keys), then the bytes; sorted and unique, so that the
//	          number of a key is its rank; key 0 is the empty string
//	files     content hash, first blob, number of blobs: the files the blobs came from, sorted by hash
//	info      the content of snapshot.json
//
// The part from blobs to keys depends only on catalog.jsonl, so its checksum proves that a rebuilt index equals the first.
const (
	indexMagic = "fbcindex"
	countCount = 7
	headerSize = 8 + 4 + 4 + countCount*4
	blobSize   = 8 + 4 + 4*4 + fbc.HashSize
	pairSize   = 4 + 4
	fileSize   = fbc.HashSize + 4 + 4
)

// The fields of a blob record, as offsets in it, and the first three of the lists. Versions have no list.
const (
	fieldSchema  = 12
	fieldPackage = 16
	fieldName    = 20
	fieldVersion = 24
	fieldHash    = 28
)

// The lists of facts.
const (
	factProperty = iota
	factAPI
	factCount
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	le         = binary.LittleEndian
)

// index is an opened, checked index. It is immutable.
type index struct {
	data    []byte // all of it
	sum     uint32 // of blobs to keys
	blobs   []byte
	lists   [3][]byte
	facts   [factCount][]byte
	offsets []byte // of the keys
	keys    []byte
	files   []byte
	info    []byte
}

// openIndex checks the checksums and the structure of an index, so that no later read is out of bounds.
func openIndex(data []byte) (*index, error) {
	if len(data) < headerSize || string(data[:8]) != indexMagic {
		return nil, errors.New("it is not an index of this layout")
	}
	var counts [countCount]int64
	for i := range counts {
		counts[i] = int64(le.Uint32(data[16+4*i:]))
	}
	blobs, facts, keys, keyBytes, files, info := counts[0], counts[1:3], counts[3], counts[4], counts[5], counts[6]
	keysEnd := headerSize + blobs*(blobSize+3*4) + (facts[0]+facts[1])*pairSize + (keys+1)*4 + keyBytes
	if keysEnd+files*fileSize+info != int64(len(data)) {
		return nil, errors.New("the index is damaged: counts do not match the size")
	}
	rest := data[headerSize:]
	cut := func(n int64) []byte {
		section := rest[:n:n]
		rest = rest[n:]
		return section
	}
	ix := &index{data: data, sum: le.Uint32(data[12:]), blobs: cut(blobs * blobSize)}
	for i := range ix.lists {
		ix.lists[i] = cut(blobs * 4)
	}
	for i := range ix.facts {
		ix.facts[i] = cut(facts[i] * pairSize)
	}
	ix.offsets, ix.keys = cut((keys+1)*4), cut(keyBytes)
	ix.files, ix.info = cut(files*fileSize), cut(info)

	sums := make(chan error, 1)
	go func() { sums <- ix.checkSums() }() // concurrently: a start waits for both
	err := ix.check()
	return ix, cmp.Or(<-sums, err)
}

func (ix *index) checkSums() error {
	keysEnd := len(ix.data) - len(ix.files) - len(ix.info)
	if sum, keysSum := indexSums(ix.data, keysEnd); sum != le.Uint32(ix.data[8:]) || keysSum != ix.sum {
		return errors.New("the index is damaged: checksum mismatch")
	}
	return nil
}

// indexSums returns the two checksums of an index whose keys end at keysEnd.
func indexSums(data []byte, keysEnd int) (sum, keysSum uint32) {
	sum = crc32.Checksum(data[12:headerSize], castagnoli)
	return crc32.Update(sum, castagnoli, data[keysEnd:]), crc32.Checksum(data[headerSize:keysEnd], castagnoli)
}

// check checks every number that is used later.
func (ix *index) check() error {
	if err := cmp.Or(ix.checkKeys(), ix.checkBlobs(), ix.checkLists()); err != nil {
		return err
	}
	for i := 0; i < len(ix.files); i += fileSize {
		first, count := le.Uint32(ix.files[i+fbc.HashSize:]), le.Uint32(ix.files[i+fbc.HashSize+4:])
		if uint64(first)+uint64(count) > uint64(ix.blobCount()) {
			return errors.New("the index is damaged: a file names unknown blobs")
		}
	}
	return nil
}

func (ix *index) checkBlobs() error {
	end := uint64(0)
	for i := range ix.blobCount() {
		offset, size := ix.extent(i)
		if offset != end {
			return fmt.Errorf("the index is damaged: blob %d is out of place", i)
		}
		end = offset + uint64(size) + 1
		for _, field := range []int{fieldSchema, fieldPackage, fieldName, fieldVersion} {
			if ix.blobKey(i, field) >= ix.keyCount() {
				return fmt.Errorf("the index is damaged: blob %d has an unknown key", i)
			}
		}
	}
	return nil
}

// catalogSize returns the size of the catalog.jsonl of the index.
func (ix *index) catalogSize() int64 {
	if ix.blobCount() == 0 {
		return 0
	}
	offset, size := ix.extent(ix.blobCount() - 1)
	return int64(offset) + int64(size) + 1
}

func (ix *index) checkLists() error {
	keys, blobs := ix.keyCount(), ix.blobCount()
	for _, list := range ix.lists {
		for ; len(list) > 0; list = list[4:] {
			if le.Uint32(list) >= blobs {
				return errors.New("the index is damaged: a list names an unknown blob")
			}
		}
	}
	for _, list := range ix.facts {
		next := uint64(0) // lower bound of the pair
		for ; len(list) > 0; list = list[pairSize:] {
			key, blob := le.Uint32(list), le.Uint32(list[4:])
			if key >= keys || blob >= blobs {
				return errors.New("the index is damaged: a fact has an unknown key or blob")
			}
			p := uint64(key)<<32 | uint64(blob)
			if p < next {
				return errors.New("the index is damaged: facts are out of order")
			}
			next = p + 1
		}
	}
	return nil
}

func (ix *index) checkKeys() error {
	last := uint32(0)
	for i := 0; i < len(ix.offsets); i += 4 {
		offset := le.Uint32(ix.offsets[i:])
		if offset < last {
			return errors.New("the index is damaged: keys are out of order")
		}
		last = offset
	}
	if int(last) != len(ix.keys) {
		return errors.New("the index is damaged: keys do not fill their section")
	}
	return nil
}

func (ix *index) blobCount() uint32 { return uint32(len(ix.blobs) / blobSize) }
func (ix *index) keyCount() uint32  { return uint32(len(ix.offsets)/4) - 1 }

// extent returns the position of blob i in catalog.jsonl, without its newline.
func (ix *index) extent(i uint32) (offset uint64, size uint32) {
	r := ix.blobs[int(i)*blobSize:]
	return le.Uint64(r), le.Uint32(r[8:])
}

// hash returns the hash of blob i.
func (ix *index) hash(i uint32) fbc.Hash {
	return fbc.Hash(ix.blobs[int(i)*blobSize+fieldHash:][:fbc.HashSize])
}

// blobKey returns the number of a key of blob i.
func (ix *index) blobKey(i uint32, field int) uint32 {
	return le.Uint32(ix.blobs[int(i)*blobSize+field:])
}

// key returns the bytes of a key, in place.
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

// pair is a fact of a bundle.
type pair struct{ key, blob uint32 }

func pairAt(list []byte, offset int) pair {
	return pair{le.Uint32(list[offset:]), le.Uint32(list[offset+4:])}
}

func (p pair) compare(q pair) int {
	return cmp.Or(cmp.Compare(p.key, q.key), cmp.Compare(p.blob, q.blob))
}

// posting is a sorted list of blob numbers, in place: each is the last four bytes of an element.
type posting struct {
	data []byte
	size int // of an element
}

func (p posting) len() int        { return len(p.data) / p.size }
func (p posting) at(i int) uint32 { return le.Uint32(p.data[(i+1)*p.size-4:]) }

func (p posting) slice(from, to int) posting { return posting{p.data[from*p.size : to*p.size], p.size} }

func (p posting) all() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for i := 0; i < p.len() && yield(p.at(i)); i++ {
		}
	}
}

// from returns the rest of the list from a number on. Its time depends on the distance, not on the length of the list, so
// walking two lists in parallel takes as long as the shorter one.
func (p posting) from(number uint32) posting {
	bound := 1
	for bound < p.len() && p.at(bound) < number {
		bound *= 2
	}
	bound = min(bound, p.len())
	return p.slice(sort.Search(bound, func(i int) bool { return p.at(i) >= number }), p.len())
}

// all returns the numbers of all blobs.
func (ix *index) all() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for n := uint32(0); n < ix.blobCount() && yield(n); n++ {
		}
	}
}

// posting returns the blobs whose field is the key of a number.
func (ix *index) posting(field int, key uint32) posting {
	list := posting{ix.lists[(field-fieldSchema)/4], 4}
	return list.equal(key, func(i int) uint32 { return ix.blobKey(list.at(i), field) })
}

// equal returns the elements whose key is the given one; the list is sorted by key.
func (p posting) equal(key uint32, keyAt func(i int) uint32) posting {
	from := sort.Search(p.len(), func(i int) bool { return keyAt(i) >= key })
	to := from + sort.Search(p.len()-from, func(i int) bool { return keyAt(from+i) > key })
	return p.slice(from, to)
}

// fact returns the bundles that have the key of a number as a fact.
func (ix *index) fact(kind int, key uint32) posting {
	list := posting{ix.facts[kind], pairSize}
	return list.equal(key, func(i int) uint32 { return pairAt(list.data, i*pairSize).key })
}

// providers returns the bundles that provide an API whose key matches.
func (ix *index) providers(matches func(key []byte) bool) posting {
	var numbers []uint32
	list := ix.facts[factAPI]
	for i := 0; i < len(list); {
		key := pairAt(list, i).key
		match := matches(ix.key(key))
		for ; i < len(list) && pairAt(list, i).key == key; i += pairSize {
			if match {
				numbers = append(numbers, pairAt(list, i).blob)
			}
		}
	}
	slices.Sort(numbers)
	out := posting{size: 4}
	for _, n := range slices.Compact(numbers) {
		out.data = le.AppendUint32(out.data, n)
	}
	return out
}

// byBlob returns the facts of a kind ordered by blob.
func (ix *index) byBlob(kind int) []pair {
	list := ix.facts[kind]
	out := make([]pair, 0, len(list)/pairSize)
	for i := 0; i < len(list); i += pairSize {
		out = append(out, pairAt(list, i))
	}
	slices.SortStableFunc(out, func(a, b pair) int { return cmp.Compare(a.blob, b.blob) })
	return out
}

// file returns the blobs that came from a file with this content.
func (ix *index) file(content fbc.Hash) (first, count uint32, ok bool) {
	n := len(ix.files) / fileSize
	i := sort.Search(n, func(i int) bool { return bytes.Compare(ix.files[i*fileSize:][:fbc.HashSize], content[:]) >= 0 })
	if i == n || !bytes.Equal(ix.files[i*fileSize:][:fbc.HashSize], content[:]) {
		return 0, 0, false
	}
	r := ix.files[i*fileSize+fbc.HashSize:]
	return le.Uint32(r), le.Uint32(r[4:]), true
}

// fileRecords returns the files in the order of the catalog.
func (ix *index) fileRecords() []fileRecord {
	var out []fileRecord
	for i := 0; i < len(ix.files); i += fileSize {
		r := ix.files[i:]
		out = append(out, fileRecord{fbc.Hash(r[:fbc.HashSize]), le.Uint32(r[fbc.HashSize:]), le.Uint32(r[fbc.HashSize+4:])})
	}
	slices.SortStableFunc(out, func(a, b fileRecord) int { return cmp.Compare(a.first, b.first) })
	return out
}
