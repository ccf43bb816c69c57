package store

import (
	"errors"
	"io"
	"io/fs"
	"path"
)

// The operations that make content durable, each named for what it guarantees when it returns without error. Nothing
// else in catalogd renames.

// tempPrefix begins the names of files that writeDurably has not finished. No catalog's name begins with a dot.
const tempPrefix = ".tmp-"

// writeDurably replaces the file at name, or makes it: after a crash at any point it has the old content or the new,
// whole. The directory has to exist.
//
//	open(tmp) write fsync(tmp) close rename(tmp, name) fsync(dir)
func (v *volume) writeDurably(name string, data []byte) (err error) {
	dir, base := path.Split(name)
	tmp := dir + tempPrefix + base
	if err := v.writeFile(tmp, bytesOf(data)); err != nil {
		return err
	}
	return v.publishFile(tmp, name)
}

// writeFile writes a file and makes its content durable, but not its name: that is done when its directory is synced. A file
// that cannot be written is removed.
func (v *volume) writeFile(name string, write func(io.Writer) error) error {
	f, err := v.Create(name)
	if err != nil {
		return err
	}
	err = write(f)
	if err = errors.Join(err, f.syncAndClose(err)); err != nil {
		return errors.Join(err, v.Remove(name))
	}
	return nil
}

// bytesOf is what writes some bytes.
func bytesOf(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

// ignoreMissing drops the error about a file that is not there, or no longer.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// syncAndClose makes the content of a file durable and closes it; after a failed write it only closes.
func (f *file) syncAndClose(writeErr error) error {
	if writeErr != nil {
		return f.Close()
	}
	return errors.Join(f.Sync(), f.Close())
}

// publishDir moves a directory, whose files are durable already, to a name at which there is nothing: after a crash it
// is at the one name or at the other, whole.
func (v *volume) publishDir(from, to string) error {
	if err := v.syncDir(from); err != nil {
		return err
	}
	if err := v.Rename(from, to); err != nil {
		return err
	}
	return v.syncDir(path.Dir(to))
}

// publishFile moves a file that is durable already to a name in a directory that exists, in the place of any other: after
// a crash it is at the one name or at the other, whole.
func (v *volume) publishFile(from, to string) error {
	if err := v.Rename(from, to); err != nil {
		return errors.Join(err, v.Remove(from))
	}
	return v.syncDir(path.Dir(to))
}

// stepAside moves a directory, if there is one, to another name, at which whatever was is deleted.
func (v *volume) stepAside(name, aside string) error {
	if _, err := v.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := v.unpublishDir(aside); err != nil {
		return err
	}
	if err := v.Rename(name, aside); err != nil {
		return err
	}
	return v.syncDir(path.Dir(name))
}

// unpublishDir makes a directory disappear from its name at once and then deletes it; what a crash leaves of it lies
// in the stage, which is emptied at start.
func (v *volume) unpublishDir(name string) error {
	grave := path.Join(stageDir, "deleted-"+path.Base(name))
	if err := v.RemoveAll(grave); err != nil {
		return err
	}
	if err := v.Rename(name, grave); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if err := v.syncDir(path.Dir(name)); err != nil {
		return err
	}
	return v.RemoveAll(grave)
}
