package store

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"maps"
	"os"
	"slices"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// Summaries gives the summaries of the sound packages, sorted by name. They are read from a file of the snapshot one
// by one; nothing is held. An error ends the sequence.
func (s *Snapshot) Summaries() iter.Seq2[fbc.Summary, error] {
	return func(yield func(fbc.Summary, error) bool) {
		for line, err := range s.summaryLines() {
			var summary fbc.Summary
			if err == nil {
				err = json.Unmarshal(line, &summary)
			}
			if !yield(summary, err) || err != nil {
				return
			}
		}
	}
}

// Summary returns the summary of a sound package, reading no other.
func (s *Snapshot) Summary(name string) (summary fbc.Summary, ok bool, err error) {
	i, ok := s.index.findPackage(name)
	if !ok {
		return summary, false, nil
	}
	line, err := s.summaryLine(i)
	if err == nil {
		err = json.Unmarshal(line, &summary)
	}
	return summary, err == nil, err
}

func (s *Snapshot) summaryLine(i int) ([]byte, error) {
	_, _, offset, size := s.index.packageAt(i)
	for line, err := range readBlobs(s.packages, []uint32{0}, func(uint32) (uint64, uint32) { return offset, size }) {
		return line, err
	}
	return nil, io.ErrUnexpectedEOF // not reached: there is one
}

// summaryLines reads packages.jsonl from its start; a line is the caller's until the next step.
func (s *Snapshot) summaryLines() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		r := bufio.NewReaderSize(io.NewSectionReader(s.packages, 0, s.info.PackagesBytes), 64<<10)
		var buf []byte
		for i := range s.index.packageCount() {
			_, _, _, size := s.index.packageAt(i)
			buf = slices.Grow(buf[:0], int(size)+1)[:size+1]
			if _, err := io.ReadFull(r, buf); err != nil {
				yield(nil, io.ErrUnexpectedEOF)
				return
			}
			if !yield(buf[:size], nil) {
				return
			}
		}
	}
}

// packageWriter writes packages.jsonl of a snapshot.
type packageWriter struct {
	*snapshotWriter
	catalog io.ReaderAt            // the blobs as they were written
	out     io.Writer              // packages.jsonl
	known   map[PackageVersion]int // the sound packages of the previous snapshot, and their places
}

// writePackages tells the sound packages from the others and writes the summaries of the sound ones.
func (w *snapshotWriter) writePackages(ctx context.Context, catalog io.ReaderAt, name string) (err error) {
	f, err := w.stage.store.root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, syncAndClose(f, err)) }()
	sum := sha256.New()
	buffered := bufio.NewWriterSize(io.MultiWriter(f, sum), 64<<10)
	pw := packageWriter{w, catalog, buffered, map[PackageVersion]int{}}
	if w.previous != nil {
		for i, p := range w.previous.Packages() {
			pw.known[p] = i
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.packages)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if p := w.packages[name]; p.required {
			if err := pw.add(name, p.blobs); err != nil {
				return err
			}
		}
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	w.info.PackagesBytes, w.info.PackagesSHA256 = int64(w.index.packagesSize), hex.EncodeToString(sum.Sum(nil))
	return nil
}

// add checks a package. One whose bytes are those of a sound package of the previous snapshot is sound, and its summary
// is copied.
func (w *packageWriter) add(name string, blobs []uint32) error {
	content, err := hashBlobs(readBlobs(w.catalog, blobs, w.index.extent))
	if err != nil {
		return err
	}
	version := PackageVersion{name, hex.EncodeToString(content[:])}
	line, err := w.line(version, blobs)
	var invalid *fbc.InvalidPackageError
	if errors.As(err, &invalid) {
		w.info.InvalidPackages = append(w.info.InvalidPackages, InvalidPackage{Name: name, Reason: invalid.Reason, Hash: version.Hash})
		return nil
	}
	if err != nil {
		return err
	}
	w.index.addPackage(name, content, len(line))
	_, err = w.out.Write(append(line, '\n'))
	return err
}

// line is the summary of a package as JSON on one line.
func (w *packageWriter) line(version PackageVersion, blobs []uint32) ([]byte, error) {
	if i, ok := w.known[version]; ok {
		return w.previous.summaryLine(i)
	}
	pkg, err := fbc.LoadPackage(version.Name, readBlobs(w.catalog, blobs, w.index.extent))
	if err != nil {
		return nil, err
	}
	var head []byte
	i := slices.IndexFunc(blobs, func(n uint32) bool { return w.index.is(n, fbc.SchemaBundle, pkg.DefaultHead()) })
	if i >= 0 {
		for blob, err := range readBlobs(w.catalog, blobs[i:i+1], w.index.extent) {
			if err != nil {
				return nil, err
			}
			head = blob
		}
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // descriptions are Markdown, and nobody puts this file into HTML
	if err := enc.Encode(fbc.NewSummary(pkg, head)); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte{'\n'}), nil
}
