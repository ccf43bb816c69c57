package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
)

// layoutVersion is the version of the layout that this code reads and writes, a whole number. It is part of every snapshot's
// key, so a new layout never finds old content under the same name. TestLayoutMatchesItsVersion fails when the layout changes
// and the version does not. It is a variable so that tests can build a catalogd of another layout (-ldflags -X).
var layoutVersion = "1"

// layoutPrefix begins the names of directories that hold the stores of other layouts.
const layoutPrefix = "layout-"

// An upgrade or a downgrade of catalogd can change the layout. No release reads or destroys another layout. The layout that
// a volume was first used with lies at its root, and the file format there names it. Each other one has a directory:
//
//	<root>/format          1
//	<root>/catalogs/ …     layout 1
//	<root>/layout-2/       layout 2, with the same names, among them format
//
// So catalogd of a new layout begins empty and is ready once it has filled its store; after a rollback the old store is there.

// chooseLayout returns the directory of this layout, which it creates if it is missing. A crash leaves an empty one.
func chooseLayout(root *volume) (*volume, error) {
	version, err := claimLayout(root)
	if err != nil || version == layoutVersion {
		return root, err
	}
	dir := layoutPrefix + layoutVersion
	if err := root.ensureDir(dir); err != nil {
		return nil, err
	}
	if err := root.syncDir("."); err != nil {
		return nil, err
	}
	sub, err := root.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	own := &volume{Root: sub, step: root.step}
	if version, err = claimLayout(own); err == nil && version != layoutVersion {
		err = fmt.Errorf("%s has layout version %s: give catalogd an empty directory", dir, version)
	}
	return own, err
}

// claimLayout returns the layout version of a directory; one that has none gets that of this code.
func claimLayout(v *volume) (string, error) {
	version, err := readLayout(v.FS())
	if errors.Is(err, fs.ErrNotExist) {
		return layoutVersion, v.writeDurably(formatFile, []byte(layoutVersion+"\n"))
	}
	return version, err
}

func readLayout(in fs.FS) (string, error) {
	b, err := fs.ReadFile(in, formatFile)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(b))
	if _, err := strconv.ParseUint(text, 10, 31); err != nil {
		return "", fmt.Errorf("%s is not from a store of catalogd: %w", formatFile, err)
	}
	return text, nil
}

func dropOlder(root, own *volume, log *slog.Logger) error {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	var errs []error
	drop := func(dir string) {
		log.Info("deleting the store of an older release", "directory", dir)
		errs = append(errs, root.RemoveAll(dir))
	}
	for _, e := range entries {
		if version, isLayout := strings.CutPrefix(e.Name(), layoutPrefix); isLayout && isOlderLayout(version) {
			drop(e.Name())
		}
	}
	// Keep the file format: it names the layout at the root. Keep foreign files, such as lost+found.
	if first, err := readLayout(root.FS()); err == nil && root != own && isOlderLayout(first) {
		for _, dir := range ownDirs {
			if _, err := root.Lstat(dir); err == nil {
				drop(dir)
			}
		}
	}
	return errors.Join(errs...)
}

func isOlderLayout(version string) bool {
	own, _ := strconv.Atoi(layoutVersion)
	other, err := strconv.Atoi(version)
	return err == nil && other < own
}
