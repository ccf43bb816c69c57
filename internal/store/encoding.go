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

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Encoding is a content coding of HTTP (RFC 9110, section 8.4.1) in which a whole catalog is stored.
type Encoding string

// The stored encodings.
const (
	Gzip Encoding = "gzip" // RFC 1952
	Zstd Encoding = "zstd" // RFC 8878, with a window that RFC 9659 requires every client to support
)

// codec writes and reads an encoding. The next level of each takes three times as long for 4 % less: of a catalog of 114 MB,
// zstd makes 6.5 MB in 0.35 s and gzip 17.4 MB in 0.5 s.
type codec struct {
	encoding Encoding
	suffix   string // of the file
	head     int    // size of the constant head of every file, which some decoders do not check
	encode   func(io.Writer) (io.WriteCloser, error)
	decode   func(io.Reader) (io.ReadCloser, error)
}

// zstdWindow bounds the content that either side buffers. RFC 9659 allows 8 MiB.
const zstdWindow = 4 << 20

// codecs returns all encodings, the smallest first.
func codecs() []codec {
	return []codec{{
		encoding: Zstd, suffix: ".zst",
		encode: func(w io.Writer) (io.WriteCloser, error) {
			return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstdWindow),
				zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithZeroFrames(true)) // for an empty catalog
		},
		decode: func(r io.Reader) (io.ReadCloser, error) {
			d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow))
			if err != nil {
				return nil, err
			}
			return d.IOReadCloser(), nil
		},
	}, {
		encoding: Gzip, suffix: ".gz", head: 10,
		encode: func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriterLevel(w, 6) },
		decode: func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) },
	}}
}

// OpenEncoded opens the whole of catalog.jsonl in an encoding. The caller closes the file. The error is fs.ErrNotExist if
// that form is not written yet, or the snapshot is deleted; OpenAll still works.
func (s *Snapshot) OpenEncoded(e Encoding) (*os.File, error) {
	for _, c := range codecs() {
		if c.encoding == e {
			return s.volume.Open(s.form(c))
		}
	}
	return nil, fmt.Errorf("opening a catalog in the encoding %q: %w", e, fs.ErrNotExist)
}

// form returns the path of a compressed form.
func (s *Snapshot) form(c codec) string { return path.Join(s.dir, catalogFile+c.suffix) }

// encode writes catalog.jsonl in an encoding and verifies it.
func (s *Snapshot) encode(ctx context.Context, f io.Writer, c codec) error {
	out := bufio.NewWriterSize(f, 256<<10)
	w, err := c.encode(out)
	if err != nil {
		return err
	}
	err = s.index.copyVerified(w, cancelable{ctx, io.NewSectionReader(s.catalog.Load(), 0, s.info.Bytes)})
	if err = errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("reading %s/%s: %w", s.key, catalogFile, err)
	}
	return out.Flush()
}

// decodeForm decodes a compressed form to w and verifies it.
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
	return s.index.copyVerified(w, r)
}

// checkHead compares the head of a file with that of an empty one.
func (c codec) checkHead(in *bufio.Reader) error {
	if c.head == 0 {
		return nil
	}
	var empty bytes.Buffer
	w, err := c.encode(&empty)
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	head, err := in.Peek(c.head)
	if err == nil && !bytes.HasPrefix(empty.Bytes(), head) {
		err = fmt.Errorf("the %s header does not match", c.encoding)
	}
	return err
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
