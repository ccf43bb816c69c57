package scan

import (
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/joelanford/ignore"
)

// indexIgnore is the name of files with patterns (in the syntax of .gitignore) for files that are not part of the
// catalog.
const indexIgnore = ".indexignore"

// maxIgnoreBytes is the limit of all .indexignore files together: each pattern is matched against each file. Known
// ones have a few lines.
const maxIgnoreBytes = 16 << 10

// Files returns the files of the catalog in fsys in the order in which their blobs are streamed: lexical, directories
// at the position of their name. It omits .indexignore files and the files that they exclude. Too many patterns are an
// *Error.
func Files(fsys fs.FS) ([]string, error) {
	if err := checkIgnores(fsys); err != nil {
		return nil, err
	}
	ignored, err := ignore.NewMatcher(fsys, indexIgnore)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", indexIgnore, err)
	}
	var files []string
	err = fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() || d.Name() == indexIgnore || ignored.Match(path, false) {
			return nil
		}
		files = append(files, path)
		return nil
	})
	return files, err
}

func checkIgnores(fsys fs.FS) error {
	total := int64(0)
	return fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() != indexIgnore {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if total += info.Size(); total > maxIgnoreBytes {
			return &Error{Path: path, Err: fmt.Errorf("the %s files exceed the limit of %d bytes in total", indexIgnore, maxIgnoreBytes)}
		}
		return nil
	})
}

// hasCatalogName reports whether a file has a usual extension of catalog files. Other files are read as well, as
// operator-registry does, but a fault in one suggests that it is not part of the catalog.
func hasCatalogName(name string) bool {
	return slices.Contains([]string{".json", ".yaml", ".yml"}, path.Ext(name))
}
