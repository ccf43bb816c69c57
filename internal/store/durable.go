package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
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
func writeDurably(root *os.Root, name string, data []byte) (err error) {
	dir, base := path.Split(name)
	tmp := dir + tempPrefix + base
	f, err := root.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, syncAndClose(f, err)); err != nil {
		return errors.Join(err, root.Remove(tmp))
	}
	if err := root.Rename(tmp, name); err != nil {
		return errors.Join(err, root.Remove(tmp))
	}
	return syncDir(root, path.Dir(name))
}

// syncAndClose makes the content of a file durable and closes it; after a failed write it only closes.
func syncAndClose(f *os.File, writeErr error) error {
	if writeErr != nil {
		return f.Close()
	}
	return errors.Join(f.Sync(), f.Close())
}

// publishDir moves a directory, whose files are durable already, to a name at which there is nothing: after a crash it
// is at the one name or at the other, whole.
func publishDir(root *os.Root, from, to string) error {
	if err := syncDir(root, from); err != nil {
		return err
	}
	if err := root.Rename(from, to); err != nil {
		return err
	}
	return syncDir(root, path.Dir(to))
}

// publishFile moves a file that is durable already to a name in a directory that exists, in the place of any other: after
// a crash it is at the one name or at the other, whole.
func publishFile(root *os.Root, from, to string) error {
	if err := root.Rename(from, to); err != nil {
		return errors.Join(err, root.Remove(from))
	}
	return syncDir(root, path.Dir(to))
}

// stepAside moves a directory, if there is one, to another name, at which whatever was is deleted.
func stepAside(root *os.Root, name, aside string) error {
	if _, err := root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := unpublishDir(root, aside); err != nil {
		return err
	}
	if err := root.Rename(name, aside); err != nil {
		return err
	}
	return syncDir(root, path.Dir(name))
}

// unpublishDir makes a directory disappear from its name at once and then deletes it; what a crash leaves of it lies
// in the stage, which is emptied at start.
func unpublishDir(root *os.Root, name string) error {
	grave := path.Join(stageDir, "deleted-"+path.Base(name))
	if err := root.RemoveAll(grave); err != nil {
		return err
	}
	if err := root.Rename(name, grave); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if err := syncDir(root, path.Dir(name)); err != nil {
		return err
	}
	return root.RemoveAll(grave)
}

// syncDir makes the entries of a directory durable: what was made, renamed or removed in it.
func syncDir(root *os.Root, name string) error {
	d, err := root.Open(name)
	if err != nil {
		return err
	}
	defer d.Close() // read only
	if err := d.Sync(); err != nil {
		return fmt.Errorf("syncing directory %s: %w", name, err)
	}
	return nil
}
