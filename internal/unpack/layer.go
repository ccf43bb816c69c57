package unpack

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"path"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/operator-catalogs/catalogd/internal/registry"
)

const (
	// ratioFree is the size in bytes up to which Limits.Ratio does not apply: small files may be all blanks.
	ratioFree = 16 << 20
	// zstdWindow limits the decoder's memory. It is the largest window that common encoders use by default
	// (zstd up to level 20). smallZstdWindow is that of level 19, for small images of which several are unpacked at a time.
	zstdWindow      = 32 << 20
	smallZstdWindow = 8 << 20

	blockSize   = 512 // bytes of a tar block
	sizeUnknown = -1  // size of an entry without a declared size

	// titleAnnotation names the file in a layer (OCI image specification, annotations.md).
	titleAnnotation = "org.opencontainers.image.title"

	// emptyLayer is the media type of the placeholder layer in artifacts without layers (manifest.md, "Guidance for
	// an Empty Descriptor").
	emptyLayer types.MediaType = "application/vnd.oci.empty.v1+json"
)

// pullLayer streams a layer from the registry to t. The registry client's reader fails at its end unless size
// and digest match. So pullLayer reads to the end before it blames the image: a broken transfer is not the
// image's fault.
func pullLayer(ctx context.Context, ref name.Digest, img v1.Image, descriptor v1.Descriptor, t *tree, progress *Progress) error {
	if t.artifact && descriptor.MediaType == emptyLayer {
		progress.add(int(descriptor.Size))
		return nil
	}
	layer, err := img.LayerByDigest(descriptor.Digest)
	if err != nil {
		return invalidf("finding it in the manifest: %w", err)
	}
	blob, err := layer.Compressed()
	if err != nil {
		return registry.Explain("fetching it", ref, err)
	}
	defer blob.Close()
	src := &source{reader: blob, progress: progress}
	err = applyLayer(ctx, src, descriptor.Annotations[titleAnnotation], t)
	if err == nil || isInvalid(err) {
		_, _ = io.Copy(io.Discard, src) // src keeps the error
	}
	if src.err != nil {
		return registry.Explain("fetching it", ref, src.err)
	}
	return err
}

// source counts the bytes of a compressed layer and keeps its read error, which decompressors may drop.
type source struct {
	reader   io.Reader
	read     int64
	progress *Progress // of the whole image; may be nil
	err      error     // nil at EOF
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.reader.Read(p)
	s.read += int64(n)
	s.progress.add(n)
	if err != nil && err != io.EOF && s.err == nil {
		s.err = err
	}
	return n, err
}

// applyLayer applies the layer to t and reads the decompressed stream to its end, which verifies its checksums.
func applyLayer(ctx context.Context, src *source, title string, t *tree) error {
	content, err := decompress(src, t.limits)
	if err != nil {
		return err
	}
	defer content.close()
	decompressed := readAhead(content)
	defer decompressed.end() // stop reading src
	t.beginLayer()
	buffered := bufio.NewReader(decompressed)
	if t.artifact && !isArchive(buffered) {
		err = t.applyTitled(title, buffered)
	} else {
		err = applyArchive(ctx, buffered, t)
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, buffered)
	return err
}

func applyArchive(ctx context.Context, content io.Reader, t *tree) error {
	archive := tar.NewReader(content)
	for entries := 0; ; entries++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		header, err := archive.Next()
		switch {
		case err == io.EOF:
			return nil
		case isInvalid(err):
			return err
		case err != nil && entries == 0:
			return invalidf("it is not a tar archive, neither plain nor compressed with gzip or zstd: %w", err)
		case err != nil:
			return invalidf("its tar archive is damaged after entry %d: %w", entries, err)
		}
		if err := t.apply(header, archive); err != nil {
			return err
		}
	}
}

// isArchive reports whether content begins with a valid tar block: one with a correct checksum, or the zeros of
// the archive's end.
func isArchive(content *bufio.Reader) bool {
	block, _ := content.Peek(blockSize) // a short or broken stream fails when it is read
	_, err := tar.NewReader(bytes.NewReader(block)).Next()
	return len(block) == blockSize && !errors.Is(err, tar.ErrHeader)
}

// applyTitled applies a layer that is a single file, as ORAS pushes it. The title annotation names the file. It
// has the effect of an archive entry of that name.
func (t *tree) applyTitled(title string, content io.Reader) error {
	switch path.Ext(title) {
	case ".json", ".yaml", ".yml":
		return t.apply(&tar.Header{Typeflag: tar.TypeReg, Name: title, Size: sizeUnknown}, content)
	}
	return invalidf("it is neither a tar archive (plain, or compressed with gzip or zstd) nor a catalog file: its annotation %s is %q; "+
		"set it to the file's name, which must end in .json, .yaml or .yml", titleAnnotation, title)
}

// stream is a decompressed layer. Its read errors are InvalidImageErrors; source knows whether the transfer
// failed instead.
type stream struct {
	reader io.Reader
	close  func()
	src    *source
	format string
	ratio  int
	size   int64
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.reader.Read(p)
	s.size += int64(n)
	if s.size > ratioFree && s.size > int64(s.ratio)*s.src.read {
		return n, exceeded(LimitCompressionRatio, int64(s.ratio), "it unpacks to many times its size")
	}
	if err != nil && err != io.EOF {
		return n, invalidf("its %s stream is damaged: %w", s.format, err)
	}
	return n, err
}

// decompress detects the compression from the content, because media types are often wrong.
func decompress(src *source, limits Limits) (*stream, error) {
	buffered := bufio.NewReader(src)
	s := &stream{reader: buffered, close: func() {}, src: src, format: "tar", ratio: limits.Ratio}
	magic, _ := buffered.Peek(4) // a short or broken stream fails when it is read
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}): // RFC 1952, section 2.3.1
		reader, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, invalidf("its gzip stream is damaged: %w", err)
		}
		s.reader, s.format = reader, "gzip"
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}): // RFC 8878, section 3.1.1
		reader, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(limits.zstdWindow()))
		if err != nil {
			return nil, invalidf("its zstd stream is damaged: %w", err)
		}
		s.reader, s.format, s.close = reader, "zstd", reader.Close
	}
	return s, nil
}

func (l Limits) zstdWindow() uint64 {
	if l.ImageBytes > 0 && l.ImageBytes < zstdWindow {
		return smallZstdWindow
	}
	return zstdWindow
}

// contentReader turns read errors into InvalidImageErrors, to distinguish them from write errors.
type contentReader struct {
	reader io.Reader
}

func (r contentReader) Read(p []byte) (int, error) {
	n, err := r.reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && !isInvalid(err) {
		err = invalidf("its tar archive is damaged: %w", err)
	}
	return n, err
}

// Up to aheadChunks chunks of aheadSize bytes are decompressed ahead while a file is created, which may take the
// disk a millisecond.
const (
	aheadChunks = 4
	aheadSize   = 256 << 10
)

// ahead reads a stream in its own goroutine, so that decompression and file writes overlap.
type ahead struct {
	full chan chunk  // closed when the goroutine has ended
	free chan []byte // closed to end it
	now  chunk
	rest []byte // unread part of now
}

// chunk is a piece of a stream, and the error that followed it.
type chunk struct {
	data []byte
	err  error
}

func readAhead(r io.Reader) *ahead {
	a := &ahead{full: make(chan chunk, aheadChunks), free: make(chan []byte, aheadChunks)}
	for range aheadChunks {
		a.free <- make([]byte, aheadSize)
	}
	go func() {
		defer close(a.full)
		for buffer := range a.free {
			c := readChunk(r, buffer)
			a.full <- c
			if c.err != nil {
				return
			}
		}
	}()
	return a
}

// readChunk fills a buffer, unless the stream ends.
func readChunk(r io.Reader, buffer []byte) (c chunk) {
	defer func() {
		if fault := recover(); fault != nil { // a panic of a decompressor must not end the process
			c.err = invalidf("decompressing it failed: %v", fault)
		}
	}()
	for n := 0; len(c.data) < len(buffer) && c.err == nil; {
		n, c.err = r.Read(buffer[len(c.data):])
		c.data = buffer[:len(c.data)+n]
	}
	return c
}

func (a *ahead) Read(p []byte) (int, error) {
	if len(a.rest) == 0 && a.now.err == nil {
		if a.now.data != nil {
			a.free <- a.now.data[:aheadSize]
		}
		a.now = <-a.full
		a.rest = a.now.data
	}
	if len(a.rest) == 0 {
		return 0, a.now.err
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// end waits until the goroutine stops reading the stream. Read must not be called afterwards. A read in progress
// completes; ctx and the stall timeout bound it.
func (a *ahead) end() {
	for {
		select {
		case <-a.free:
			continue
		default:
		}
		break
	}
	close(a.free)
	for range a.full {
	}
}
