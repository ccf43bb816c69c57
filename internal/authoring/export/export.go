// Package export writes blobs of a catalog as a file-based catalog: to a directory, a file or a stream.
package export

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// A Sink receives the blobs of a catalog. Commit makes them visible. Abort discards uncommitted blobs; it may follow
// Commit.
type Sink struct {
	// Put writes a blob; pkg is its package, "" if none.
	Put func(pkg string, blob []byte) error

	close       func() error
	path, aside string // the content is written aside and renamed to path; empty for a stream
}

// ToPath returns a Sink for a path: one file with the suffix .json, .yaml or .yml, otherwise a directory with a
// file per package. It replaces existing content if force is set, and returns an ExistsError otherwise.
func ToPath(path string, force bool) (*Sink, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := mayReplace(path, force); err != nil {
		return nil, err
	}
	s := &Sink{path: path, aside: filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%d", filepath.Base(path), os.Getpid()))}
	encode := JSON
	switch strings.ToLower(filepath.Ext(path)) {
	case ".yaml", ".yml":
		encode = YAML
	case ".json":
	default:
		return s, s.openDir()
	}
	file, err := os.OpenFile(s.aside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	s.Put, s.close = ToWriter(file, encode).Put, file.Close
	return s, err
}

// ToWriter returns a Sink that writes encoded blobs at once.
func ToWriter(w io.Writer, encode func(blob []byte) ([]byte, error)) *Sink {
	put := func(_ string, blob []byte) error {
		text, err := encode(blob)
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	}
	return &Sink{Put: put, close: func() error { return nil }}
}

// Commit makes the content visible.
func (s *Sink) Commit() error {
	if err := s.close(); err != nil || s.path == "" {
		return err
	}
	old := s.aside + ".old"
	switch err := os.Rename(s.path, old); {
	case errors.Is(err, fs.ErrNotExist):
		return os.Rename(s.aside, s.path)
	case err != nil:
		return err
	}
	if err := os.Rename(s.aside, s.path); err != nil {
		return errors.Join(err, os.Rename(old, s.path))
	}
	return os.RemoveAll(old)
}

// Abort discards the content that is not committed.
func (s *Sink) Abort() {
	_ = s.close()
	if s.path != "" {
		_ = os.RemoveAll(s.aside)
	}
}

// ExistsError is the error for existing content that must not be replaced.
type ExistsError struct{ error }

func existsf(format string, args ...any) error { return ExistsError{fmt.Errorf(format, args...)} }

// JSON returns a blob in opm's format. It adds only white space.
func JSON(blob []byte) ([]byte, error) {
	var b bytes.Buffer
	if err := json.Indent(&b, blob, "", "    "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// mayReplace returns an error unless path is absent, an empty directory, or force allows its replacement.
func mayReplace(path string, force bool) error {
	entries, err := os.ReadDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && holdsWorkingDirectory(path):
		return existsf("%s contains the working directory: specify another path", path)
	case (err == nil && len(entries) == 0) || force:
		return nil
	case err == nil:
		return existsf("%s is not empty: specify a new directory, or --force to replace it with all its content", path)
	}
	if _, err := os.Lstat(path); err != nil {
		return err
	}
	return existsf("%s already exists: specify another path, or --force to replace it", path)
}

func holdsWorkingDirectory(path string) bool {
	here, err := os.Getwd()
	if err != nil {
		return false
	}
	way, err := filepath.Rel(path, here)
	return err == nil && way != ".." && !strings.HasPrefix(way, ".."+string(filepath.Separator))
}

// openDir makes s write to a directory, with a directory for each package.
func (s *Sink) openDir() error {
	if err := os.Mkdir(s.aside, 0o777); err != nil {
		return err
	}
	root, err := os.OpenRoot(s.aside)
	if err != nil {
		return errors.Join(err, os.Remove(s.aside))
	}
	s.close = root.Close
	s.Put = func(pkg string, blob []byte) error {
		text, err := JSON(blob)
		if err != nil {
			return err
		}
		return appendTo(root, path.Join(dirOf(pkg), "catalog.json"), text)
	}
	return nil
}

// appendTo appends to a file, because the blobs of a package may be scattered in a catalog.
func appendTo(root *os.Root, name string, text []byte) error {
	if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return err
	}
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

var unsafe = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// dirOf returns the directory of a package: its name or, if that is no DNS label and thus invalid, a safe name with a hash. Blobs without
// a package are in the top directory.
func dirOf(pkg string) string {
	if pkg == "" || len(validation.IsDNS1123Label(pkg)) == 0 {
		return pkg
	}
	plain := unsafe.ReplaceAllString(pkg, "_")
	return fmt.Sprintf("%s-%.8x", plain[:min(len(plain), 200)], sha256.Sum256([]byte(pkg)))
}
