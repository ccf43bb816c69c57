// Package export writes blobs of a catalog as a file-based catalog: to a directory, a file or a stream.
package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A Sink takes the blobs of a catalog, of which pkg is the package they belong to; empty if to none. Only Commit makes them be seen; Abort, which
// may come after it, takes back what is not committed.
type Sink interface {
	Put(pkg string, blob []byte) error
	Commit() error
	Abort()
}

// ToPath returns what writes to a path: one file where its suffix is .json, .yaml or .yml, else a directory with one for each package. What is
// there is replaced if force says so, else it is an ExistsError.
func ToPath(path string, force bool) (Sink, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := mayReplace(path, force); err != nil {
		return nil, err
	}
	aside := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%d", filepath.Base(path), os.Getpid()))
	p := pending{path: path, aside: aside}
	switch strings.ToLower(filepath.Ext(path)) {
	case ".json":
		return newFileSink(p, JSON)
	case ".yaml", ".yml":
		return newFileSink(p, YAML)
	}
	return newDirSink(p)
}

// ToWriter returns what writes blobs as encode has them, and cannot take them back.
func ToWriter(w io.Writer, encode func(blob []byte) ([]byte, error)) Sink {
	return &streamSink{w, encode}
}

// An ExistsError says that there is something at the path that is not to be replaced.
type ExistsError struct{ error }

func existsf(format string, args ...any) error { return ExistsError{fmt.Errorf(format, args...)} }

// JSON writes a blob as opm does. Only white space is added.
func JSON(blob []byte) ([]byte, error) {
	var b bytes.Buffer
	if err := json.Indent(&b, blob, "", "    "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// mayReplace tells whether an export may go to a path: there is nothing, or only an empty directory, or it is forced to.
func mayReplace(path string, force bool) error {
	entries, err := os.ReadDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && holdsWorkingDirectory(path):
		return existsf("%s holds the directory you are in, and would be replaced by another: name a new one", path)
	case (err == nil && len(entries) == 0) || force:
		return nil
	case err == nil:
		return existsf("%s is not empty: name a new directory, or --force to replace it with all that is in it", path)
	}
	if _, err := os.Lstat(path); err != nil {
		return err
	}
	return existsf("%s is there already: name another, or --force to replace it", path)
}

func holdsWorkingDirectory(path string) bool {
	here, err := os.Getwd()
	if err != nil {
		return false
	}
	way, err := filepath.Rel(path, here)
	return err == nil && way != ".." && !strings.HasPrefix(way, ".."+string(filepath.Separator))
}

// pending is written aside and takes its place by a rename, so that there is never half of it.
type pending struct {
	path, aside string
}

func (p pending) commit() error {
	old := p.aside + ".old"
	switch err := os.Rename(p.path, old); {
	case errors.Is(err, fs.ErrNotExist):
		return os.Rename(p.aside, p.path)
	case err != nil:
		return err
	}
	if err := os.Rename(p.aside, p.path); err != nil {
		return errors.Join(err, os.Rename(old, p.path))
	}
	return os.RemoveAll(old)
}

func (p pending) abort() { _ = os.RemoveAll(p.aside) }

// fileSink writes all blobs to one file.
type fileSink struct {
	pending
	file   *os.File
	encode func([]byte) ([]byte, error)
}

func newFileSink(p pending, encode func([]byte) ([]byte, error)) (*fileSink, error) {
	file, err := os.OpenFile(p.aside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	return &fileSink{p, file, encode}, err
}

func (s *fileSink) Put(_ string, blob []byte) error {
	text, err := s.encode(blob)
	if err != nil {
		return err
	}
	_, err = s.file.Write(text)
	return err
}

func (s *fileSink) Commit() error {
	if err := s.file.Close(); err != nil {
		return err
	}
	return s.pending.commit()
}

func (s *fileSink) Abort() {
	_ = s.file.Close()
	s.pending.abort()
}

// dirSink writes a directory a package.
type dirSink struct {
	pending
	root  *os.Root
	names names
	pkg   string // whose file is open
	file  *os.File
}

func newDirSink(p pending) (*dirSink, error) {
	if err := os.Mkdir(p.aside, 0o777); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(p.aside)
	if err != nil {
		return nil, errors.Join(err, os.Remove(p.aside))
	}
	return &dirSink{pending: p, root: root, names: names{taken: map[string]bool{"catalog.json": true}, of: map[string]string{}}}, nil
}

func (s *dirSink) Put(pkg string, blob []byte) error {
	if s.file == nil || pkg != s.pkg {
		if err := s.open(pkg); err != nil {
			return err
		}
	}
	text, err := JSON(blob)
	if err != nil {
		return err
	}
	_, err = s.file.Write(text)
	return err
}

// open has the blobs of a package go to its file, behind those that are there: they need not stand together in a catalog.
func (s *dirSink) open(pkg string) error {
	if err := s.close(); err != nil {
		return err
	}
	name := "catalog.json"
	if pkg != "" {
		dir := s.names.dir(pkg)
		if err := s.root.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		name = dir + "/catalog.json"
	}
	file, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	s.pkg, s.file = pkg, file
	return nil
}

func (s *dirSink) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}

func (s *dirSink) Commit() error {
	if err := errors.Join(s.close(), s.root.Close()); err != nil {
		return err
	}
	return s.pending.commit()
}

func (s *dirSink) Abort() {
	_ = errors.Join(s.close(), s.root.Close())
	s.pending.abort()
}

// streamSink writes to whoever reads.
type streamSink struct {
	to     io.Writer
	encode func([]byte) ([]byte, error)
}

func (s *streamSink) Put(_ string, blob []byte) error {
	text, err := s.encode(blob)
	if err != nil {
		return err
	}
	_, err = s.to.Write(text)
	return err
}

func (s *streamSink) Commit() error { return nil }
func (s *streamSink) Abort()        {}
