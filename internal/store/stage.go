package store

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"strconv"
	"sync"
)

// Stage is a place on the volume where a snapshot is prepared for a catalog. Whoever asked for it fills Root with the
// files of the catalog and then calls Commit; Discard in any case. A stage left behind by a crash is deleted at the next
// start.
//
//	<stage>/files/     Root
//	<stage>/blobs      what was read of the files so far, in the order in which they came
//	<stage>/snapshot/  what becomes the snapshot
type Stage struct {
	store  *Store
	name   string
	dir    string
	files  *os.Root
	usage  Usage // when there was nothing in it
	intake *intake

	discarded func() // tells that it needs the processors no more
}

// Stage makes an empty stage for the next content of a catalog, that of an image (its reference, as in Source). An error may be a
// *NoRoomError: of the image that the catalog has now, it is known about how much room it takes.
func (s *Store) Stage(name, image string) (_ *Stage, err error) {
	st := &Stage{store: s, name: name, dir: s.stageName()}
	defer func() {
		if err != nil {
			err = fmt.Errorf("making a stage: %w", errors.Join(err, s.volume.RemoveAll(st.dir)))
		}
	}()
	served, _ := s.Catalog(name)
	previous, estimate := served.Snapshot, served.Snapshot
	if served.Image != image {
		estimate = nil // another image may be smaller, and be named for that very reason
	}
	if st.usage, err = s.roomFor(estimate); err != nil {
		return nil, err
	}
	for _, d := range []string{st.dir, st.path("files"), st.path("snapshot")} {
		if err := s.volume.Mkdir(d); err != nil {
			return nil, err
		}
	}
	blobs, err := s.volume.Create(st.path("blobs"))
	if err != nil {
		return nil, err
	}
	if st.files, err = s.volume.OpenRoot(st.path("files")); err != nil {
		return nil, errors.Join(err, blobs.Close())
	}
	st.discarded = sync.OnceFunc(s.Prioritize())
	st.intake = newIntake(st.files.FS(), newSpool(blobs), previous, s.opts.MaxBlobBytes)
	st.intake.room, st.intake.noRoom = uint64(st.Room()), st.NoRoom()
	return st, nil
}

// stageName is a new name in the stage.
func (s *Store) stageName() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stageCount++
	return path.Join(stageDir, strconv.Itoa(s.stageCount))
}

func (st *Stage) path(elem ...string) string { return path.Join(append([]string{st.dir}, elem...)...) }

// Root is where the files of the catalog go, as they lie under the config directory of the image.
func (st *Stage) Root() *os.Root { return st.files }

// Add says that a file in Root is complete, so that it can be read while others are being written; it may wait until some
// others are read. If the file is replaced afterwards it has to be added again. What is not added, Commit reads. Add belongs to
// one goroutine, and must not be called after Commit or Discard.
func (st *Stage) Add(name string) { st.intake.added <- name }

// Discard deletes the stage. After Commit it only tidies up.
func (st *Stage) Discard() error {
	st.discarded()
	return errors.Join(st.intake.close(), st.files.Close(), st.store.volume.RemoveAll(st.dir))
}

// Commit makes a snapshot of the files and lets the catalog serve it; when it returns, that is durable, and the packages are
// described. Until it serves the new content, and after any error before that, the catalog serves what it did before. What no
// client could read as a catalog is a *fbc.Error; a package that is not sound is no error, the snapshot tells.
//
// Order: the files of the snapshot are written and synced, its directory is renamed into snapshots/ (a crash from here
// on leaves a snapshot that nothing points to: a later sweep deletes it, or the next attempt uses it), and then comes Serve.
func (st *Stage) Commit(ctx context.Context, src Source) (*Snapshot, error) {
	if err := st.write(ctx, src); err != nil {
		return nil, err
	}
	s := st.store
	snap, err := st.publish(src.Key())
	if err != nil {
		return nil, fmt.Errorf("publishing the snapshot of %s: %w", st.name, err)
	}
	defer snap.awaited.Add(-1)
	return snap, s.Serve(ctx, st.name, src, snap)
}

// publish moves the finished snapshot to its name. If a sound one is there, of another catalog with the same image,
// that one is used. A damaged one steps aside first: after a crash in between it is opened from there, as it was served.
// The snapshot is returned as awaited, which keeps it from every sweep until the caller takes that back.
func (st *Stage) publish(key string) (snap *Snapshot, err error) {
	s := st.store
	_, _ = s.Snapshot(key) // reads one that an earlier process left, which is not to be done under the lock
	s.publish.Lock()
	defer s.publish.Unlock()
	defer func() {
		if err == nil {
			snap.awaited.Add(1)
		}
	}()
	if snap, ok := s.Snapshot(key); ok {
		return snap, nil
	}
	target := path.Join(snapshotsDir, key)
	if err := s.volume.stepAside(target, target+damagedSuffix); err != nil {
		return nil, err
	}
	if err := s.volume.publishDir(st.path("snapshot"), target); err != nil {
		return nil, err
	}
	if snap, err = openIndexed(s.volume, key, target); err == nil {
		err = snap.openCatalog()
	}
	if err != nil {
		return nil, err
	}
	snap.verified.Do(func() {}) // just written, and synced
	if err := s.volume.unpublishDir(target + damagedSuffix); err != nil {
		s.opts.Logger.Warn("cannot delete a damaged snapshot; it goes at the next start", "key", key, "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshots[key] = snap
	return snap, nil
}

// write writes the files of the snapshot.
func (st *Stage) write(ctx context.Context, src Source) error {
	defer context.AfterFunc(ctx, st.intake.stop)()
	st.intake.end()
	files, err := st.intake.inOrder()
	if err := cmp.Or(ctx.Err(), err, st.intake.spool.end()); err != nil {
		return err
	}
	arranged := make(chan error, 1)
	go func() { arranged <- st.arrange(files) }() // which mostly waits for the disk
	builder := newIndexBuilder(st.intake.keys, files)
	st.intake.release()
	info, err := json.Marshal(st.info(src, builder))
	builder.finish()
	if err := cmp.Or(<-arranged, err); err != nil {
		return err
	}
	info = append(info, '\n')
	if err := st.store.volume.writeFile(st.path("snapshot", snapshotFile), bytesOf(info)); err != nil {
		return err
	}
	if err := st.writeIndex(builder, info); err != nil {
		return err
	}
	if len(builder.blobs) > manyBlobs {
		builder = nil
		runtime.GC() // else the heap grows by the index, which is read next, though what it was made of is garbage
	}
	return nil
}

// manyBlobs is from how many blobs on it counts what an index is made of: some 15 MB.
const manyBlobs = 50_000

func (st *Stage) writeIndex(b *indexBuilder, info []byte) error {
	return st.store.volume.writeFile(st.path("snapshot", indexFile), func(w io.Writer) error {
		out := bufio.NewWriterSize(w, 256<<10)
		return cmp.Or(b.write(out, info), out.Flush())
	})
}

func (st *Stage) info(src Source, b *indexBuilder) Info {
	info := Info{Image: src.Image, Digest: src.Digest, ConfigDir: src.ConfigDir, UnpackedAt: st.store.opts.Now().UTC()}
	b.count(&info)
	return info
}

// arrange makes catalog.jsonl of the spool: by its name, as images mostly have their files in the order of the catalog;
// else what the files gave is copied in that order.
func (st *Stage) arrange(files []*readFile) error {
	spool, target := st.intake.spool, st.path("snapshot", catalogFile)
	end, inOrder := uint64(0), true
	for _, f := range files {
		inOrder = inOrder && f.start == end
		end = f.end
	}
	if inOrder && end == spool.size {
		if err := spool.file.Sync(); err != nil {
			return err
		}
		return st.store.volume.Rename(st.path("blobs"), target)
	}
	if err := st.store.volume.RemoveAll(st.path("files")); err != nil { // read, and in the way: a third copy
		return err
	}
	out, err := st.store.volume.Create(target)
	if err != nil {
		return err
	}
	written := int64(0)
	for _, f := range files {
		if err == nil {
			_, err = spool.file.Seek(int64(f.start), io.SeekStart)
		}
		if err == nil {
			var n int64
			n, err = out.ReadFrom(io.LimitReader(spool.file.File, int64(f.end-f.start))) // the kernel copies
			startWriteback(out.File, written, n)
			written += n
		}
	}
	return errors.Join(err, out.syncAndClose(err))
}
