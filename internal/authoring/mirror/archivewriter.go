package mirror

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// ArchiveWriter writes an archive to FILE.mirror-partial, and renames it to FILE once it is complete. A later writer continues an
// interrupted one. It is a target.
type ArchiveWriter struct {
	path string
	file *os.File

	mu        sync.Mutex // of the fields below, and of the end of the file
	size      int64      // up to the last complete entry
	blobs     map[v1.Hash]extent
	loading   map[v1.Hash]*sync.Mutex // blobs that are being transferred
	manifests map[string]v1.Descriptor
}

// CreateArchive opens FILE.mirror-partial. It returns fs.ErrExist if FILE exists, unless it may be replaced.
func CreateArchive(ctx context.Context, file string, replace bool) (*ArchiveWriter, error) {
	if _, err := os.Lstat(file); err == nil && !replace {
		return nil, fmt.Errorf("archive %s: %w", file, fs.ErrExist)
	}
	if info, err := os.Lstat(partialOf(file)); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file: remove it, or choose another archive", partialOf(file))
	}
	f, err := os.OpenFile(partialOf(file), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	w := &ArchiveWriter{
		path: file, file: f, blobs: map[v1.Hash]extent{}, loading: map[v1.Hash]*sync.Mutex{}, manifests: map[string]v1.Descriptor{},
	}
	if err := w.resume(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("reading %s: %w", f.Name(), err), f.Close())
	}
	return w, nil
}

func partialOf(file string) string { return file + ".mirror-partial" }

// resume keeps the blobs that are complete, and cuts off the rest.
func (w *ArchiveWriter) resume(ctx context.Context) error {
	err := readEntries(w.file, func(entry string, at extent) error {
		digest, ok := entryDigest(entry)
		if !ok {
			return io.EOF // index.json, of a writer that was interrupted at the end
		}
		content, err := (&Archive{file: w.file}).open(digest, at)
		if err != nil {
			return err
		}
		if n, err := io.Copy(io.Discard, content); err != nil || n != at.size {
			return io.EOF
		}
		w.blobs[digest] = at
		w.size = at.at + (at.size+511)/512*512 // tar pads to blocks
		return ctx.Err()
	})
	if _, isPath := errors.AsType[*fs.PathError](err); isPath || ctx.Err() != nil {
		return err
	}
	return w.file.Truncate(w.size) // other errors are about the damaged rest
}

// Resumed returns the number and the bytes of the blobs of an interrupted writer.
func (w *ArchiveWriter) Resumed() (blobs int, bytes int64) { return len(w.blobs), w.size }

// Close closes the file. What is written of an incomplete archive stays.
func (w *ArchiveWriter) Close() error { return w.file.Close() }

// has returns whether the index has a manifest. The manifests of an interrupted writer are read again, but not their blobs.
func (w *ArchiveWriter) has(_ context.Context, it item) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.manifests[it.String()]
	return ok && it.kind != kindChild, nil
}

// append adds an entry at the end of the file.
func (w *ArchiveWriter) append(entry string, size int64, content io.Reader) (extent, error) {
	to := io.NewOffsetWriter(w.file, w.size)
	archive := tar.NewWriter(to)
	header := &tar.Header{Typeflag: tar.TypeReg, Name: entry, Size: size, Mode: 0o644, Format: tar.FormatPAX}
	if err := archive.WriteHeader(header); err != nil {
		return extent{}, err
	}
	begin, err := to.Seek(0, io.SeekCurrent)
	if err != nil {
		return extent{}, err
	}
	at := extent{w.size + begin, size}
	if _, err := io.Copy(archive, content); err != nil {
		return extent{}, fmt.Errorf("writing %s: %w", w.file.Name(), err)
	}
	if err := archive.Flush(); err != nil {
		return extent{}, fmt.Errorf("writing %s: %w", w.file.Name(), err)
	}
	end, err := to.Seek(0, io.SeekCurrent)
	w.size += end
	return at, err
}

// putBlob transfers a blob to a temporary file beside the archive and then appends it, as blobs are transferred concurrently.
func (w *ArchiveWriter) putBlob(_ context.Context, _ item, d v1.Descriptor, open func() (io.ReadCloser, error)) (err error) {
	w.mu.Lock()
	loading := w.loading[d.Digest]
	if loading == nil {
		loading = &sync.Mutex{}
		w.loading[d.Digest] = loading
	}
	w.mu.Unlock()
	loading.Lock()
	defer loading.Unlock()
	w.mu.Lock()
	_, ok := w.blobs[d.Digest]
	w.mu.Unlock()
	if ok {
		return nil
	}
	temp, err := os.CreateTemp(filepath.Dir(w.path), "."+filepath.Base(w.path)+".blob-")
	if err != nil {
		return err
	}
	_ = os.Remove(temp.Name()) // Windows cannot remove open files
	defer func() {
		err = errors.Join(err, temp.Close())
		_ = os.Remove(temp.Name())
	}()
	body, err := open()
	if err != nil {
		return err
	}
	defer body.Close()
	n, err := io.Copy(temp, io.LimitReader(body, d.Size+1))
	switch {
	case err != nil:
		return err
	case n != d.Size:
		return fmt.Errorf("blob %s: size mismatch: the manifest states %d bytes", d.Digest, d.Size)
	}
	if _, err := temp.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return w.add(d.Digest, d.Size, temp)
}

// add appends a blob.
func (w *ArchiveWriter) add(digest v1.Hash, size int64, content io.Reader) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.blobs[digest]; ok {
		return nil
	}
	at, err := w.append(entryName(digest), size, content)
	if err == nil {
		w.blobs[digest] = at
	}
	return err
}

func (w *ArchiveWriter) put(_ context.Context, it item, n *node) error {
	if err := w.add(n.Digest, int64(len(n.raw)), bytes.NewReader(n.raw)); err != nil {
		return err
	}
	if it.kind != kindChild {
		w.mu.Lock()
		w.manifests[it.String()] = descriptor(it, n)
		w.mu.Unlock()
	}
	return nil
}

// Commit completes the archive and gives it its name.
func (w *ArchiveWriter) Commit() error {
	var manifests []v1.Descriptor
	for _, d := range w.manifests {
		manifests = append(manifests, d)
	}
	slices.SortFunc(manifests, func(a, b v1.Descriptor) int {
		return cmp.Or(cmp.Compare(a.Annotations[refName], b.Annotations[refName]), cmp.Compare(a.Digest.Hex, b.Digest.Hex))
	})
	index, err := indexOf(manifests)
	if err != nil {
		return err
	}
	for _, file := range []struct {
		name string
		text []byte
	}{{layoutFile, []byte(layoutText)}, {indexFile, index}} {
		if _, err := w.append(file.name, int64(len(file.text)), bytes.NewReader(file.text)); err != nil {
			return err
		}
	}
	if _, err := w.file.WriteAt(make([]byte, 1024), w.size); err != nil { // the end of a tar
		return err
	}
	if err := errors.Join(w.file.Sync(), w.file.Close()); err != nil {
		return err
	}
	return os.Rename(partialOf(w.path), w.path)
}
