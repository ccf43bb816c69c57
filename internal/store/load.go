package store

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"path"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// load reads a file, and tells what file system to read it from again: one that holds it in the buffer, until the next is loaded,
// unless it is too large for that.
func (in *intake) load(name string) (fsys fs.FS, content fbc.Hash, err error) {
	f, err := in.fsys.Open(name)
	if err != nil {
		return nil, content, err
	}
	defer f.Close() // read only
	sum := sha256.New()
	sum.Write([]byte(path.Ext(name) + "\x00")) // the same bytes may mean something else under another extension
	n, err := io.ReadFull(f, in.buffer)
	sum.Write(in.buffer[:n])
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		fsys, err = heldFile(in.buffer[:n]), nil
	case err == nil:
		fsys = in.fsys
		_, err = io.CopyBuffer(sum, f, in.buffer)
	}
	if err != nil {
		return nil, content, err
	}
	return fsys, fbc.Hash(sum.Sum(nil)[:fbc.HashSize]), nil
}

// heldFile is a file system of one file, by whatever name: its content.
type heldFile []byte

func (h heldFile) Open(string) (fs.File, error) { return openedFile{bytes.NewReader(h)}, nil }

type openedFile struct{ *bytes.Reader }

func (openedFile) Stat() (fs.FileInfo, error) { return nil, errors.ErrUnsupported }
func (openedFile) Close() error               { return nil }
