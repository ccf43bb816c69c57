package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"sync"

	"github.com/operator-catalogs/catalogd/internal/subset"
)

// Stage is a directory in which a snapshot of a catalog is prepared. Fill Root with the files of the catalog and call Commit;
// call Discard in any case. A start deletes stages that a crash left.
//
//	<stage>/files/     Root
//	<stage>/blobs      the spool: lines of the files in the order of their completion
//	<stage>/whole      of a subset: the compressed whole catalog
//	<stage>/snapshot/  becomes the snapshot
type Stage struct {
	store     *Store
	name      string // of the catalog
	dir       string
	files     *os.Root
	usage     Usage // when it was empty
	intake    *intake
	hasWhole  bool // whether the file whole is complete
	endUrgent func()
	release   func() // of the whole catalog in the store
}

// Stage creates an empty stage for the next content of a catalog, from an image (its reference, as in Source). The error wraps
// syscall.ENOSPC if the space that the served content of the same image needed is not free.
func (s *Store) Stage(name, image string) (_ *Stage, err error) {
	st := &Stage{store: s, name: name, dir: s.volume.stageName()}
	defer func() {
		if err != nil {
			err = fmt.Errorf("creating a stage: %w", errors.Join(err, s.volume.RemoveAll(st.dir)))
		}
	}()
	served, ok := s.Catalog(name)
	need := int64(1)
	if ok && served.Image == image { // another image may have been chosen because it is smaller
		need = max(need, staged*served.Snapshot.info.Bytes)
	}
	if st.usage, err = s.space.require(need); err != nil {
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
	st.endUrgent, st.release = sync.OnceFunc(s.Prioritize()), func() {}
	bounds := limits{blob: s.opts.MaxBlobBytes, spool: uint64(st.Room()), noRoom: st.NoRoom()}
	st.intake = newIntake(st.files.FS(), newSpool(blobs), served.Snapshot, bounds)
	return st, nil
}

func (st *Stage) path(elem ...string) string { return path.Join(append([]string{st.dir}, elem...)...) }

// Root returns the directory for the files of the catalog, with the paths that they have in the image's config directory.
func (st *Stage) Root() *os.Root { return st.files }

// Add announces a complete file in Root, so that it is read while others are written. It can block until other files are
// read. Add a file again if it is replaced. Commit reads files that were not added. Add belongs to one goroutine and must not
// be called after Commit or Discard.
func (st *Stage) Add(name string) { st.intake.added <- name }

// Discard deletes the stage. After Commit it only cleans up.
func (st *Stage) Discard() error {
	st.endUrgent()
	st.release()
	return errors.Join(st.intake.close(), st.files.Close(), st.store.volume.RemoveAll(st.dir))
}

// Commit makes a snapshot of the files and serves it. When it returns, that is durable and the packages are validated. Until
// then, and after an error, the catalog serves its previous content. Content that clients could not read as a catalog is a
// *scan.Error; an invalid package is no error.
//
// Order: write and sync the files of the snapshot, and before them of a subset's whole catalog; rename that into whole/; rename
// the directory into snapshots/ (after a crash here, a sweep deletes what is unreferenced or the next attempt uses it); Serve.
//
// A filter that cannot be applied is a *subset.Error. Then the whole catalog is kept for the grace period, so that another filter
// needs no pull.
func (st *Stage) Commit(ctx context.Context, src Source) (*Snapshot, error) {
	st.hold(src.wholeKey())
	if err := st.write(ctx, src); err != nil {
		if _, ok := errors.AsType[*subset.Error](err); ok {
			err = errors.Join(err, st.keepWhole(src.wholeKey()))
		}
		return nil, err
	}
	s := st.store
	snap, err := st.publish(src)
	if err != nil {
		return nil, fmt.Errorf("publishing the snapshot of %s: %w", st.name, err)
	}
	defer snap.awaited.Add(-1)
	return snap, s.Serve(ctx, st.name, src, snap)
}

// publish moves the finished snapshot to its name. It uses an existing intact one, of another catalog with the same image. A
// damaged one steps aside first; after a crash it is opened there. The returned snapshot is awaited: no sweep deletes it until
// the caller takes that back.
func (st *Stage) publish(src Source) (snap *Snapshot, err error) {
	s, key := st.store, src.Key()
	_, _ = s.Snapshot(key) // verifies one that an earlier process left, which must not be done under the lock
	s.volume.publishing.Lock()
	defer s.volume.publishing.Unlock()
	defer func() {
		if err == nil {
			snap.awaited.Add(1)
		}
	}()
	if !src.Filter.IsZero() {
		if err := st.publishWhole(src.wholeKey()); err != nil {
			return nil, err
		}
	}
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
	snap.markVerified() // just written and synced
	if err := s.volume.unpublishDir(target + damagedSuffix); err != nil {
		s.opts.Logger.Warn("cannot delete a damaged snapshot; the next start deletes it", "key", key, "error", err)
	}
	s.inventory.put(snap)
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
	if !src.Filter.IsZero() {
		return st.writeSubset(ctx, src, files)
	}
	arranged := make(chan error, 1)
	go func() { arranged <- st.arrange(files) }() // mostly waits for the disk
	builder := newIndexBuilder(st.intake.keys, files)
	st.intake.release()
	return st.writeIndex(builder, st.infoOf(src), arranged)
}

func (st *Stage) infoOf(src Source) Info {
	return Info{Image: src.Image, Digest: src.Digest, ConfigDir: src.ConfigDir, UnpackedAt: st.store.opts.Now().UTC()}
}

// writeIndex writes snapshot.json and the index, once catalog.jsonl is written.
func (st *Stage) writeIndex(builder *indexBuilder, counts Info, arranged <-chan error) error {
	builder.count(&counts)
	info, err := json.Marshal(counts)
	builder.finish()
	if err := cmp.Or(<-arranged, err); err != nil {
		return err
	}
	info = append(info, '\n')
	v := st.store.volume
	if err := v.writeFile(st.path("snapshot", snapshotFile), bytesOf(info)); err != nil {
		return err
	}
	index := func(w io.Writer) error { return builder.write(w, info) }
	if err := v.writeFile(st.path("snapshot", indexFile), index); err != nil {
		return err
	}
	const manyBlobs = 50_000 // an index builder of some 15 MB
	if len(builder.blobs) > manyBlobs {
		builder = nil
		runtime.GC() // otherwise the heap grows by the index, which is read next
	}
	return nil
}

// arrange makes catalog.jsonl of the spool. It renames the spool if its files are in the order of the catalog, as in most
// images; otherwise it copies their lines in that order.
func (st *Stage) arrange(files []*readFile) error {
	v, spool, target := st.store.volume, st.intake.spool, st.path("snapshot", catalogFile)
	end, inOrder := uint64(0), true
	for _, f := range files {
		inOrder = inOrder && f.start == end
		end = f.end
	}
	if inOrder && end == spool.size {
		if err := spool.file.Sync(); err != nil {
			return err
		}
		return v.Rename(st.path("blobs"), target)
	}
	if err := v.RemoveAll(st.path("files")); err != nil { // read already; there is no room for a third copy
		return err
	}
	out, err := v.Create(target)
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
