package store

import (
	"bufio"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// A whole catalog is kept compressed beside the snapshots that have a part of it, so that another filter needs no pull. It lies in
// whole/ under the key that the snapshot of all of it would have, and is shared by all subsets of the image.
//
// It is a zstd stream of lines: a wholeHeader, then the blobs in the order of the catalog. The checksum of zstd guards it.

// wholeHeader is the first line of a whole catalog.
type wholeHeader struct {
	Blobs int         `json:"blobs"`
	Files []wholeFile `json:"files"` // from which the first blobs came, in the order of the catalog
}

// wholeFile is a file of the image.
type wholeFile struct {
	Content string `json:"content"` // hash, in hex
	Blobs   int    `json:"blobs"`
}

// wholes are the files in whole/. To change one, the caller holds the volume's publishing.
type wholes struct {
	volume    *volume
	inventory *inventory

	mu   sync.Mutex
	held map[string]int // by key: the stages that use one
}

// hold keeps the whole catalog of a key from being swept until release.
func (ws *wholes) hold(key string) (release func()) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.held[key]++
	return sync.OnceFunc(func() {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		if ws.held[key]--; ws.held[key] == 0 {
			delete(ws.held, key)
		}
	})
}

func (ws *wholes) isHeld(key string) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.held[key] > 0
}

func wholePath(key string) string { return path.Join(wholeDir, key) }

func (ws *wholes) has(key string) bool {
	_, err := ws.volume.Lstat(wholePath(key))
	return err == nil
}

// sweep deletes those of which there is no subset. One that keepWhole kept stays for the grace period.
func (ws *wholes) sweep(now time.Time, grace time.Duration) error {
	entries, err := fs.ReadDir(ws.volume.FS(), wholeDir)
	if err != nil || len(entries) == 0 {
		return ignoreMissing(err)
	}
	subsets, err := fs.ReadDir(ws.volume.FS(), snapshotsDir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		key := e.Name()
		used := slices.ContainsFunc(subsets, func(s fs.DirEntry) bool { return strings.HasPrefix(s.Name(), key+"-") })
		if used || ws.isHeld(key) || ws.inventory.isKept(wholePath(key), now, grace) {
			continue
		}
		if err := ws.drop(key); err != nil {
			errs = append(errs, fmt.Errorf("deleting the whole catalog %s: %w", key, err))
		}
	}
	return errors.Join(errs...)
}

func (ws *wholes) drop(key string) error {
	if err := ignoreMissing(ws.volume.Remove(wholePath(key))); err != nil {
		return err
	}
	return ws.volume.syncDir(wholeDir)
}

// hold keeps the whole catalog of a key until Discard.
func (st *Stage) hold(key string) {
	st.release()
	st.release = st.store.wholes.hold(key)
}

// keepWhole publishes the whole catalog for the grace period.
func (st *Stage) keepWhole(key string) error {
	v := st.store.volume
	v.publishing.Lock()
	defer v.publishing.Unlock()
	if err := st.publishWhole(key); err != nil {
		return err
	}
	st.store.inventory.keep(wholePath(key), st.store.opts.Now())
	return nil
}

// publishWhole makes the whole catalog durable under its name, if the stage has it and there is none. The caller holds publishing.
func (st *Stage) publishWhole(key string) error {
	v := st.store.volume
	if st.store.wholes.has(key) {
		return v.syncDir(wholeDir) // the sync of an earlier attempt may have failed
	}
	if !st.hasWhole {
		return nil
	}
	st.hasWhole = false
	return v.publishFile(st.path("whole"), wholePath(key))
}

// writeWhole writes the whole catalog of files, unless the store has it.
func (st *Stage) writeWhole(ctx context.Context, key string, files []*readFile, room Usage) error {
	if st.store.wholes.has(key) {
		return nil
	}
	header := wholeHeader{Files: []wholeFile{}}
	for _, f := range files {
		header.Blobs += len(f.blobs)
		header.Files = append(header.Files, wholeFile{hex.EncodeToString(f.content[:]), len(f.blobs)})
	}
	err := st.store.volume.writeFile(st.path("whole"), func(f io.Writer) error {
		out := bufio.NewWriterSize(&bounded{f, room}, 256<<10)
		w, err := codecs()[0].encode(out)
		if err != nil {
			return err
		}
		err = json.NewEncoder(w).Encode(header)
		for _, f := range files {
			if err == nil {
				lines := io.NewSectionReader(st.intake.spool.file, int64(f.start), int64(f.end-f.start))
				_, err = io.Copy(w, cancelable{ctx, lines})
			}
		}
		return errors.Join(err, w.Close(), out.Flush())
	})
	st.hasWhole = err == nil
	return err
}

// CanRestore reports whether the store has the whole catalog of a source, so that Stage.Restore can be tried.
func (s *Store) CanRestore(src Source) bool {
	if s.wholes.has(src.wholeKey()) {
		return true
	}
	_, ok := s.Snapshot(src.wholeKey())
	return ok
}

// Restore fills the stage with the whole catalog of a source from the store instead of the image; Commit applies the filter. The
// error is fs.ErrNotExist if the store does not have it, or a *DamagedError. After an error, the stage must be discarded.
func (st *Stage) Restore(ctx context.Context, src Source) error {
	defer context.AfterFunc(ctx, st.intake.stop)()
	st.intake.end()
	key := src.wholeKey()
	st.hold(key)
	err := st.restoreWhole(key)
	if errors.Is(err, fs.ErrNotExist) {
		if snap, ok := st.store.Snapshot(key); ok {
			err = st.restoreSnapshot(snap)
			snap.noteDamage(ctx, err)
		}
	}
	return err
}

// restoreWhole reads a file of whole/. It deletes a damaged one.
func (st *Stage) restoreWhole(key string) error {
	f, err := st.store.volume.Open(wholePath(key))
	if err != nil {
		return err
	}
	defer f.Close() // read only
	err = st.intake.readWhole(f)
	if _, ok := errors.AsType[*DamagedError](err); ok {
		v := st.store.volume
		v.publishing.Lock()
		defer v.publishing.Unlock()
		err = errors.Join(err, st.store.wholes.drop(key))
	}
	return err
}

// readWhole reads a whole catalog into the spool.
func (in *intake) readWhole(f io.Reader) error {
	damaged := func(err error) error { return &DamagedError{fmt.Errorf("reading the stored whole catalog: %w", err)} }
	decoded, err := codecs()[0].decode(bufio.NewReaderSize(f, 256<<10))
	if err != nil {
		return damaged(err)
	}
	defer decoded.Close() // read only
	lines := bufio.NewReaderSize(decoded, 256<<10)
	var buf []byte
	next := func() (line []byte, err error) {
		buf = buf[:0]
		for {
			part, err := lines.ReadSlice('\n')
			buf = append(buf, part...)
			if err == nil {
				return buf[:len(buf)-1], nil
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				return nil, damaged(fmt.Errorf("a line: %w", err))
			}
		}
	}
	line, err := next()
	if err != nil {
		return err
	}
	var header wholeHeader
	if err := json.Unmarshal(line, &header); err != nil {
		return damaged(err)
	}
	if err := in.restore(header, next); err != nil {
		return err
	}
	if _, err := lines.ReadByte(); !errors.Is(err, io.EOF) { // which also checks the checksum
		return damaged(cmp.Or(err, errors.New("there is data after the last blob")))
	}
	return nil
}

// scrub decodes all whole catalogs and deletes damaged ones: the next other filter pulls. Its only error is that of ctx.
func (ws *wholes) scrub(ctx context.Context, log *slog.Logger) error {
	entries, err := fs.ReadDir(ws.volume.FS(), wholeDir)
	if err != nil {
		return nil //nolint:nilerr // there is nothing to verify
	}
	for _, e := range entries {
		err := ws.verify(ctx, e.Name())
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		log.Error("a stored whole catalog is damaged; it is deleted, and the next change of a filter pulls the image", "key", e.Name(), "error", err)
		ws.volume.publishing.Lock()
		err = ws.drop(e.Name())
		ws.volume.publishing.Unlock()
		if err != nil {
			log.Error("cannot delete a damaged file", "file", wholePath(e.Name()), "error", err)
		}
	}
	return nil
}

func (ws *wholes) verify(ctx context.Context, key string) error {
	f, err := ws.volume.Open(wholePath(key))
	if err != nil {
		return err
	}
	defer f.Close() // read only
	decoded, err := codecs()[0].decode(bufio.NewReaderSize(cancelable{ctx, f}, 256<<10))
	if err != nil {
		return err
	}
	defer decoded.Close() // read only
	_, err = io.Copy(io.Discard, decoded)
	return err
}

// restoreSnapshot reads the snapshot of a whole catalog into the spool.
func (st *Stage) restoreSnapshot(snap *Snapshot) error {
	index := snap.index
	header := wholeHeader{Blobs: int(index.blobCount())}
	for _, r := range index.fileRecords() {
		header.Files = append(header.Files, wholeFile{hex.EncodeToString(r.content[:]), int(r.count)})
	}
	number := uint32(0)
	var buf []byte
	return st.intake.restore(header, func() ([]byte, error) {
		offset, size := index.extent(number)
		buf = slices.Grow(buf[:0], int(size))[:size]
		if _, err := snap.catalog.Load().ReadAt(buf, int64(offset)); err != nil || !index.matches(number, buf) {
			return nil, &DamagedError{errors.Join(fmt.Errorf("blob %d of %s does not match its hash", number, snap.key), err)}
		}
		number++
		return buf, nil
	})
}

// restore reads the blobs of files with next.
func (in *intake) restore(header wholeHeader, next func() ([]byte, error)) error {
	rest := header.Blobs
	for _, f := range header.Files {
		rest -= f.Blobs
	}
	files := header.Files
	if rest > 0 { // a rebuilt index does not know the files
		files = append(slices.Clone(files), wholeFile{Blobs: rest})
	}
	in.restored = []*readFile{}
	for _, file := range files {
		f := &readFile{start: in.spool.size}
		if content, err := hex.DecodeString(file.Content); err == nil && len(content) == fbc.HashSize {
			f.content = fbc.Hash(content)
		}
		for range file.Blobs {
			line, err := next()
			if err != nil {
				return err
			}
			blob, err := scan.ParseBlob(line)
			if err != nil {
				return &DamagedError{fmt.Errorf("reading a blob of the stored catalog: %w", err)}
			}
			if err := in.add(f, blob); err != nil {
				return err
			}
		}
		f.end = in.spool.size
		in.count(f, 1)
		in.restored = append(in.restored, f)
	}
	return nil
}
