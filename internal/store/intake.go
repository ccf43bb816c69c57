package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// Limits of a catalog, whose index is built and held in memory: 10 times what 100,000 bundles need take some 200 MB.
const (
	maxBlobs    = 1_000_000
	maxFacts    = 10_000_000 // properties and APIs of all bundles
	maxKeyBytes = 128 << 20  // of all distinct names, versions, schemas, types and APIs
)

const (
	intakeBuffer = 1 << 20 // size up to which a file is held in memory; few are larger
	intakeQueue  = 1024    // files that can await reading before Add blocks
)

// intake reads the files of a stage into a spool, in the order of their completion, while others are unpacked. It reads a
// replaced file again. inOrder leaves out the previous blobs of replaced files, and those of deleted ones.
type intake struct {
	fsys    fs.FS
	spool   *spool
	reuse   *reuse // nil if there is no previous snapshot
	limits  limits
	ctx     context.Context
	stop    context.CancelFunc
	added   chan string
	closing sync.Once     // closes added
	done    chan struct{} // closed once all added files are read

	// The rest belongs to the reading goroutine until done is closed.
	keys   *keyTable
	buffer []byte               // for the file that is being read
	files  map[string]*readFile // by path: its last reading
	total  tally                // of files

	restored []*readFile // in the place of files: those of a stored catalog
}

// limits are the limits of a catalog.
type limits struct {
	blob   int64  // bytes of a blob
	spool  uint64 // bytes of the spool
	noRoom error  // for a spool over its limit
}

// tally counts blobs and their facts.
type tally struct{ blobs, facts int }

// readFile is the result of reading a file. The numbers of its blobs count from the first of the file.
type readFile struct {
	content    fbc.Hash
	start, end uint64 // of its lines in the spool
	blobs      []blobRecord
	facts      [factCount][]pair
	err        error // why it cannot be read
}

// reuse is the previous snapshot of a catalog, from which blobs of unchanged files are copied.
type reuse struct {
	snapshot *Snapshot
	facts    [factCount][]pair // sorted by blob
}

func newReuse(previous *Snapshot) *reuse {
	if previous == nil {
		return nil
	}
	r := &reuse{snapshot: previous}
	for kind := range r.facts {
		r.facts[kind] = previous.index.byBlob(kind)
	}
	return r
}

func newIntake(fsys fs.FS, spool *spool, previous *Snapshot, bounds limits) *intake {
	ctx, stop := context.WithCancel(context.Background()) // Commit and Discard stop it
	in := &intake{
		fsys: fsys, spool: spool, reuse: newReuse(previous), limits: bounds, ctx: ctx, stop: stop,
		added: make(chan string, intakeQueue), done: make(chan struct{}),
		keys: newKeyTable(), buffer: make([]byte, intakeBuffer), files: map[string]*readFile{},
	}
	go func() {
		defer close(in.done)
		for name := range in.added {
			in.take(name)
		}
	}()
	return in
}

// end waits until all added files are read. Nothing can be added after it.
func (in *intake) end() {
	in.closing.Do(func() { close(in.added) })
	<-in.done
}

// close stops the reading and closes the spool. It can be called again.
func (in *intake) close() error {
	in.stop()
	in.end()
	return in.spool.close()
}

// release releases memory that is unused once the index builder has the files.
func (in *intake) release() {
	in.files, in.restored, in.keys, in.reuse, in.buffer = nil, nil, nil, nil, nil
}

// inOrder returns the readings of the files in the order of the catalog. It reads files that were not added. The first
// unreadable file in that order is the error.
func (in *intake) inOrder() ([]*readFile, error) {
	if in.restored != nil {
		return in.restored, nil
	}
	names, err := scan.Files(in.fsys)
	if err != nil {
		return nil, err
	}
	files := make([]*readFile, len(names))
	for i, name := range names {
		f, ok := in.files[name]
		if !ok {
			f = in.take(name)
		}
		if f.err != nil {
			return nil, f.err
		}
		files[i] = f
	}
	return files, nil
}

// take reads a file and forgets an earlier reading.
func (in *intake) take(name string) *readFile {
	if before := in.files[name]; before != nil {
		in.count(before, -1)
	}
	f := in.read(name)
	in.files[name] = f
	in.count(f, 1)
	return f
}

func (in *intake) count(f *readFile, sign int) {
	in.total.blobs += sign * len(f.blobs)
	in.total.facts += sign * f.factCount()
}

// read reads a file into the spool, or copies its blobs from the previous snapshot.
func (in *intake) read(name string) (f *readFile) {
	f = &readFile{start: in.spool.size, err: in.ctx.Err()}
	if f.err != nil {
		return f
	}
	defer func() {
		if r := recover(); r != nil { // one file must not end the process at each start
			f.err = &scan.Error{Path: name, Err: fmt.Errorf("reading it failed: %v", r)}
		}
		f.end = in.spool.size
	}()
	var fsys fs.FS
	if fsys, f.content, f.err = in.load(name); f.err == nil && !in.copyUnchanged(f) {
		f.start, f.blobs, f.facts = in.spool.size, nil, [factCount][]pair{}
		f.err = scan.ReadFile(fsys, name, in.limits.blob, func(b scan.Blob) error {
			err := in.add(f, b)
			if errors.Is(err, errTooMuch) {
				err = &scan.Error{Path: name, Err: err}
			}
			return err
		})
	}
	return f
}

var errTooMuch = fmt.Errorf("the catalog exceeds the limit of %d blobs, %d properties and APIs, or %d bytes of names",
	maxBlobs, maxFacts, maxKeyBytes)

// add adds a blob of a file.
func (in *intake) add(f *readFile, b scan.Blob) error {
	if err := in.checkLimits(f, len(b.JSON)); err != nil {
		return err
	}
	f.add(in.keys, b)
	copy(in.spool.grow(len(b.JSON)), b.JSON)
	return cmp.Or(in.ctx.Err(), in.spool.err())
}

// checkLimits returns an error if one more blob of a file exceeds a limit.
func (in *intake) checkLimits(f *readFile, size int) error {
	switch {
	case in.total.blobs+len(f.blobs) >= maxBlobs, in.total.facts+f.factCount() >= maxFacts, in.keys.size >= maxKeyBytes:
		return errTooMuch
	case in.spool.size+uint64(size) >= in.limits.spool:
		return in.limits.noRoom
	}
	return nil
}

func (f *readFile) factCount() int { return len(f.facts[factProperty]) + len(f.facts[factAPI]) }

// add adds the index data of a blob.
func (f *readFile) add(keys *keyTable, b scan.Blob) {
	number, facts := uint32(len(f.blobs)), fbc.FactsOf(b)
	f.blobs = append(f.blobs, blobRecord{
		size: uint32(len(b.JSON)), hash: fbc.HashOf(b.JSON),
		keys: [4]uint32{keys.number(b.Schema), keys.number(b.Package), keys.number(b.Name), keys.number(facts.Version)},
	})
	for _, typ := range facts.Properties {
		f.facts[factProperty] = append(f.facts[factProperty], pair{keys.number(typ), number})
	}
	for _, api := range facts.Provides {
		f.facts[factAPI] = append(f.facts[factAPI], pair{keys.number(api.String()), number})
	}
}

// copyUnchanged copies the blobs of a file from the previous snapshot, if that has a file of the same content and all its
// blobs match their hashes. Otherwise unused lines stay in the spool.
func (in *intake) copyUnchanged(f *readFile) bool {
	if in.reuse == nil {
		return false
	}
	previous := in.reuse.snapshot
	first, count, ok := previous.index.file(f.content)
	for n := first; ok && n < first+count; n++ {
		offset, size := previous.index.extent(n)
		if in.checkLimits(f, int(size)) != nil {
			return false
		}
		line := in.spool.grow(int(size))
		_, err := previous.catalog.Load().ReadAt(line, int64(offset))
		if err != nil || !previous.Matches(n, line) || in.ctx.Err() != nil {
			return false
		}
		in.reuse.copyRecord(f, n, in.keys)
	}
	return ok
}

// copyRecord copies the index entries of a blob.
func (r *reuse) copyRecord(f *readFile, n uint32, keys *keyTable) {
	index, number := r.snapshot.index, uint32(len(f.blobs))
	key := func(k uint32) uint32 { return keys.number(string(index.key(k))) }
	_, size := index.extent(n)
	record := blobRecord{size: size, hash: index.hash(n)}
	for i, field := range []int{fieldSchema, fieldPackage, fieldName, fieldVersion} {
		record.keys[i] = key(index.blobKey(n, field))
	}
	f.blobs = append(f.blobs, record)
	for kind, list := range r.facts {
		i, _ := slices.BinarySearchFunc(list, n, func(p pair, n uint32) int { return cmp.Compare(p.blob, n) })
		for ; i < len(list) && list[i].blob == n; i++ {
			f.facts[kind] = append(f.facts[kind], pair{key(list[i].key), number})
		}
	}
}
