package store

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// smallIndex returns an index of four blobs in two files, and the size of its catalog.jsonl.
func smallIndex() (data []byte, catalogSize int64) {
	keys := newKeyTable()
	record := func(size uint32, schema, pkg, name, version string) blobRecord {
		return blobRecord{size: size, keys: [4]uint32{keys.number(schema), keys.number(pkg), keys.number(name),
			keys.number(version)}, hash: fbc.Hash{byte(size)}}
	}
	first := &readFile{content: fbc.Hash{9}, blobs: []blobRecord{record(20, "olm.package", "", "foo", ""),
		record(300, "olm.bundle", "foo", "foo.v1", "1.0.0")}}
	for _, typ := range []string{"olm.gvk", "olm.package"} {
		first.facts[factProperty] = append(first.facts[factProperty], pair{keys.number(typ), 1})
	}
	for _, api := range []string{"example.com/v1/Foo", "example.com/v2/Foo"} {
		first.facts[factAPI] = append(first.facts[factAPI], pair{keys.number(api), 1})
	}
	b := indexBuilder{keys: keys}
	b.add(first)
	b.add(&readFile{content: fbc.Hash{1}, blobs: []blobRecord{record(2, "example.com", "foo", "", ""), record(2, "example.com", "", "", "")}})
	return b.bytes([]byte("info")), int64(b.size)
}

// seal updates the checksums of an index, if its counts match its size.
func seal(data []byte) []byte {
	if len(data) < headerSize {
		return data
	}
	count := func(i int) int { return int(le.Uint32(data[16+4*i:])) }
	end := headerSize + count(0)*(blobSize+3*4) + (count(1)+count(2))*pairSize + (count(3)+1)*4 + count(4)
	if end+count(5)*fileSize+count(6) != len(data) {
		return data
	}
	for range 2 { // the first is of the second, too
		sum, keysSum := indexSums(data, end)
		le.PutUint32(data[8:], sum)
		le.PutUint32(data[12:], keysSum)
	}
	return data
}

func TestIndexRefusesDamage(t *testing.T) {
	intact, size := smallIndex()
	if ix, err := openIndex(intact); err != nil || ix.catalogSize() != size || string(ix.info) != "info" {
		t.Fatalf("got %v, of %d bytes", err, size)
	}
	put := func(at int, value uint32) func([]byte) []byte {
		return func(b []byte) []byte {
			binary.LittleEndian.PutUint32(b[at:], value)
			return b
		}
	}
	const blobCount = 4
	lists := headerSize + blobCount*blobSize
	facts := lists + 3*4*blobCount
	keys := facts + 4*pairSize
	for name, c := range map[string]struct {
		harm func([]byte) []byte
		want string
	}{
		"empty":                    {func([]byte) []byte { return nil }, "not an index of this layout"},
		"magic":                    {func(b []byte) []byte { b[0]++; return b }, "not an index of this layout"},
		"cut off":                  {func(b []byte) []byte { return b[:len(b)-1] }, "counts do not match"},
		"longer":                   {func(b []byte) []byte { return append(b, 0) }, "counts do not match"},
		"more blobs than fit":      {put(16, math.MaxUint32), "counts do not match"},
		"more properties than fit": {put(20, math.MaxUint32), "counts do not match"},
		"more keys than fit":       {put(28, math.MaxUint32), "counts do not match"},
		"blob out of place":        {put(headerSize, 1), "blob 0 is out of place"},
		"blob far out of place":    {put(headerSize+blobSize+4, math.MaxUint32), "blob 1 is out of place"},
		"unknown key":              {put(headerSize+2*blobSize+fieldName, 1000), "blob 2 has an unknown key"},
		"unknown version":          {put(headerSize+blobSize+fieldVersion, 1000), "blob 1 has an unknown key"},
		"fact of an unknown key":   {put(facts, 1000), "a fact has an unknown key or blob"},
		"fact of an unknown blob":  {put(facts+3*pairSize+4, blobCount), "a fact has an unknown key or blob"},
		"facts out of order":       {put(facts, 9), "facts are out of order"},
		"a fact twice": {func(b []byte) []byte {
			copy(b[facts+3*pairSize:],
				b[facts+2*pairSize:][:pairSize])
			return b
		}, "facts are out of order"},
		"list of unknown blobs":        {put(lists+4, blobCount), "a list names an unknown blob"},
		"keys out of order":            {put(keys+4, 1000), "keys are out of order"},
		"keys that do not fill":        {put(keys+4*10, 0), "keys are out of order"},
		"file of unknown blobs":        {put(len(intact)-len("info")-4, 1000), "a file names unknown blobs"},
		"file of blobs that wrap over": {put(len(intact)-len("info")-8, math.MaxUint32), "a file names unknown blobs"},
		"more info than fits":          {put(40, 5), "counts do not match"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := openIndex(seal(c.harm(bytes.Clone(intact))))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one that says %q", err, c.want)
			}
		})
	}
	for i := range len(intact) * 8 { // and without a new checksum every single bit shows
		b := bytes.Clone(intact)
		b[i/8] ^= 1 << (i % 8)
		if _, err := openIndex(b); err == nil {
			t.Errorf("bit %d is flipped without an error", i)
		}
	}
}

// FuzzIndex checks that an index is refused, or that every query on it ends: a disk can return anything.
func FuzzIndex(f *testing.F) {
	small, _ := smallIndex()
	f.Add(small)
	f.Add((&indexBuilder{keys: newKeyTable()}).bytes(nil))
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
		ix, err := openIndex(seal(bytes.Clone(data)))
		if err != nil {
			return
		}
		snap := &Snapshot{index: ix}
		snap.catalog.Store(catalog)
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
			read(t, snap.Select(Query{Property: schema, Schema: fbc.SchemaBundle}))
			read(t, snap.Select(Query{Provides: fbc.GVK{Group: schema}}))
			read(t, snap.Select(Query{Provides: fbc.GVK{Kind: schema}, Property: schema}))
			if parts := strings.Split(schema, "/"); len(parts) == 3 {
				read(t, snap.Select(Query{Provides: fbc.GVK{Group: parts[0], Version: parts[1], Kind: parts[2]}}))
			}
		}
		for range snap.Select(Query{}).Keep(func(e Entry) bool { return e.Size%2 == 0 }).Len() {
			break
		}
		for kind := range factCount {
			ix.byBlob(kind)
		}
		snap.packageBlobs()
		for i := 0; i < len(ix.files); i += fileSize {
			ix.file(fbc.Hash(ix.files[i : i+fbc.HashSize]))
		}
	})
}

// read reads blobs that are within the file; beyond it there must be an error.
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
