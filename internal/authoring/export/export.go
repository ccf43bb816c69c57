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
	"path/filepath"
	"regexp"
	"strings"
)

// Sink receives the blobs of a catalog; pkg is their package, "" if none. Commit makes them visible. Abort
// discards what is not committed; it may follow Commit.
type Sink interface {
	Put(pkg string, blob []byte) error
	Commit() error
	Abort()
}

// ToPath returns a Sink for a path: one file with the suffix .json, .yaml or .yml, otherwise a directory with a
// file per package. It replaces existing content if force is set, and returns an ExistsError otherwise.
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

// ToWriter returns a Sink that writes encoded blobs at once.
func ToWriter(w io.Writer, encode func(blob []byte) ([]byte, error)) Sink {
	return &streamSink{w, encode}
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

// pending is written aside and renamed to path when complete.
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

// dirSink writes a directory per package.
type dirSink struct {
	pending
	root  *os.Root
	names names
	pkg   string // package of file
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

// open opens the file of a package for appending, because its blobs may be scattered in a catalog.
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

// streamSink writes to a stream.
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

// maxDirName is below the 255 bytes that file systems allow.
const maxDirName = 200

var (
	dirName  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9_-])?$`)
	notInDir = regexp.MustCompile(`[^A-Za-z0-9_-]+`)
)

// names gives each package its own directory. It appends a hash to a name that is unsafe or taken in another
// case.
type names struct {
	taken map[string]bool   // in lower case: some file systems ignore case
	of    map[string]string // directories by package
}

func (n names) dir(pkg string) string {
	if dir, ok := n.of[pkg]; ok {
		return dir
	}
	dir := pkg
	if len(pkg) > maxDirName || !dirName.MatchString(pkg) || n.taken[strings.ToLower(pkg)] {
		plain := notInDir.ReplaceAllString(pkg, "_")
		dir = fmt.Sprintf("%s-%x", plain[:min(len(plain), maxDirName)], sha256.Sum256([]byte(pkg)))[:min(len(plain), maxDirName)+17]
	}
	n.of[pkg], n.taken[strings.ToLower(dir)] = dir, true
	return dir
}
