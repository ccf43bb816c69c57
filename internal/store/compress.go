package store

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

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
	encode   func(io.Writer) (io.WriteCloser, error)
	decode   func(io.Reader) (io.ReadCloser, error)
}

// zstdWindow bounds what either side holds of the content. RFC 9659 allows 8 MiB.
const zstdWindow = 4 << 20

// codecs are all encodings, the one first that saves most.
func codecs() []codec {
	return []codec{
		{Zstd, ".zst", func(w io.Writer) (io.WriteCloser, error) {
			return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstdWindow), zstd.WithEncoderLevel(zstd.SpeedBetterCompression),
				zstd.WithZeroFrames(true)) // an empty catalog has a form too
		}, func(r io.Reader) (io.ReadCloser, error) {
			d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow))
			if err != nil {
				return nil, err
			}
			return d.IOReadCloser(), nil
		}},
		{Gzip, ".gz", func(w io.Writer) (io.WriteCloser, error) {
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
			return s.root.Open(s.form(c))
		}
	}
	return nil, fmt.Errorf("opening a catalog in the encoding %q: %w", e, fs.ErrNotExist)
}

// form is the file of an encoded form.
func (s *Snapshot) form(c codec) string { return path.Join(s.dir, catalogFile+c.suffix) }

// Compress makes the missing encoded forms of what is served, now and after each change, one after the other in the
// caller's goroutine; it returns nil when ctx ends. What fails is logged, once for each snapshot, and tried again at the
// next change: until then the catalog is served as it is.
func (s *Store) Compress(ctx context.Context) error {
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
	if _, err := s.root.Lstat(snap.form(c)); err == nil || snap.damaged.Load() {
		return nil
	}
	staged := path.Join(stageDir, catalogFile+c.suffix) // one at a time: what a crash leaves is deleted at start
	f, err := s.root.OpenFile(staged, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	err = snap.encode(ctx, f, c)
	if err = errors.Join(err, syncAndClose(f, err)); err != nil {
		return errors.Join(err, s.root.Remove(staged))
	}
	s.publish.Lock()
	defer s.publish.Unlock()
	if _, err := s.root.Lstat(snap.dir); errors.Is(err, fs.ErrNotExist) {
		return s.root.Remove(staged)
	}
	return publishFile(s.root, staged, snap.form(c))
}

// encode writes catalog.jsonl in an encoding, and makes sure that it is what was unpacked.
func (s *Snapshot) encode(ctx context.Context, f io.Writer, c codec) error {
	out := bufio.NewWriterSize(f, 256<<10)
	w, err := c.encode(out)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.CopyBuffer(io.MultiWriter(w, sum), cancelable{ctx, io.NewSectionReader(s.catalog, 0, s.info.Bytes)}, make([]byte, 256<<10))
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != s.info.CatalogSHA256 {
		return fmt.Errorf("%s/%s is damaged: its SHA-256 is %s, not %s", s.key, catalogFile, got, s.info.CatalogSHA256)
	}
	return out.Flush()
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
		err := snap.verifyForm(ctx, c)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.opts.Logger.Error("a compressed catalog on the volume is damaged; it is made again", "file", snap.form(c), "error", err)
		if err := s.dropForm(snap, c); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) dropForm(snap *Snapshot, c codec) error {
	s.publish.Lock()
	defer s.publish.Unlock()
	if err := s.root.Remove(snap.form(c)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("deleting a damaged file: %w", err)
	}
	select {
	case s.recompress <- struct{}{}:
	default: // it is asked already
	}
	return syncDir(s.root, snap.dir)
}

// verifyForm decodes a form and compares it with the checksum of what was encoded.
func (s *Snapshot) verifyForm(ctx context.Context, c codec) error {
	f, err := s.root.Open(s.form(c))
	if err != nil {
		return err
	}
	defer f.Close() // read only
	r, err := c.decode(bufio.NewReaderSize(cancelable{ctx, f}, 256<<10))
	if err != nil {
		return err
	}
	defer r.Close() // read only
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(r, s.info.Bytes+1)); err != nil { // what is longer is wrong anyway
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != s.info.CatalogSHA256 {
		return fmt.Errorf("decoded, its SHA-256 is %s, not %s", got, s.info.CatalogSHA256)
	}
	return nil
}
