package store

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// smallIndex is an index of four blobs in two files, and the size of its catalog.jsonl.
func smallIndex() ([]byte, int64) {
	b := newIndexBuilder()
	b.add("olm.package", "", "foo", 20)
	b.add("olm.bundle", "foo", "foo.v1", 300)
	b.add("example.com", "foo", "", 2)
	b.add("example.com", "", "", 2)
	b.packages["foo"] = hash{1, 2, 3}
	b.files = []fileRecord{{hash{9}, 2, 2}, {hash{1}, 0, 2}}
	return b.bytes(), int64(b.size)
}

// seal gives an index the checksum of what it holds.
func seal(data []byte) []byte {
	if len(data) >= 12 {
		binary.LittleEndian.PutUint32(data[8:], crc32.Checksum(data[12:], castagnoli))
	}
	return data
}

func TestIndexRefusesDamage(t *testing.T) {
	sound, size := smallIndex()
	if _, err := openIndex(sound, size); err != nil {
		t.Fatal(err)
	}
	put := func(at int, value uint32) func([]byte) []byte {
		return func(b []byte) []byte {
			binary.LittleEndian.PutUint32(b[at:], value)
			return b
		}
	}
	const blobCount = 4
	lists := headerSize + blobCount*blobSize
	keys := lists + 3*4*blobCount
	packages := len(sound) - 2*fileSize - packageSize
	for name, c := range map[string]struct {
		harm func([]byte) []byte
		want string
	}{
		"empty":                        {func([]byte) []byte { return nil }, "not an index of this version"},
		"magic":                        {func(b []byte) []byte { b[0]++; return b }, "not an index of this version"},
		"cut off":                      {func(b []byte) []byte { return b[:len(b)-1] }, "counts do not fit"},
		"longer":                       {func(b []byte) []byte { return append(b, 0) }, "counts do not fit"},
		"more blobs than fit":          {put(12, math.MaxUint32), "counts do not fit"},
		"more keys than fit":           {put(16, math.MaxUint32), "counts do not fit"},
		"blob out of place":            {put(headerSize, 1), "blob 0 is out of place"},
		"blob far out of place":        {put(headerSize+blobSize+4, math.MaxUint32), "blob 1 is out of place"},
		"blob larger than its file":    {put(headerSize+3*blobSize+8, math.MaxUint32), "covers"},
		"unknown key":                  {put(headerSize+2*blobSize+fieldName, 1000), "blob 2 has an unknown key"},
		"list of unknown blobs":        {put(lists+4, blobCount), "a list names an unknown blob"},
		"keys out of order":            {put(keys+4, 1000), "keys are out of order"},
		"keys that do not fill":        {put(keys+4*6, 0), "keys are out of order"},
		"package of an unknown key":    {put(packages, 1000), "a package has an unknown key"},
		"file of unknown blobs":        {put(len(sound)-4, 1000), "a file names unknown blobs"},
		"file of blobs that wrap over": {func(b []byte) []byte { return put(len(b)-8, 2)(put(len(b)-4, math.MaxUint32)(b)) }, "a file names unknown blobs"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := openIndex(seal(c.harm(bytes.Clone(sound))), size)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one that says %q", err, c.want)
			}
		})
	}
	for i := range len(sound) * 8 { // and without a new checksum every single bit shows
		b := bytes.Clone(sound)
		b[i/8] ^= 1 << (i % 8)
		if _, err := openIndex(b, size); err == nil {
			t.Errorf("bit %d is flipped and nobody saw", i)
		}
	}
	for _, wrong := range []int64{size - 1, size + 1, 0, -1} {
		if _, err := openIndex(sound, wrong); err == nil {
			t.Errorf("accepted for a catalog.jsonl of %d bytes", wrong)
		}
	}
}

// FuzzIndex checks that whatever an index says, it is refused or every query ends: a disk may give anything.
func FuzzIndex(f *testing.F) {
	small, _ := smallIndex()
	f.Add(small)
	f.Add(newIndexBuilder().bytes())
	path := filepath.Join(f.TempDir(), catalogFile)
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), 1000), 0o644); err != nil {
		f.Fatal(err)
	}
	catalog, err := os.Open(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = catalog.Close() }) // read only
	f.Fuzz(func(t *testing.T, data []byte) {
		ix, err := openIndex(seal(bytes.Clone(data)), covered(data))
		if err != nil {
			return
		}
		snap := &Snapshot{index: ix, catalog: catalog}
		values := []string{"", "nosuch"}
		for n := range min(ix.keyCount(), 5) {
			values = append(values, string(ix.key(n)))
		}
		for _, schema := range values {
			for _, pkg := range values {
				for _, name := range values {
					read(t, snap.Select(Query{Schema: schema, Package: pkg, Name: name}))
				}
			}
			read(t, snap.Select(Query{Schema: schema, Custom: true}))
			read(t, snap.Package(schema))
		}
		for _, p := range snap.Packages() {
			read(t, snap.Package(p.Name))
		}
		for i := 0; i < len(ix.files); i += fileSize {
			ix.file(hash(ix.files[i : i+hashSize]))
		}
	})
}

// covered is the size of the catalog.jsonl that an index says it is of, so that a fuzzer need not guess it.
func covered(data []byte) int64 {
	if len(data) < headerSize {
		return 0
	}
	last := headerSize + (int64(binary.LittleEndian.Uint32(data[12:]))-1)*blobSize
	if last < headerSize || last+blobSize > int64(len(data)) {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(data[last:])) + int64(binary.LittleEndian.Uint32(data[last+8:])) + 1
}

// read reads blobs as long as they are in the file; beyond it there has to be an error.
func read(t *testing.T, b *Blobs) {
	t.Helper()
	if b.Size() > 1<<20 {
		return // All would make room for it; a real file has the size that its index says
	}
	buf := make([]byte, 512)
	for got := int64(0); ; {
		n, err := b.Read(buf)
		if got += int64(n); got > b.Size() {
			t.Fatalf("got %d bytes of %d", got, b.Size())
		}
		if err != nil {
			break
		}
	}
	count := 0
	for _, err := range b.All() {
		if err != nil {
			return
		}
		count++
	}
	if count != b.Len() {
		t.Fatalf("got %d blobs of %d", count, b.Len())
	}
}
