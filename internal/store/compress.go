package store

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Encoding is a content coding of HTTP (RFC 9110, section 8.4.1) in which a whole catalog is kept.
type Encoding string

// The encodings that are kept.
const (
	Gzip Encoding = "gzip" // RFC 1952
	Zstd Encoding = "zstd" // RFC 8878, with a window that RFC 9659 asks every client to take
)

// codec is how an encoding is written and read. The levels are the last before time grows faster than size shrinks: of a
// catalog of 114 MB, zstd makes 6.5 MB in 0.35 s and gzip 17.4 MB in 0.5 s; one level on each takes three times as long
// for 4 % less.
type codec struct {
	encoding Encoding
	suffix   string // of the file
	head     int    // how many bytes every file begins with in the same way: some decoders look at what others do not
	encode   func(io.Writer) (io.WriteCloser, error)
	decode   func(io.Reader) (io.ReadCloser, error)
}

// zstdWindow bounds what either side holds of the content. RFC 9659 allows 8 MiB.
const zstdWindow = 4 << 20

// codecs are all encodings, the one first that saves most.
func codecs() []codec {
	return []codec{
		{Zstd, ".zst", 0, func(w io.Writer) (io.WriteCloser, error) {
			return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstdWindow), zstd.WithEncoderLevel(zstd.SpeedBetterCompression),
				zstd.WithZeroFrames(true)) // an empty catalog has a form too
		}, func(r io.Reader) (io.ReadCloser, error) {
			d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow))
			if err != nil {
				return nil, err
			}
			return d.IOReadCloser(), nil
		}},
		{Gzip, ".gz", 10, func(w io.Writer) (io.WriteCloser, error) {
			return gzip.NewWriterLevel(w, 6)
		}, func(r io.Reader) (io.ReadCloser, error) {
			return gzip.NewReader(r)
		}},
	}
}

// OpenEncoded opens the whole of catalog.jsonl in an encoding; the caller closes it. The error is fs.ErrNotExist while
// that form is not made, and once the snapshot is deleted: then there is OpenAll.
func (s *Snapshot) OpenEncoded(e Encoding) (*os.File, error) {
	for _, c := range codecs() {
		if c.encoding == e {
			return s.volume.Open(s.form(c))
		}
	}
	return nil, fmt.Errorf("opening a catalog in the encoding %q: %w", e, fs.ErrNotExist)
}

// form is the file of an encoded form.
func (s *Snapshot) form(c codec) string { return path.Join(s.dir, catalogFile+c.suffix) }

// Compress makes the missing encoded forms of what is served, now and after each change, one after the other and at low
// priority in the caller's goroutine, which should end with it; it returns nil when ctx ends. What fails is logged, once for each snapshot, and tried again at the
// next change: until then the catalog is served as it is.
func (s *Store) Compress(ctx context.Context) error {
	lowerPriority()
	logged := map[string]bool{} // by key
	for {
		changed := s.Changed()
		logged = s.compressServed(ctx, changed, logged)
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-s.recompress:
		}
	}
}

// compressServed makes the missing forms until all are there, or changed is closed. It takes and returns the keys of
// which a failure is logged, as long as they are served.
func (s *Store) compressServed(ctx context.Context, changed <-chan struct{}, logged map[string]bool) map[string]bool {
	served := s.Catalogs()
	still := map[string]bool{}
	for _, c := range served {
		if key := c.Snapshot.Key(); logged[key] {
			still[key] = true
		}
	}
	for _, codec := range codecs() {
		for _, c := range served {
			select {
			case <-ctx.Done():
				return still
			case <-changed:
				return still
			default:
			}
			err, key := s.compress(ctx, c.Snapshot, codec), c.Snapshot.Key()
			if err == nil || ctx.Err() != nil || still[key] {
				continue
			}
			still[key] = true
			s.opts.Logger.Warn("cannot keep a catalog compressed; it is served as it is, which takes more bandwidth", "catalog", c.Name, "encoding", codec.encoding, "error", err)
		}
	}
	return still
}

// compress makes one form of a snapshot if it is missing. It is no error when the snapshot is deleted meanwhile; of one
// that is damaged nothing is made.
//
//	write(stage) fsync(stage) close rename(stage, snapshot) fsync(snapshot)
func (s *Store) compress(ctx context.Context, snap *Snapshot, c codec) error {
	if _, err := s.volume.Lstat(snap.form(c)); err == nil || snap.Damaged() {
		return nil
	}
	u, err := s.Usage()
	if err != nil {
		return err
	}
	return s.replaceFile(snap, catalogFile+c.suffix, func(w io.Writer) error {
		return snap.encode(ctx, s.polite(ctx, &bounded{w, u}), c)
	})
}

// encode writes catalog.jsonl in an encoding, and makes sure that it is what was unpacked.
func (s *Snapshot) encode(ctx context.Context, f io.Writer, c codec) error {
	out := bufio.NewWriterSize(f, 256<<10)
	w, err := c.encode(out)
	if err != nil {
		return err
	}
	check := newVerifier(s.index)
	_, err = io.CopyBuffer(io.MultiWriter(w, check), cancelable{ctx, io.NewSectionReader(s.catalog.Load(), 0, s.info.Bytes)}, make([]byte, 256<<10))
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	if err := check.end(); err != nil {
		return fmt.Errorf("%s/%s is damaged: %w", s.key, catalogFile, err)
	}
	return out.Flush()
}

// writerFunc is an io.Writer.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// polite is a writer that lets urgent work go first: while there is some, it waits before each write, for a moment, as
// one that is slow is not to stop it. Low priority is not enough for that: it counts between threads, while within a process a
// goroutine at work occupies one of few processors.
func (s *Store) polite(ctx context.Context, w io.Writer) io.Writer {
	const pause = 100 * time.Millisecond
	return writerFunc(func(p []byte) (int, error) {
		if s.urgent.Load() > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
		return w.Write(p)
	})
}

// Prioritize tells that the caller has work to do that somebody waits for, and has what is not urgent leave the processors to it until it
// calls what is returned.
func (s *Store) Prioritize() (end func()) {
	s.urgent.Add(1)
	return func() { s.urgent.Add(-1) }
}

// cancelable is a reader that ends with its context.
type cancelable struct {
	ctx context.Context
	r   io.Reader
}

func (c cancelable) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// scrubForms decodes the forms that a sound snapshot has and deletes those that are damaged, for Compress to make them
// again.
func (s *Store) scrubForms(ctx context.Context, snap *Snapshot) error {
	for _, c := range codecs() {
		err := snap.decodeForm(ctx, c, io.Discard)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.opts.Logger.Error("a compressed catalog on the volume is damaged; it is made again", "file", snap.form(c), "error", err)
		if err := s.dropForm(snap, c); err != nil {
			s.opts.Logger.Error("cannot delete a damaged file", "file", snap.form(c), "error", err)
		}
	}
	return nil
}

func (s *Store) dropForm(snap *Snapshot, c codec) error {
	s.publish.Lock()
	defer s.publish.Unlock()
	if err := s.volume.Remove(snap.form(c)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	select {
	case s.recompress <- struct{}{}:
	default: // it is asked already
	}
	return s.volume.syncDir(snap.dir)
}

// checkHead compares how a file begins with how one of nothing does.
func (c codec) checkHead(in *bufio.Reader) error {
	if c.head == 0 {
		return nil
	}
	var nothing bytes.Buffer
	w, err := c.encode(&nothing)
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	head, err := in.Peek(c.head)
	if err == nil && !bytes.HasPrefix(nothing.Bytes(), head) {
		err = fmt.Errorf("it does not begin as %s that is written here does", c.encoding)
	}
	return err
}

// decodeForm decodes a form and writes it, and compares it with the hashes of what was encoded.
func (s *Snapshot) decodeForm(ctx context.Context, c codec, w io.Writer) error {
	f, err := s.volume.Open(s.form(c))
	if err != nil {
		return err
	}
	defer f.Close() // read only
	in := bufio.NewReaderSize(cancelable{ctx, f}, 256<<10)
	if err := c.checkHead(in); err != nil {
		return err
	}
	r, err := c.decode(in)
	if err != nil {
		return err
	}
	defer r.Close() // read only
	check := newVerifier(s.index)
	if _, err := io.CopyBuffer(io.MultiWriter(check, w), r, make([]byte, 256<<10)); err != nil {
		return err
	}
	return check.end()
}
