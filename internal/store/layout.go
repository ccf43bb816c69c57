package store

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// layoutVersion is the layout that this code reads and writes, a whole number. It is part of every snapshot's key, so that a new
// layout never meets old content under one name. It is a variable for tests alone, which build a catalogd of another one (-ldflags -X).
var layoutVersion = "1"

// layoutPrefix begins the names of directories that hold the stores of other layouts.
const layoutPrefix = "layout-"

// Upgrades and downgrades of catalogd may change the layout. Neither reads the other's, and neither destroys it: the layout that a volume
// was first used with lies at its root, which the file format there says, and each other one in a directory of its own:
//
//	<root>/format          1
//	<root>/catalogs/ …     layout 1
//	<root>/layout-2/       layout 2, with the same names, among them format
//
// So a catalogd of another version begins empty, and is ready when it has filled its own; and who goes back finds what was there.

// chooseLayout goes to the directory of this layout, which is made if it is missing. A crash while it is made leaves an empty one.
func (s *Store) chooseLayout() error {
	first, err := readLayout(s.volume.FS(), formatFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.volume.writeDurably(formatFile, []byte(layoutVersion+"\n"))
	case err != nil:
		return err
	case first == layoutVersion:
		return nil
	case s.top != nil:
		return fmt.Errorf("%s%s has layout version %s: give catalogd an empty directory", layoutPrefix, layoutVersion, first)
	}
	own := layoutPrefix + layoutVersion
	if err := s.volume.ensureDir(own); err != nil {
		return err
	}
	if err := s.volume.syncDir("."); err != nil {
		return err
	}
	root, err := s.volume.OpenRoot(own)
	if err != nil {
		return err
	}
	s.top, s.volume = s.volume, &volume{root, s.opts.step}
	return s.chooseLayout()
}

// readLayout reads which layout a file says.
func readLayout(in fs.FS, file string) (string, error) {
	b, err := fs.ReadFile(in, file)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(b))
	if _, err := strconv.ParseUint(text, 10, 31); err != nil {
		return "", fmt.Errorf("%s is no store of catalogd: %w", formatFile, err)
	}
	return text, nil
}

// root is where the volume begins: above the store's own directory, if that is not the root itself.
func (s *Store) root() *volume {
	if s.top != nil {
		return s.top
	}
	return s.volume
}

// DropOlder deletes the stores of older layouts, for whoever has filled this one. Newer ones stay: they are those of a catalogd that may
// come back. A crash in between leaves a part of them, which is as good as none.
func (s *Store) DropOlder() error {
	root := s.root()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if version, isLayout := strings.CutPrefix(e.Name(), layoutPrefix); isLayout && olderLayout(version) {
			s.opts.Logger.Info("deleting what an older catalogd stored", "directory", e.Name())
			errs = append(errs, root.RemoveAll(e.Name()))
		}
	}
	if first, err := readLayout(root.FS(), formatFile); err == nil && s.top != nil && olderLayout(first) {
		errs = append(errs, s.dropFirst(root))
	}
	return errors.Join(errs...)
}

// dropFirst deletes the store at the root, all but the file that says which layout it had: where the others are depends on it. What is not
// catalogd's, such as lost+found, stays.
func (s *Store) dropFirst(root *volume) error {
	var errs []error
	for _, dir := range ownDirs {
		if _, err := root.Lstat(dir); err == nil {
			s.opts.Logger.Info("deleting what an older catalogd stored", "directory", dir)
			errs = append(errs, root.RemoveAll(dir))
		}
	}
	return errors.Join(errs...)
}

func olderLayout(version string) bool {
	own, _ := strconv.Atoi(layoutVersion)
	other, err := strconv.Atoi(version)
	return err == nil && other < own
}
