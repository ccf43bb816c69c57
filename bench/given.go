package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

type sizedFile struct {
	name string
	size int64
}

// median returns the name of the JSON or YAML file of median size.
func median(files []sizedFile) string {
	if len(files) == 0 {
		return ""
	}
	slices.SortFunc(files, func(a, b sizedFile) int {
		return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.name, b.name))
	})
	return files[len(files)/2].name
}

func isCatalogFile(name string) bool {
	return strings.HasPrefix(name, "configs/") && slices.Contains([]string{".json", ".yaml", ".yml"}, path.Ext(name))
}

// given makes a layer, in a directory of this run, of the catalog that --catalog names: a directory, which becomes
// /configs, or a plain or gzipped tar archive with configs/ in it.
func (e *env) given(ctx context.Context) (*layer, error) {
	info, err := os.Stat(e.catalog)
	if err != nil {
		return nil, fmt.Errorf("--catalog: %w", err)
	}
	w, err := newLayerWriter(filepath.Join(e.dir, "given.tar.gz"))
	if err != nil {
		return nil, err
	}
	var files []sizedFile
	if info.IsDir() {
		files, err = packDirectory(ctx, w, os.DirFS(e.catalog))
	} else {
		files, err = packArchive(ctx, w, e.catalog)
	}
	if err == nil && len(files) == 0 {
		err = errors.New("no JSON or YAML file: set a directory for /configs, or a tar archive with configs/ in it")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--catalog %s: %w", e.catalog, err), w.file.Close())
	}
	return w.close(contents{Median: median(files)})
}

func packDirectory(ctx context.Context, w *layerWriter, tree fs.FS) (files []sizedFile, err error) {
	err = fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		target := path.Join("configs", name)
		switch {
		case err != nil || ctx.Err() != nil:
			return errors.Join(err, ctx.Err())
		case entry.IsDir():
			return w.addDirectory(target)
		case !entry.Type().IsRegular():
			return fmt.Errorf("%s is not a regular file", name)
		}
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		if isCatalogFile(target) {
			files = append(files, sizedFile{target, int64(len(content))})
		}
		return w.add(target, content)
	})
	return files, err
}

func packArchive(ctx context.Context, w *layerWriter, file string) (files []sizedFile, err error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	buffered := bufio.NewReader(in)
	stream := io.Reader(buffered)
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		if stream, err = gzip.NewReader(buffered); err != nil {
			return nil, err
		}
	}
	archive := tar.NewReader(stream)
	for ctx.Err() == nil {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		header.Name = strings.TrimPrefix(path.Clean("/"+header.Name), "/")
		if header.Typeflag == tar.TypeDir {
			err = w.addDirectory(header.Name)
		} else {
			if isCatalogFile(header.Name) {
				files = append(files, sizedFile{header.Name, header.Size})
			}
			err = errors.Join(w.WriteHeader(header), copyTo(w, archive))
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, ctx.Err()
}

func copyTo(w io.Writer, r io.Reader) error {
	_, err := io.Copy(w, r)
	return err
}
