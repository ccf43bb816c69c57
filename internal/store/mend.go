package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"path"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// Derived files of a snapshot are rebuilt without any request:
//
//	index           from catalog.jsonl and snapshot.json at start; from memory by Scrub
//	snapshot.json   from the index
//	catalog.jsonl   from a compressed form whose blobs all match the index
//	packages, .zst, .gz   from catalog.jsonl
//
// Other damage requires unpacking the image again, which internal/sync does.

// mender opens damaged snapshots and rebuilds their files.
type mender struct {
	volume *volume
	space  *space
	log    *slog.Logger
}

// open opens the snapshot of a pointer, as far as possible.
func (m *mender) open(key string) (*Snapshot, error) {
	dir := path.Join(snapshotsDir, key)
	snap, err := m.openAt(key, dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return snap, err
	}
	aside, asideErr := m.openAt(key, dir+damagedSuffix)
	if asideErr != nil {
		return nil, err
	}
	aside.damage.Store(&damage{whole: true, err: errors.New("a damaged snapshot that awaits its replacement")})
	return aside, nil
}

func (m *mender) openAt(key, dir string) (*Snapshot, error) {
	snap, err := openIndexed(m.volume, key, dir)
	if err != nil {
		return m.rebuild(key, dir, err)
	}
	if err := snap.openCatalog(); err != nil {
		if restoreErr := m.restore(context.Background(), snap); restoreErr != nil {
			return nil, fmt.Errorf("%w; restoring it from a compressed form: %w", err, restoreErr)
		}
		m.log.Warn("a stored catalog was damaged; it is restored from a compressed form", "key", key, "error", err)
	}
	snap.openValidation()
	return snap, nil
}

// rebuild opens a snapshot whose index is unusable with one rebuilt from catalog.jsonl. If the validation results belong to
// an equal index, the content is intact; otherwise it is served until it is unpacked again.
func (m *mender) rebuild(key, dir string, cause error) (*Snapshot, error) {
	info, err := m.volume.ReadFile(path.Join(dir, snapshotFile))
	if err != nil {
		return nil, cause
	}
	snap := &Snapshot{key: key, dir: dir, volume: m.volume}
	if snap.info, err = readInfo(info, key); err == nil {
		snap.index, err = rebuildIndex(m.volume, dir, info, snap.info)
	}
	if err == nil {
		err = snap.openCatalog()
	}
	if err == nil {
		err = snap.verify(context.Background()) // the reader accepts lines that are split differently
	}
	if err != nil {
		return nil, fmt.Errorf("%w; rebuilding it from %s: %w", cause, catalogFile, err)
	}
	if snap.openValidation(); snap.Validated() {
		snap.markVerified()
	} else {
		snap.damage.Store(&damage{whole: true, err: cause})
	}
	m.log.Warn("the index of a stored catalog was damaged; it is rebuilt from the catalog",
		"key", key, "proven", snap.Validated(), "error", cause)
	return snap, nil
}

// rebuildIndex makes the index of a catalog.jsonl, without the files that the blobs came from: an unpack cannot reuse them.
func rebuildIndex(v *volume, dir string, infoText []byte, info Info) (*index, error) {
	root, err := v.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() // read only
	keys, f := newKeyTable(), &readFile{}
	err = scan.ReadFile(root.FS(), catalogFile, math.MaxUint32-1, func(blob scan.Blob) error {
		f.add(keys, blob)
		return nil
	})
	if err != nil {
		return nil, err
	}
	b := newIndexBuilder(keys, []*readFile{f})
	b.files = nil
	have := info
	if b.count(&have); have != info {
		return nil, fmt.Errorf("%d blobs and %d bytes instead of the %d and %d in %s",
			have.Blobs, have.Bytes, info.Blobs, info.Bytes, snapshotFile)
	}
	return openIndex(b.bytes(infoText))
}

// restore writes catalog.jsonl from the first intact compressed form, and opens it. Readers keep the file that they have open.
func (m *mender) restore(ctx context.Context, snap *Snapshot) error {
	if _, err := m.space.require(snap.info.Bytes); err != nil {
		return err
	}
	var errs []error
	for _, c := range codecs() {
		_, err := m.volume.Lstat(snap.form(c))
		if err == nil {
			decode := func(w io.Writer) error { return snap.decodeForm(ctx, c, w) }
			err = m.volume.replaceFile(snap.dir, catalogFile, decode)
		}
		if err == nil {
			return snap.openCatalog()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
