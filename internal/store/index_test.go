package store

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// sized is a blob of so many bytes.
func sized(schema, pkg, name string, size int) fbc.Blob {
	return fbc.Blob{Schema: schema, Package: pkg, Name: name, JSON: make([]byte, size)}
}

// smallIndex is an index of four blobs in two files, and the sizes of its catalog.jsonl and packages.jsonl.
func smallIndex() (data []byte, catalogSize, packagesSize int64) {
	b := newIndexBuilder()
	b.add(sized("olm.package", "", "foo", 20))
	bundle := sized("olm.bundle", "foo", "foo.v1", 300)
	bundle.Bundle = fbc.BundleFacts{
		Version: "1.0.0", Properties: []string{"olm.gvk", "olm.package"},
		Provides: []fbc.GVK{{Group: "example.com", Version: "v1", Kind: "Foo"}, {Group: "example.com", Version: "v2", Kind: "Foo"}},
	}
	b.add(bundle)
	b.add(sized("example.com", "foo", "", 2))
	b.add(sized("example.com", "", "", 2))
	b.addPackage("foo", hash{1, 2, 3}, 100)
	b.files = []fileRecord{{hash{9}, 2, 2}, {hash{1}, 0, 2}}
	return b.bytes(), int64(b.size), int64(b.packagesSize)
}

// seal gives an index the checksum of what it holds.
func seal(data []byte) []byte {
	if len(data) >= 12 {
		binary.LittleEndian.PutUint32(data[8:], crc32.Checksum(data[12:], castagnoli))
	}
	return data
}

func TestIndexRefusesDamage(t *testing.T) {
	sound, size, packagesSize := smallIndex()
	if _, err := openIndex(sound, size, packagesSize); err != nil {
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
	facts := lists + 3*4*blobCount
	keys := facts + 4*pairSize
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
		"more properties than fit":     {put(16, math.MaxUint32), "counts do not fit"},
		"more keys than fit":           {put(24, math.MaxUint32), "counts do not fit"},
		"blob out of place":            {put(headerSize, 1), "blob 0 is out of place"},
		"blob far out of place":        {put(headerSize+blobSize+4, math.MaxUint32), "blob 1 is out of place"},
		"blob larger than its file":    {put(headerSize+3*blobSize+8, math.MaxUint32), "covers"},
		"unknown key":                  {put(headerSize+2*blobSize+fieldName, 1000), "blob 2 has an unknown key"},
		"unknown version":              {put(headerSize+blobSize+fieldVersion, 1000), "blob 1 has an unknown key"},
		"fact of an unknown key":       {put(facts, 1000), "a fact has an unknown key or blob"},
		"fact of an unknown blob":      {put(facts+3*pairSize+4, blobCount), "a fact has an unknown key or blob"},
		"facts out of order":           {put(facts, 9), "its facts are out of order"},
		"a fact twice":                 {func(b []byte) []byte { copy(b[facts+3*pairSize:], b[facts+2*pairSize:][:pairSize]); return b }, "its facts are out of order"},
		"summary out of place":         {put(packages+4+hashSize, 1), "summary of a package is out of place"},
		"summary beyond its file":      {put(packages+4+hashSize+8, 101), "covers 102 bytes of a packages.jsonl of 101"},
		"list of unknown blobs":        {put(lists+4, blobCount), "a list names an unknown blob"},
		"keys out of order":            {put(keys+4, 1000), "keys are out of order"},
		"keys that do not fill":        {put(keys+4*10, 0), "keys are out of order"},
		"package of an unknown key":    {put(packages, 1000), "a package has an unknown key"},
		"file of unknown blobs":        {put(len(sound)-4, 1000), "a file names unknown blobs"},
		"file of blobs that wrap over": {func(b []byte) []byte { return put(len(b)-8, 2)(put(len(b)-4, math.MaxUint32)(b)) }, "a file names unknown blobs"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := openIndex(seal(c.harm(bytes.Clone(sound))), size, packagesSize)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one that says %q", err, c.want)
			}
		})
	}
	for i := range len(sound) * 8 { // and without a new checksum every single bit shows
		b := bytes.Clone(sound)
		b[i/8] ^= 1 << (i % 8)
		if _, err := openIndex(b, size, packagesSize); err == nil {
			t.Errorf("bit %d is flipped and nobody saw", i)
		}
	}
	for _, wrong := range []int64{size - 1, size + 1, 0, -1} {
		if _, err := openIndex(sound, wrong, packagesSize); err == nil {
			t.Errorf("accepted for a catalog.jsonl of %d bytes", wrong)
		}
		if _, err := openIndex(sound, size, wrong); err == nil {
			t.Errorf("accepted for a packages.jsonl of %d bytes", wrong)
		}
	}
}

// FuzzIndex checks that whatever an index says, it is refused or every query ends: a disk may give anything.
func FuzzIndex(f *testing.F) {
	small, _, _ := smallIndex()
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
		ix, err := openIndex(seal(bytes.Clone(data)), covered(data), coveredPackages(data))
		if err != nil {
			return
		}
		snap := &Snapshot{index: ix, catalog: catalog, packages: catalog, info: Info{PackagesBytes: coveredPackages(data)}}
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
			if g, ok := fbc.ParseGVK(schema); ok {
				read(t, snap.Select(Query{Provides: g}))
			}
			readSummary(t, snap, schema)
		}
		for range snap.Select(Query{}).Keep(func(e Entry) bool { return e.Size%2 == 0 }).Len() {
			break
		}
		for kind := range factCount {
			ix.byBlob(kind)
		}
		snap.ChangesSince(snap)
		for _, p := range snap.Packages() {
			read(t, snap.Package(p.Name))
		}
		for i := 0; i < len(ix.files); i += fileSize {
			ix.file(hash(ix.files[i : i+hashSize]))
		}
	})
}

// readSummary reads one summary, and all of them; what the file has is no JSON, so that there has to be an error.
func readSummary(t *testing.T, snap *Snapshot, name string) {
	t.Helper()
	for i := range snap.index.packageCount() {
		if _, _, _, size := snap.index.packageAt(i); size > 1<<20 {
			return // as in read
		}
	}
	if _, ok, err := snap.Summary(name); ok || err == nil && slices.ContainsFunc(snap.Packages(), func(p PackageVersion) bool { return p.Name == name }) {
		t.Fatalf("got a summary of %q", name)
	}
	for _, err := range snap.Summaries() {
		if err == nil {
			t.Fatal("got a summary")
		}
	}
}

// coveredPackages is the size of the packages.jsonl that an index says it is of.
func coveredPackages(data []byte) int64 {
	if len(data) < headerSize {
		return 0
	}
	files := int64(binary.LittleEndian.Uint32(data[12+6*4:]))
	at := int64(len(data)) - files*fileSize - 12
	if packages := binary.LittleEndian.Uint32(data[12+5*4:]); packages == 0 || at < headerSize {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(data[at:])) + int64(binary.LittleEndian.Uint32(data[at+8:])) + 1
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
