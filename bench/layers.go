package main

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/operator-catalogs/catalogd/internal/testing/catalogs"
)

// contents describes the content of a layer.
type contents struct {
	catalogs.Stats
	Median string // the path in the archive of the catalog file of median size
}

// layerWriter writes a gzipped tar archive and hashes both.
type layerWriter struct {
	*tar.Writer
	file             *os.File
	buffer           *bufio.Writer
	zip              *gzip.Writer
	packed, unpacked hash.Hash
}

func newLayerWriter(file string) (*layerWriter, error) {
	out, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	w := &layerWriter{file: out, packed: sha256.New(), unpacked: sha256.New()}
	w.buffer = bufio.NewWriterSize(io.MultiWriter(out, w.packed), 1<<20)
	w.zip = gzip.NewWriter(w.buffer)
	w.Writer = tar.NewWriter(io.MultiWriter(w.zip, w.unpacked))
	return w, nil
}

func (w *layerWriter) add(name string, content []byte) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o644}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}

func (w *layerWriter) addDirectory(name string) error {
	return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755})
}

// close ends the archive and returns the layer.
func (w *layerWriter) close(c contents) (*layer, error) {
	err := errors.Join(w.Close(), w.zip.Close(), w.buffer.Flush())
	size, seekErr := w.file.Seek(0, io.SeekCurrent)
	if err := errors.Join(err, seekErr, w.file.Close()); err != nil {
		return nil, fmt.Errorf("writing %s: %w", w.file.Name(), err)
	}
	return &layer{File: w.file.Name(), Hash: hashOf(w.packed), Unpacked: hashOf(w.unpacked), Bytes: size, Contents: c}, nil
}

func hashOf(h hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}
}

// generated returns the layer of a generated catalog, from the cache if possible. The description of a layer is written
// last; a layer without one is generated again.
func (e *env) generated(ctx context.Context, shape catalogs.Shape) (*layer, error) {
	return e.cached(shape.Key(), fmt.Sprintf("generating a catalog of %d bundles, %.1f MB", shape.Bundles,
		float64(shape.Bytes)/1e6), func(file string) (*layer, error) {
		w, err := newLayerWriter(file)
		if err != nil {
			return nil, err
		}
		var c contents
		var sizes []sizedFile
		said := time.Now()
		err = w.addDirectory("configs")
		if err == nil {
			err = shape.Files(ctx, func(f catalogs.File) error {
				c.Add(f.Stats)
				if time.Since(said) > 15*time.Second {
					said = time.Now()
					e.say("  generated %d of %d bundles", c.Bundles, shape.Bundles)
				}
				name := path.Join("configs", f.Path)
				sizes = append(sizes, sizedFile{name, int64(len(f.Content))})
				return errors.Join(w.addDirectory(path.Dir(name)), w.add(name, f.Content))
			})
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("generating a catalog: %w", err), w.file.Close())
		}
		c.Median = median(sizes)
		return w.close(c)
	})
}

// cached returns the layer of a key, and generates it if it is missing.
func (e *env) cached(key, doing string, generate func(file string) (*layer, error)) (*layer, error) {
	file, description := filepath.Join(e.cacheDir, key+".tar.gz"), filepath.Join(e.cacheDir, key+".json")
	if text, err := os.ReadFile(description); err == nil {
		l := &layer{}
		if err := json.Unmarshal(text, l); err == nil {
			l.File = file
			if info, err := os.Stat(file); err == nil && info.Size() == l.Bytes {
				return l, nil
			}
		}
	}
	if err := os.MkdirAll(e.cacheDir, 0o755); err != nil {
		return nil, err
	}
	if err := os.Remove(description); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	began := time.Now()
	l, err := generate(file)
	if err != nil {
		return nil, err
	}
	e.say("%s: %.1f s", doing, time.Since(began).Seconds())
	text, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return nil, err
	}
	return l, os.WriteFile(description, text, 0o644)
}

// changed returns the layer with one more blob in the file of median size.
func (e *env) changed(ctx context.Context, l *layer, number int) (*layer, error) {
	key := fmt.Sprintf("%.16s-variant-%d", l.Hash.Hex, number)
	return e.cached(key, fmt.Sprintf("changing one package, variant %d", number), func(file string) (*layer, error) {
		return repack(ctx, l, file, func(name string, content []byte) []byte {
			if name != l.Contents.Median {
				return content
			}
			blob := fmt.Sprintf("{\"schema\":\"bench.example.com/v1\",\"name\":\"variant-%d\"}\n", number)
			if strings.HasSuffix(name, ".json") {
				return append(content, blob...)
			}
			return append(content, "---\n"+blob...)
		})
	})
}

// repack copies a layer, each file as edit returns it.
func repack(ctx context.Context, l *layer, file string, edit func(name string, content []byte) []byte) (*layer, error) {
	in, err := os.Open(l.File)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	zip, err := gzip.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", l.File, err)
	}
	w, err := newLayerWriter(file)
	if err != nil {
		return nil, err
	}
	archive := tar.NewReader(zip)
	for ctx.Err() == nil {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			c := l.Contents
			if c.Blobs > 0 { // 0 is unknown, as in a catalog of --catalog
				c.Blobs++
			}
			return w.close(c)
		}
		var content []byte
		if err == nil {
			content, err = io.ReadAll(archive)
		}
		if err == nil {
			content = edit(header.Name, content)
			header.Size = int64(len(content))
			err = w.WriteHeader(header)
		}
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("copying %s: %w", l.File, err), w.file.Close())
		}
	}
	return nil, errors.Join(ctx.Err(), w.file.Close())
}
