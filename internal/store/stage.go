package store

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strconv"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// Stage is a place on the volume where a snapshot is prepared. Whoever asked for it fills Root with the files of one
// catalog and then calls Commit; Discard in any case. A stage left behind by a crash is deleted at the next start.
type Stage struct {
	store *Store
	dir   string
	files *os.Root
}

// Stage makes an empty stage.
func (s *Store) Stage() (*Stage, error) {
	s.mu.Lock()
	s.stageCount++
	dir := path.Join(stageDir, strconv.Itoa(s.stageCount))
	s.mu.Unlock()
	for _, d := range []string{dir, path.Join(dir, "files"), path.Join(dir, "snapshot")} {
		if err := s.root.Mkdir(d, 0o755); err != nil {
			return nil, fmt.Errorf("making a stage: %w", err)
		}
	}
	files, err := s.root.OpenRoot(path.Join(dir, "files"))
	if err != nil {
		return nil, fmt.Errorf("making a stage: %w", err)
	}
	return &Stage{store: s, dir: dir, files: files}, nil
}

// Root is where the files of the catalog go, as they lie under the config directory of the image.
func (st *Stage) Root() *os.Root { return st.files }

// Discard deletes the stage. After Commit it only tidies up.
func (st *Stage) Discard() error {
	return errors.Join(st.files.Close(), st.store.root.RemoveAll(st.dir))
}

// Commit makes a snapshot of the files and lets the catalog serve it; when it returns, that is durable. Until then,
// and after any error, the catalog serves what it did before. What no client could read as a catalog is a *fbc.Error;
// a package that is not sound is no error, it stands in the snapshot's Info.
//
// Order: the files of the snapshot are written and synced, its directory is renamed into snapshots/ (a crash from here
// on leaves a snapshot that nothing points to: a later sweep deletes it, or the next attempt uses it), and then the
// pointer is replaced.
func (st *Stage) Commit(ctx context.Context, name string, src Source) (*Snapshot, error) {
	w := &snapshotWriter{stage: st, index: newIndexBuilder(), packages: map[string]*packageContent{}}
	if c, ok := st.store.Catalog(name); ok && c.Snapshot.verify() == nil { // what is copied is not checked again
		w.copyFrom(c.Snapshot)
	}
	if err := w.write(ctx, src); err != nil {
		return nil, err
	}
	s := st.store
	_, _ = s.Snapshot(src.Key()) // reads one that an earlier process left, which is not to be done under the lock
	s.publish.Lock()
	defer s.publish.Unlock()
	snap, err := st.publish(src.Key())
	if err != nil {
		return nil, fmt.Errorf("publishing the snapshot of %s: %w", name, err)
	}
	return snap, s.point(name, src.Image, src.Endpoint, snap)
}

// publish moves the finished snapshot to its name. If a sound one is there, of another catalog with the same image,
// that one is used. A damaged one steps aside first: after a crash in between it is opened from there, as it was served.
func (st *Stage) publish(key string) (*Snapshot, error) {
	s := st.store
	if snap, ok := s.Snapshot(key); ok {
		return snap, nil
	}
	target := path.Join(snapshotsDir, key)
	if err := stepAside(s.root, target, target+damagedSuffix); err != nil {
		return nil, err
	}
	if err := publishDir(s.root, path.Join(st.dir, "snapshot"), target); err != nil {
		return nil, err
	}
	snap, err := openSnapshot(s.root, key)
	if err != nil {
		return nil, err
	}
	snap.verified.Do(func() {}) // just written, and synced
	if err := unpublishDir(s.root, target+damagedSuffix); err != nil {
		s.opts.Logger.Warn("cannot delete a damaged snapshot; it goes at the next start", "key", key, "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshots[key] = snap
	return snap, nil
}

// snapshotWriter writes the files of one snapshot into a stage.
type snapshotWriter struct {
	stage    *Stage
	previous *Snapshot         // of the same catalog; files that it holds already are copied, not parsed. May be nil
	facts    [factCount][]pair // of previous, ordered by blob
	out      *bufio.Writer
	index    *indexBuilder
	file     string // that is being added
	info     Info
	packages map[string]*packageContent
}

func (w *snapshotWriter) copyFrom(previous *Snapshot) {
	w.previous = previous
	for kind := range w.facts {
		w.facts[kind] = previous.index.byBlob(kind)
	}
}

// packageContent is what is gathered of a package while the blobs go by.
type packageContent struct {
	blobs    []uint32
	required bool // some blob has to belong to it, so it has to be sound
}

func (w *snapshotWriter) write(ctx context.Context, src Source) error {
	w.info = Info{
		Image: src.Image, Digest: src.Digest, ConfigDir: src.ConfigDir,
		UnpackedAt: w.stage.store.opts.Now().UTC(),
	}
	root := w.stage.store.root
	dir := path.Join(w.stage.dir, "snapshot")
	f, err := root.OpenFile(path.Join(dir, catalogFile), os.O_CREATE|os.O_RDWR|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if err = w.writeCatalog(ctx, f); err == nil {
		err = w.writePackages(ctx, f, path.Join(dir, packagesFile))
	}
	if err = errors.Join(err, syncAndClose(f, err)); err != nil {
		return err
	}
	if err := writeFile(root, path.Join(dir, indexFile), w.index.bytes()); err != nil {
		return err
	}
	b, err := json.Marshal(w.info)
	if err != nil {
		return err
	}
	return writeFile(root, path.Join(dir, snapshotFile), append(b, '\n'))
}

// writeFile writes a new file and syncs it; its directory is synced when the snapshot is published.
func writeFile(root *os.Root, name string, data []byte) error {
	f, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, syncAndClose(f, err))
}

// writeCatalog writes all blobs. The packages are checked afterwards by reading them back: memory holds one blob at a
// time.
func (w *snapshotWriter) writeCatalog(ctx context.Context, f *os.File) error {
	sum := sha256.New()
	w.out = bufio.NewWriterSize(io.MultiWriter(f, sum), 1<<20)
	fsys := w.stage.files.FS()
	files, err := fbc.Files(fsys)
	if err != nil {
		return err
	}
	for _, name := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.addFile(fsys, name); err != nil {
			return err
		}
	}
	if err := w.out.Flush(); err != nil {
		return err
	}
	w.info.Blobs, w.info.Bytes = len(w.index.blobs), int64(w.index.size)
	w.info.CatalogSHA256 = hex.EncodeToString(sum.Sum(nil))
	return nil
}

// addFile adds the blobs of a file, from the previous snapshot if it holds a file of the same content.
func (w *snapshotWriter) addFile(fsys fs.FS, name string) error {
	content, err := hashFile(fsys, name)
	if err != nil {
		return err
	}
	first := uint32(len(w.index.blobs))
	w.file = name
	if blobs, ok := w.unchanged(content); ok {
		err = w.copyBlobs(blobs)
	} else {
		err = fbc.ReadFile(fsys, name, w.stage.store.opts.MaxBlobBytes, w.addBlob)
	}
	w.index.files = append(w.index.files, fileRecord{content, first, uint32(len(w.index.blobs)) - first})
	return err
}

// unchanged returns the blobs that a file of this content gave in the previous snapshot.
func (w *snapshotWriter) unchanged(content hash) (*Blobs, bool) {
	if w.previous == nil {
		return nil, false
	}
	first, count, ok := w.previous.index.file(content)
	if !ok {
		return nil, false
	}
	numbers := make([]uint32, count)
	for i := range numbers {
		numbers[i] = first + uint32(i)
	}
	return w.previous.blobs(numbers), true
}

func (w *snapshotWriter) copyBlobs(blobs *Blobs) error {
	i := 0
	for blob, err := range blobs.All() {
		if err != nil {
			return err
		}
		e := blobs.Entry(i)
		facts := fbc.BundleFacts{Version: e.Version, Properties: w.copiedFacts(factProperty, e.Number)}
		for _, api := range w.copiedFacts(factAPI, e.Number) {
			if gvk, ok := fbc.ParseGVK(api); ok {
				facts.Provides = append(facts.Provides, gvk)
			}
		}
		if err := w.addBlob(fbc.Blob{Schema: e.Schema, Package: e.Package, Name: e.Name, JSON: blob, Bundle: facts}); err != nil {
			return err
		}
		i++
	}
	return nil
}

// copiedFacts are the facts of a kind that the previous snapshot has of a blob.
func (w *snapshotWriter) copiedFacts(kind int, blob uint32) []string {
	list := w.facts[kind]
	i, _ := slices.BinarySearchFunc(list, blob, func(p pair, blob uint32) int { return cmp.Compare(p.blob, blob) })
	var out []string
	for ; i < len(list) && list[i].blob == blob; i++ {
		out = append(out, string(w.previous.index.key(list[i].key)))
	}
	return out
}

// maxBlobs bounds the blobs of a catalog, as its index is held in memory: 10 times what 100,000 bundles come to would be
// some 150 MB.
const maxBlobs = 1_000_000

func (w *snapshotWriter) addBlob(b fbc.Blob) error {
	if len(w.index.blobs) == maxBlobs {
		return &fbc.Error{Path: w.file, Err: fmt.Errorf("the catalog has more than %d blobs, the most that is accepted", maxBlobs)}
	}
	switch b.Schema {
	case fbc.SchemaPackage:
		w.info.Packages++
	case fbc.SchemaChannel:
		w.info.Channels++
	case fbc.SchemaBundle:
		w.info.Bundles++
	}
	if name, required := b.PackageName(); required || name != "" {
		p := w.packages[name]
		if p == nil {
			p = &packageContent{}
			w.packages[name] = p
		}
		p.blobs = append(p.blobs, uint32(len(w.index.blobs)))
		p.required = p.required || required
	}
	w.index.add(b)
	if _, err := w.out.Write(b.JSON); err != nil {
		return err
	}
	return w.out.WriteByte('\n')
}

func hashBlobs(blobs iter.Seq2[[]byte, error]) (h hash, err error) {
	sum := sha256.New()
	for blob, err := range blobs {
		if err != nil {
			return h, err
		}
		sum.Write(blob)
		sum.Write([]byte{'\n'})
	}
	copy(h[:], sum.Sum(nil))
	return h, nil
}

func hashFile(fsys fs.FS, name string) (h hash, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return h, err
	}
	defer f.Close() // read only
	sum := sha256.New()
	sum.Write([]byte(path.Ext(name) + "\x00")) // the same bytes may mean something else under another extension
	if _, err := io.Copy(sum, f); err != nil {
		return h, err
	}
	copy(h[:], sum.Sum(nil))
	return h, nil
}
