package export

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// WriteFiles writes files (content by path) and makes their directories. It replaces existing files. All files are written beside
// their places before the first is renamed; until then, an error leaves no file changed.
func WriteFiles(files map[string][]byte) (err error) {
	const suffix = ".kubectl-catalog.tmp"
	paths := slices.Sorted(maps.Keys(files))
	for _, path := range paths {
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		defer func() {
			if err != nil {
				_ = os.Remove(path + suffix)
			}
		}()
		if err := stage(path, suffix, files[path]); err != nil {
			return err
		}
	}
	for _, path := range paths {
		if err := os.Rename(path+suffix, path); err != nil {
			return err
		}
	}
	return nil
}

func stage(path, suffix string, text []byte) error {
	mode := fs.FileMode(0o666)
	switch info, err := os.Stat(path); {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file: specify another path", path)
	case err == nil:
		mode = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	file, err := os.OpenFile(path+suffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Sync(), file.Close())
}
