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

// load reads a file and returns the hash of its content and a file system to read it from: the buffer, until the next call,
// or the stage if the file is too large for it.
func (in *intake) load(name string) (fsys fs.FS, content fbc.Hash, err error) {
	f, err := in.fsys.Open(name)
	if err != nil {
		return nil, content, err
	}
	defer f.Close() // read only
	sum := sha256.New()
	sum.Write([]byte(path.Ext(name) + "\x00")) // the extension decides how the bytes are parsed
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

// heldFile is a file system with one file, which has this content and any name.
type heldFile []byte

func (h heldFile) Open(string) (fs.File, error) { return openedFile{bytes.NewReader(h)}, nil }

type openedFile struct{ *bytes.Reader }

func (openedFile) Stat() (fs.FileInfo, error) { return nil, errors.ErrUnsupported }
func (openedFile) Close() error               { return nil }
