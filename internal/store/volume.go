package store

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"sync"
	"sync/atomic"
)

// volume is the directory of a store. Every change of it is an operation and goes through one of these methods, so that
// tests can stop the store before each. Reads use os.Root.
type volume struct {
	*os.Root
	step func(operation) error // called before each operation; its error fails the operation. May be nil

	// publishing serializes changes of catalogs/ and snapshots/. It is held for renames and syncs only, never while a stage is
	// filled, so one catalog does not wait for another.
	publishing sync.Mutex
	stages     atomic.Int64 // names given out by stageName
}

// operation is a change of the volume. Paths are slash-separated and relative to it.
type operation struct {
	kind string // one of those below
	name string
	to   string // of a rename
}

// The kinds of operations. Any number of writes makes a file. A crash can undo what is not synced: the content of a file
// without opSync, and creations, renames and removals in a directory without opSyncDir.
const (
	opMkdir   = "mkdir"
	opCreate  = "create" // an empty file
	opWrite   = "write"  // at the end of a file
	opSync    = "sync"
	opRename  = "rename"
	opRemove  = "remove" // a file, or an empty directory
	opSyncDir = "syncDir"
)

// do does an operation, unless step fails it.
func (v *volume) do(op operation, change func() error) error {
	if v.step != nil {
		if err := v.step(op); err != nil {
			return err
		}
	}
	return change()
}

// stageName returns an unused name in the stage.
func (v *volume) stageName() string {
	return path.Join(stageDir, strconv.FormatInt(v.stages.Add(1), 10))
}

// Mkdir creates a directory.
func (v *volume) Mkdir(name string) error {
	return v.do(operation{kind: opMkdir, name: name}, func() error { return v.Root.Mkdir(name, 0o755) })
}

// ensureDir creates a directory if it is missing. Its parent must exist.
func (v *volume) ensureDir(name string) error {
	if _, err := v.Lstat(name); err == nil {
		return nil
	}
	return v.Mkdir(name)
}

// Create creates a file, or truncates an existing one.
func (v *volume) Create(name string) (*file, error) {
	f := &file{volume: v, name: name}
	return f, v.do(operation{kind: opCreate, name: name}, func() (err error) {
		f.File, err = v.OpenFile(name, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o644)
		return err
	})
}

// Rename moves a file or a directory. A file replaces an existing one.
func (v *volume) Rename(from, to string) error {
	return v.do(operation{opRename, from, to}, func() error { return v.Root.Rename(from, to) })
}

// Remove deletes a file or an empty directory.
func (v *volume) Remove(name string) error {
	return v.do(operation{kind: opRemove, name: name}, func() error { return v.Root.Remove(name) })
}

// RemoveAll deletes a file, or a directory with its content. A missing one is no error.
func (v *volume) RemoveAll(name string) error {
	entries, err := fs.ReadDir(v.FS(), name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries { // none in a file
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

// syncDir makes the entries of a directory durable: creations, renames and removals in it.
func (v *volume) syncDir(name string) error {
	return v.do(operation{kind: opSyncDir, name: name}, func() error {
		d, err := v.Open(name)
		if err != nil {
			return err
		}
		defer d.Close() // read only
		return d.Sync()
	})
}

// file is a file that is being written.
type file struct {
	*os.File
	volume *volume
	name   string
}

func (f *file) Write(p []byte) (n int, err error) {
	err = f.volume.do(operation{kind: opWrite, name: f.name}, func() error {
		n, err = f.File.Write(p)
		return err
	})
	return n, err
}

// ReadFrom lets the kernel copy what it can.
func (f *file) ReadFrom(r io.Reader) (n int64, err error) {
	err = f.volume.do(operation{kind: opWrite, name: f.name}, func() error {
		n, err = f.File.ReadFrom(r)
		return err
	})
	return n, err
}

func (f *file) Sync() error {
	return f.volume.do(operation{kind: opSync, name: f.name}, f.File.Sync)
}
