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
)

// The index of a catalog is held in memory, and so is what it is made of: 10 times what 100,000 bundles come to are some 200 MB.
const (
	maxBlobs    = 1_000_000
	maxFacts    = 10_000_000 // properties and APIs of all bundles
	maxKeyBytes = 128 << 20  // of all names, versions, schemas, types and APIs, each once
)

// intakeBuffer is how large a file may be that is held as a whole: few have more.
const intakeBuffer = 1 << 20

// intakeQueue is how many files may wait to be read before whoever unpacks them has to wait.
const intakeQueue = 1024

// intake reads the files of a stage into a spool, in the order in which they are complete, while others are still being
// unpacked. A file that was replaced after it was read is read again, and what it gave before is left out when the catalog is
// put together, as is what a file gave that is gone by then.
type intake struct {
	fsys     fs.FS
	spool    *spool
	previous *Snapshot // of the same catalog; what it has of an unchanged file is copied, not parsed. May be nil
	maxBlob  int64
	ctx      context.Context
	stop     context.CancelFunc
	added    chan string
	closing  sync.Once     // closes added
	done     chan struct{} // closed when all that was added is read

	// What follows belongs to the goroutine until done is closed.
	keys   *keyTable
	buffer []byte               // holds the file that is being read, if it fits in
	files  map[string]*readFile // by path: what it gave when it was last read
	facts  [factCount][]pair    // of previous, ordered by blob
	blobs  int                  // of files, and
	pairs  int                  // their facts; those of the file that is being read come on top

	room   uint64 // most bytes of the spool
	noRoom error  // what exceeding them is
}

// readFile is what a file gave. The numbers of its blobs count from the first of the file.
type readFile struct {
	content    fbc.Hash
	start, end uint64 // of its lines in the spool
	blobs      []blobRecord
	facts      [factCount][]pair
	err        error // why it cannot be read
}

func newIntake(fsys fs.FS, spool *spool, previous *Snapshot, maxBlob int64) *intake {
	ctx, stop := context.WithCancel(context.Background()) // ended by Commit, whose context it takes on, or by Discard
	in := &intake{
		fsys: fsys, spool: spool, previous: previous, maxBlob: maxBlob, ctx: ctx, stop: stop,
		added: make(chan string, intakeQueue), done: make(chan struct{}),
		keys: newKeyTable(), buffer: make([]byte, intakeBuffer), files: map[string]*readFile{},
	}
	if previous != nil {
		for kind := range in.facts {
			in.facts[kind] = previous.index.byBlob(kind)
		}
	}
	go func() {
		defer close(in.done)
		for name := range in.added {
			in.take(name)
		}
	}()
	return in
}

// end waits until all that was added is read. Nothing can be added after it.
func (in *intake) end() {
	in.closing.Do(func() { close(in.added) })
	<-in.done
}

// close ends the reading, wherever it is, and the spool. It may be called more than once.
func (in *intake) close() error {
	in.stop()
	in.end()
	return in.spool.close()
}

// release lets go of what is not needed any more once the index is made, and may be large.
func (in *intake) release() {
	in.files, in.keys, in.facts, in.previous, in.buffer = nil, nil, [factCount][]pair{}, nil, nil
}

// inOrder gives what the files of the catalog gave, in its order; those that nobody added are read now. The first in that
// order that cannot be read fails the whole.
func (in *intake) inOrder() ([]*readFile, error) {
	names, err := fbc.Files(in.fsys)
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

// take reads a file, and lets go of what it gave before, if it did.
func (in *intake) take(name string) *readFile {
	if before := in.files[name]; before != nil {
		in.blobs, in.pairs = in.blobs-len(before.blobs), in.pairs-before.factCount()
	}
	f := in.read(name)
	in.files[name] = f
	in.blobs, in.pairs = in.blobs+len(f.blobs), in.pairs+f.factCount()
	return f
}

// read reads a file into the spool, from the previous snapshot if that holds a file of the same content.
func (in *intake) read(name string) (f *readFile) {
	f = &readFile{start: in.spool.size, err: in.ctx.Err()}
	if f.err != nil {
		return f
	}
	defer func() {
		if r := recover(); r != nil { // of a parser, say: one file is not to end the process, again at each start
			f.err = &fbc.Error{Path: name, Err: fmt.Errorf("reading it failed: %v", r)}
		}
		f.end = in.spool.size
	}()
	var fsys fs.FS
	if fsys, f.content, f.err = in.load(name); f.err == nil && !in.copyUnchanged(f) {
		f.start, f.blobs, f.facts = in.spool.size, nil, [factCount][]pair{}
		f.err = fbc.ReadFile(fsys, name, in.maxBlob, func(b fbc.Blob) error {
			err := in.add(f, b)
			if errors.Is(err, errTooMuch) {
				err = &fbc.Error{Path: name, Err: err}
			}
			return err
		})
	}
	return f
}

var errTooMuch = fmt.Errorf("the catalog has more than %d blobs, %d properties and APIs or %d bytes of names, the most that is accepted", maxBlobs, maxFacts, maxKeyBytes)

// add adds a blob that a file gave. What it adds is bounded at once, as it is held until the commit.
func (in *intake) add(f *readFile, b fbc.Blob) error {
	if err := in.fits(f, len(b.JSON)); err != nil {
		return err
	}
	f.add(in.keys, b)
	copy(in.spool.grow(len(b.JSON)), b.JSON)
	return cmp.Or(in.ctx.Err(), in.spool.err())
}

// fits tells whether there is room for one more blob of a file, of a size.
func (in *intake) fits(f *readFile, size int) error {
	switch {
	case in.blobs+len(f.blobs) >= maxBlobs || in.pairs+f.factCount() >= maxFacts || in.keys.size >= maxKeyBytes:
		return errTooMuch
	case in.spool.size+uint64(size) >= in.room:
		return in.noRoom
	}
	return nil
}

func (f *readFile) factCount() int { return len(f.facts[factProperty]) + len(f.facts[factAPI]) }

// add notes where a blob is that the file gave, and what the index is to know of it.
func (f *readFile) add(keys *keyTable, b fbc.Blob) {
	number := uint32(len(f.blobs))
	f.blobs = append(f.blobs, blobRecord{
		size: uint32(len(b.JSON)), hash: fbc.HashOf(b.JSON),
		keys: [4]uint32{keys.number(b.Schema), keys.number(b.Package), keys.number(b.Name), keys.number(b.Bundle.Version)},
	})
	for _, typ := range b.Bundle.Properties {
		f.facts[factProperty] = append(f.facts[factProperty], pair{keys.number(typ), number})
	}
	for _, api := range b.Bundle.Provides {
		f.facts[factAPI] = append(f.facts[factAPI], pair{keys.number(api.String()), number})
	}
}

// copyUnchanged takes what a file of this content gave in the previous snapshot, if it is still as it was written then.
func (in *intake) copyUnchanged(f *readFile) bool {
	if in.previous == nil {
		return false
	}
	index := in.previous.index
	first, count, ok := index.file(f.content)
	for n := first; ok && n < first+count; n++ {
		offset, size := index.extent(n)
		if in.fits(f, int(size)) != nil {
			return false
		}
		line := in.spool.grow(int(size))
		_, err := in.previous.catalog.Load().ReadAt(line, int64(offset))
		if err != nil || !in.previous.Matches(n, line) || in.ctx.Err() != nil {
			return false // what was added stays in the spool, as of a file that was replaced
		}
		in.copyRecord(f, n)
	}
	return ok
}

// copyRecord takes what the index of the previous snapshot says of a blob.
func (in *intake) copyRecord(f *readFile, n uint32) {
	index, number := in.previous.index, uint32(len(f.blobs))
	key := func(k uint32) uint32 { return in.keys.number(string(index.key(k))) }
	_, size := index.extent(n)
	r := blobRecord{size: size, hash: index.hash(n)}
	for i, field := range []int{fieldSchema, fieldPackage, fieldName, fieldVersion} {
		r.keys[i] = key(index.blobKey(n, field))
	}
	f.blobs = append(f.blobs, r)
	for kind, list := range in.facts {
		i, _ := slices.BinarySearchFunc(list, n, func(p pair, n uint32) int { return cmp.Compare(p.blob, n) })
		for ; i < len(list) && list[i].blob == n; i++ {
			f.facts[kind] = append(f.facts[kind], pair{key(list[i].key), number})
		}
	}
}
