package bundle

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// An archive is a bundle as it is cached. It is one file, so that it is complete or absent, and so that a tar or a part of it
// is sent without a copy. Integers are little endian.
//
//	files    tar, sorted by path, without times and owners
//	objects  JSON lines, compressed with zstd
//	index    JSON
//	footer   size of files u64, of objects u64, of index u32, CRC-32C of all before, magic "bundle01"
const (
	archiveMagic = "bundle01"
	footerSize   = 8 + 8 + 4 + 4 + len(archiveMagic)
)

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// ErrDamaged reports a damaged archive.
var ErrDamaged = errors.New("the stored bundle is damaged")

// Index is the index of an archive: its metadata and offsets. It is immutable.
type Index struct {
	Content Content `json:"content"`
	Offsets []int64 `json:"offsets"` // of the content of each file in the tar
	Lines   int64   `json:"lines"`   // bytes of the objects before compression

	files, objects int64 // sizes
	size           int64 // of all
	json           []byte
}

// Source is a file to archive.
type Source struct {
	Path     string
	Manifest bool                   // whether it has objects
	Read     func() ([]byte, error) // called once
}

// Write writes an archive with these files, sorted by path. content has all but the files.
func Write(out io.Writer, content Content, files []Source) error {
	w := &countingWriter{out: out, sum: crc32.New(castagnoli)}
	b := &builder{content: content}
	b.content.Files = []File{}
	var x Index
	archive := tar.NewWriter(w)
	for _, file := range files {
		data, err := file.Read()
		if err != nil {
			return err
		}
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: file.Path, Mode: 0o644, Size: int64(len(data))}); err != nil {
			return err
		}
		x.Offsets = append(x.Offsets, w.size)
		if _, err := archive.Write(data); err != nil {
			return err
		}
		b.add(file.Path, data, file.Manifest)
	}
	if err := archive.Close(); err != nil {
		return err
	}
	filesSize := w.size
	compressor, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	if err != nil {
		return err
	}
	if _, err := compressor.Write(b.lines.Bytes()); err != nil {
		return err
	}
	if err := compressor.Close(); err != nil {
		return err
	}
	objectsSize := w.size - filesSize
	x.Content, x.Lines = b.content, int64(b.lines.Len())
	text, err := json.Marshal(x)
	if err != nil {
		return err
	}
	footer := le.AppendUint64(le.AppendUint64(nil, uint64(filesSize)), uint64(objectsSize))
	footer = le.AppendUint32(footer, uint32(len(text)))
	if _, err := w.Write(append(text, footer...)); err != nil {
		return err
	}
	_, err = w.Write(append(le.AppendUint32(nil, w.sum.Sum32()), archiveMagic...))
	return err
}

// countingWriter counts what it writes, and sums it up.
type countingWriter struct {
	out  io.Writer
	size int64
	sum  interface {
		io.Writer
		Sum32() uint32
	}
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.out.Write(p)
	w.size += int64(n)
	_, _ = w.sum.Write(p[:n]) // never fails
	return n, err
}

// ReadIndex reads the index of an archive of a size, all of which it verifies. The error wraps ErrDamaged, or is that of archive.
func ReadIndex(archive io.ReaderAt, size int64) (*Index, error) {
	footer := make([]byte, footerSize)
	if _, err := archive.ReadAt(footer, size-int64(footerSize)); err != nil || string(footer[footerSize-len(archiveMagic):]) != archiveMagic {
		return nil, errors.Join(ErrDamaged, err)
	}
	x := &Index{files: int64(le.Uint64(footer)), objects: int64(le.Uint64(footer[8:])), size: size}
	text := int64(le.Uint32(footer[16:]))
	if x.files < 0 || x.objects < 0 || x.files+x.objects+text+int64(footerSize) != size {
		return nil, ErrDamaged
	}
	sum := crc32.New(castagnoli)
	summed := size - int64(footerSize) + 20
	if _, err := io.Copy(sum, io.NewSectionReader(archive, 0, summed)); err != nil || sum.Sum32() != le.Uint32(footer[20:]) {
		return nil, errors.Join(ErrDamaged, err)
	}
	raw := make([]byte, text)
	if _, err := archive.ReadAt(raw, x.files+x.objects); err != nil {
		return nil, errors.Join(ErrDamaged, err)
	}
	if err := json.Unmarshal(raw, x); err != nil || len(x.Offsets) != len(x.Content.Files) {
		return nil, errors.Join(ErrDamaged, err)
	}
	var err error
	x.json, err = json.Marshal(x.Content)
	x.json = append(x.json, '\n')
	return x, err
}

// Archive is a bundle that can be read. Close it after use.
type Archive struct {
	*Index
	open   func() (*os.File, error)
	once   sync.Once // opens
	from   io.ReaderAt
	failed error
}

// Open returns the archive of an index. Closing it closes from, if that is an io.Closer.
func (x *Index) Open(from io.ReaderAt) *Archive { return &Archive{Index: x, from: from} }

// OpenLater is like Open, but calls open only when data beyond the index is read.
func (x *Index) OpenLater(open func() (*os.File, error)) *Archive {
	return &Archive{Index: x, open: open}
}

func (a *Archive) source() (io.ReaderAt, error) {
	a.once.Do(func() {
		if a.from != nil {
			return
		}
		file, err := a.open()
		if a.failed = err; err == nil {
			a.from = file
		}
	})
	return a.from, a.failed
}

// Close frees what the archive holds.
func (a *Archive) Close() error {
	if file, ok := a.from.(io.Closer); ok {
		return file.Close()
	}
	return nil
}

// Size returns the size of the whole archive in bytes.
func (a *Archive) Size() int64 { return a.size }

// InMemory returns how many bytes of memory the archive holds, roughly: those of its index, plus the whole archive if it is not
// backed by a file.
func (a *Archive) InMemory() int64 {
	size := int64(0)
	if a.open == nil { // else the index is shared
		size = 3 * int64(len(a.json)) // as text and decoded
	}
	if memory, ok := a.from.(*bytes.Reader); ok {
		size += memory.Size()
	}
	return size
}

// JSON returns the index as one line. It must not be changed.
func (x *Index) JSON() []byte { return x.json }

// Tar returns all files as a tar, the same at each call and in each process.
func (a *Archive) Tar() (*io.SectionReader, error) { return a.section(0, a.files) }

// File returns the bytes of a file. The error is fs.ErrNotExist if there is none.
func (a *Archive) File(path string) (*io.SectionReader, error) {
	i := slices.IndexFunc(a.Content.Files, func(f File) bool { return f.Path == path })
	if i < 0 {
		return nil, fs.ErrNotExist
	}
	return a.section(a.Offsets[i], a.Content.Files[i].Bytes)
}

func (a *Archive) section(from, size int64) (*io.SectionReader, error) {
	source, err := a.source()
	if err != nil {
		return nil, err
	}
	return io.NewSectionReader(source, from, size), nil
}

// ObjectBytes returns how many bytes Objects reads into memory.
func (a *Archive) ObjectBytes() int64 { return a.Lines }

// Objects returns the JSON of the objects that match, in the order of the files. Empty values match all.
func (a *Archive) Objects(kind, name string) (objects [][]byte, err error) {
	compressed, err := a.section(a.files, a.objects)
	if err != nil {
		return nil, err
	}
	reader, err := zstd.NewReader(compressed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(1<<20))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	lines, err := io.ReadAll(io.LimitReader(reader, maxLines+maxObjects))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	for _, file := range a.Content.Files {
		for _, object := range file.Objects {
			line, rest, ok := bytes.Cut(lines, []byte("\n"))
			if !ok {
				return nil, ErrDamaged
			}
			lines = rest
			if (kind == "" || kind == object.Kind) && (name == "" || name == object.Name) {
				objects = append(objects, line)
			}
		}
	}
	return objects, nil
}
