package store

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
)

// volume is the directory of a store. Each thing that the store does to it goes through one of these methods and is one
// operation, so that tests can stop the store before any of them. What only reads is that of os.Root.
type volume struct {
	*os.Root
	step func(operation) error // asked before each operation; its error ends that. nil: there is nobody to ask
}

// operation is one change of the volume. Paths are slash-separated and relative to it.
type operation struct {
	kind string // one of those below
	name string
	to   string // of a rename
}

// The kinds of operations. A file is written by any number of writes; what is not synced may be lost in a crash: the
// content of a file without opSync of it, and what was made, renamed or removed in a directory without opSyncDir.
const (
	opMkdir   = "mkdir"
	opCreate  = "create" // a file, empty
	opWrite   = "write"  // some more bytes at the end of a file
	opSync    = "sync"
	opRename  = "rename"
	opRemove  = "remove" // a file, or an empty directory
	opSyncDir = "syncDir"
)

func (v *volume) before(kind, name, to string) error {
	if v.step == nil {
		return nil
	}
	return v.step(operation{kind, name, to})
}

// Mkdir makes a directory.
func (v *volume) Mkdir(name string) error {
	if err := v.before(opMkdir, name, ""); err != nil {
		return err
	}
	return v.Root.Mkdir(name, 0o755)
}

// ensureDir makes a directory if it is missing. Its parent has to exist.
func (v *volume) ensureDir(name string) error {
	if _, err := v.Lstat(name); err == nil {
		return nil
	}
	return v.Mkdir(name)
}

// Create makes a file, or empties the one that is there.
func (v *volume) Create(name string) (*file, error) {
	if err := v.before(opCreate, name, ""); err != nil {
		return nil, err
	}
	f, err := v.OpenFile(name, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	return &file{File: f, volume: v, name: name}, nil
}

// Rename moves a file or a directory; a file in the place of any other.
func (v *volume) Rename(from, to string) error {
	if err := v.before(opRename, from, to); err != nil {
		return err
	}
	return v.Root.Rename(from, to)
}

// Remove deletes a file or an empty directory.
func (v *volume) Remove(name string) error {
	if err := v.before(opRemove, name, ""); err != nil {
		return err
	}
	return v.Root.Remove(name)
}

// RemoveAll deletes whatever is at a name, if anything is.
func (v *volume) RemoveAll(name string) error {
	entries, err := fs.ReadDir(v.FS(), name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries { // of a file there are none
		remove := v.Remove
		if e.IsDir() {
			remove = v.RemoveAll
		}
		if err := remove(path.Join(name, e.Name())); err != nil {
			return err
		}
	}
	return v.Remove(name)
}

// syncDir makes the entries of a directory durable: what was made, renamed or removed in it.
func (v *volume) syncDir(name string) error {
	if err := v.before(opSyncDir, name, ""); err != nil {
		return err
	}
	d, err := v.Open(name)
	if err != nil {
		return err
	}
	defer d.Close() // read only
	return d.Sync()
}

// file is a file that is being written.
type file struct {
	*os.File
	volume *volume
	name   string
}

func (f *file) Write(p []byte) (int, error) {
	if err := f.volume.before(opWrite, f.name, ""); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

// ReadFrom lets the kernel copy what it can.
func (f *file) ReadFrom(r io.Reader) (int64, error) {
	if err := f.volume.before(opWrite, f.name, ""); err != nil {
		return 0, err
	}
	return f.File.ReadFrom(r)
}

func (f *file) Sync() error {
	if err := f.volume.before(opSync, f.name, ""); err != nil {
		return err
	}
	return f.File.Sync()
}
