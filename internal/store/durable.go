package store

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
)

// The operations that make content durable. Each is named for what it guarantees when it returns no error. Nothing else in
// catalogd renames.

// tempPrefix begins the names of unfinished files of writeDurably. No catalog's name begins with a dot.
const tempPrefix = ".tmp-"

// maxFileName is the limit of file systems in bytes. A catalog's name has up to 253.
const maxFileName = 255

// writeDurably creates or replaces a file. After a crash at any point it has the old or the new content, complete. The
// directory must exist.
//
//	open(tmp) write fsync(tmp) close rename(tmp, name) fsync(dir)
func (v *volume) writeDurably(name string, data []byte) (err error) {
	dir, base := path.Split(name)
	tmp := dir + tempPrefix + base[:min(len(base), maxFileName-len(tempPrefix))] // callers write one file of a directory at a time
	if err := v.writeFile(tmp, bytesOf(data)); err != nil {
		return err
	}
	return v.publishFile(tmp, name)
}

// writeFile writes a file and makes its content durable, but not its name: syncing its directory does. It removes a file
// that it cannot write.
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

// bytesOf returns a function that writes some bytes.
func bytesOf(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

// ignoreMissing drops the error about a missing file.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// syncAndClose makes the content of a file durable and closes it. After a failed write it only closes.
func (f *file) syncAndClose(writeErr error) error {
	if writeErr != nil {
		return f.Close()
	}
	return errors.Join(f.Sync(), f.Close())
}

// publishDir moves a directory, whose files are durable, to an unused name. After a crash it is at one of the names, complete.
func (v *volume) publishDir(from, to string) error {
	if err := v.syncDir(from); err != nil {
		return err
	}
	if err := v.Rename(from, to); err != nil {
		return err
	}
	return v.syncDir(path.Dir(to))
}

// publishFile moves a durable file to a name in an existing directory, where it replaces any other. After a crash it is at
// one of the names, complete.
func (v *volume) publishFile(from, to string) error {
	if err := v.Rename(from, to); err != nil {
		return errors.Join(err, v.Remove(from))
	}
	return v.syncDir(path.Dir(to))
}

// stepAside renames a directory, if it exists. It deletes an existing directory of that other name.
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

// deletedPrefix begins the paths of directories that unpublishDir is deleting.
const deletedPrefix = stageDir + "/deleted-"

// unpublishDir removes a directory from its name at once and then deletes it. A crash leaves the rest in the stage, which is
// emptied at start.
func (v *volume) unpublishDir(name string) error {
	deleted := deletedPrefix + path.Base(name)
	if err := v.RemoveAll(deleted); err != nil {
		return err
	}
	if err := v.Rename(name, deleted); err != nil {
		return ignoreMissing(err)
	}
	if err := v.syncDir(path.Dir(name)); err != nil {
		return err
	}
	return v.RemoveAll(deleted)
}

// removeDeleted deletes the leftovers of failed calls of unpublishDir.
func (v *volume) removeDeleted() error {
	names, err := fs.Glob(v.FS(), deletedPrefix+"*")
	for _, name := range names {
		if err := v.RemoveAll(name); err != nil {
			return err
		}
	}
	return err
}

// replaceFile writes a file of a snapshot, completely or not at all. If the snapshot is deleted meanwhile, that is no error.
//
//	write(stage) fsync(stage) close rename(stage, snapshot) fsync(snapshot)
func (v *volume) replaceFile(dir, name string, write func(io.Writer) error) error {
	staged := v.stageName() + "-" + name
	if err := v.writeFile(staged, write); err != nil {
		return err
	}
	v.publishing.Lock()
	defer v.publishing.Unlock()
	if _, err := v.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return v.Remove(staged)
	}
	return v.publishFile(staged, path.Join(dir, name))
}

// endsWith reports whether a file has a size and ends with some bytes.
func (v *volume) endsWith(name string, end []byte, size int64) bool {
	f, err := v.Open(name)
	if err != nil {
		return false
	}
	defer f.Close() // read only
	if stat, err := f.Stat(); err != nil || stat.Size() != size {
		return false
	}
	buf := make([]byte, min(len(end), 256<<10))
	for at := size - int64(len(end)); len(end) > 0; {
		n, err := f.ReadAt(buf[:min(len(buf), len(end))], at)
		if err != nil || !bytes.Equal(buf[:n], end[:n]) {
			return false
		}
		at, end = at+int64(n), end[n:]
	}
	return true
}
