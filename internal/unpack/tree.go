package unpack

import (
	"archive/tar"
	"cmp"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxName    = 255  // bytes of a file name: NAME_MAX of Linux
	maxPath    = 4096 // bytes of a path: PATH_MAX of Linux
	maxDepth   = 100  // directories of a path; limits the work for one name
	maxRefused = 100  // refused entries remembered
)

// tree applies tar entries to the catalog's directory. Paths of the image are clean and relative to the image's
// root ("configs/foo/catalog.json"); root contains the files below dir.
//
// Only files and directories are created. Any other entry is refused: tree remembers its path until a later
// entry or layer replaces or hides it, and fails if it is left at the end. So links in base layers do no harm,
// and no path in root leads out of it.
type tree struct {
	location // of the catalog in the image; beside a database nothing else is created
	root     *os.Root
	limits   Limits
	written  func(name string) // called with each complete file, relative to root
	buffer   []byte            // for copying

	exists  bool              // dir exists as a directory
	refused map[string]string // reasons of refused entries, by path
	entries int               // entries created so far
	bytes   int64             // bytes written so far

	// touched are the paths in the current layer and their parents, which whiteouts spare. cleared are the
	// directories in which a whiteout of the layer hid everything. Both store hashes with a random seed, which
	// bounds their size whatever the lengths of names.
	touched, cleared map[uint64]struct{}
	seed             maphash.Seed
}

func newTree(root *os.Root, at location, limits Limits) *tree {
	t := &tree{
		location: at,
		root:     root,
		limits:   limits,
		written:  func(string) {},
		buffer:   make([]byte, 256<<10),
		exists:   at.dir == ".",
		refused:  map[string]string{},
		seed:     maphash.MakeSeed(),
	}
	t.beginLayer()
	return t
}

func (t *tree) beginLayer() {
	t.touched, t.cleared = map[uint64]struct{}{}, map[uint64]struct{}{}
}

// apply applies one entry. It reads content only for files of the catalog.
func (t *tree) apply(header *tar.Header, content io.Reader) error {
	if header.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := cleanName(header.Name)
	if err != nil {
		return err
	}
	parent, base := path.Dir(name), path.Base(name)
	if hidden, ok := strings.CutPrefix(base, whiteoutPrefix); ok {
		if t.only == nil {
			return t.applyWhiteout(parent, hidden)
		}
		if t.isOutside(parent) {
			return nil
		}
		return cmp.Or(t.count(1, 0), t.applyWhiteout(parent, hidden)) // as many as files, since each takes memory
	}
	switch {
	case name == "." && header.Typeflag != tar.TypeDir:
		return invalidf("entry %q replaces the image's root, which must be a directory", header.Name)
	case t.isBelowRefused(name), t.isBesideDatabase(name), t.isOutside(name): // below a refused link it belongs to the link's target
		return nil
	case t.isAbove(name):
		return t.applyAbove(name, header)
	case t.isInside(name) && !utf8.ValidString(t.rel(name)):
		return invalidf("the name of entry %q is not UTF-8: rename the file", header.Name) // required by io/fs
	case t.isInside(name):
		return t.applyInside(name, header, content)
	default:
		return nil
	}
}

// applyAbove applies an entry for a parent of dir. It only affects whether dir can exist.
func (t *tree) applyAbove(name string, header *tar.Header) error {
	if header.Typeflag != tar.TypeDir {
		if err := t.remove(name); err != nil {
			return err
		}
	}
	t.touch(name)
	switch {
	case header.Typeflag == tar.TypeDir:
		delete(t.refused, name)
		return nil
	case isFile(header):
		return nil
	default:
		return t.refuse(name, reason(header))
	}
}

func (t *tree) applyInside(name string, header *tar.Header, content io.Reader) error {
	if header.Typeflag == tar.TypeDir {
		delete(t.refused, name)
		t.touch(name)
		return t.mkdirAll(name)
	}
	if header.Typeflag == tar.TypeLink {
		return t.applyHardLink(name, header)
	}
	if err := t.makeRoom(name); err != nil {
		return err
	}
	switch {
	case isSparse(header) || !isFile(header):
		return t.refuse(name, reason(header))
	case name == t.dir:
		return nil // a file in place of the catalog's directory: dir does not exist
	default:
		return t.writeFile(name, header.Size, content)
	}
}

// writeFile writes a file of size bytes, or all of content if size is sizeUnknown.
func (t *tree) writeFile(name string, size int64, content io.Reader) error {
	if err := t.checkFile(name, size); err != nil {
		return err
	}
	if err := t.count(1, max(size, 0)); err != nil {
		return err
	}
	if size == sizeUnknown {
		// One byte more than allowed shows that the file is too large.
		content = io.LimitReader(content, min(t.limits.FileBytes, t.limits.TotalBytes-t.bytes)+1)
	}
	file, err := t.root.OpenFile(t.rel(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	written, err := io.CopyBuffer(onlyWriter{file}, contentReader{content}, t.buffer)
	if err != nil {
		_ = file.Close()
		return fmt.Errorf("unpacking %s: %w", name, err)
	}
	if err := file.Close(); err != nil {
		return err
	}
	if size == sizeUnknown {
		if err := cmp.Or(t.checkFile(name, written), t.count(0, written)); err != nil {
			return err
		}
	}
	t.written(t.rel(name))
	return nil
}

// onlyWriter hides the other methods of a file, so that io.CopyBuffer uses its buffer.
type onlyWriter struct{ io.Writer }

func (t *tree) checkFile(name string, size int64) error {
	switch {
	case name == t.database && size > t.limits.DatabaseBytes:
		return exceeded(LimitDatabaseBytes, t.limits.DatabaseBytes, "%s has %d bytes", name, size)
	case size > t.limits.FileBytes:
		return exceeded(LimitFileBytes, t.limits.FileBytes, "%s has %d bytes", name, size)
	}
	return nil
}

// applyHardLink creates a hard link to a file of the catalog, in any layer. It counts like a copy, because
// readers read it again.
func (t *tree) applyHardLink(name string, header *tar.Header) error {
	target, err := cleanName(header.Linkname)
	if target == name {
		return nil
	}
	var info fs.FileInfo
	if err == nil && t.isInside(target) && target != t.dir {
		info, _ = t.root.Lstat(t.rel(target)) // missing or unreadable: no target
	}
	if err := t.makeRoom(name); err != nil {
		return err
	}
	if info == nil || !info.Mode().IsRegular() || contains(name, target) || contains(target, name) {
		return t.refuse(name, fmt.Sprintf("is a hard link to %q, which is not a file of the catalog: replace it with the file", header.Linkname))
	}
	if err := t.count(1, info.Size()); err != nil {
		return err
	}
	if err := t.root.Link(t.rel(target), t.rel(name)); err != nil {
		return err
	}
	t.written(t.rel(name))
	return nil
}

// makeRoom creates the parent of name and removes name, so that an entry can be created there.
func (t *tree) makeRoom(name string) error {
	t.touch(name)
	if name != t.dir {
		if err := t.mkdirAll(path.Dir(name)); err != nil {
			return err
		}
	}
	return t.remove(name)
}

// mkdirAll creates directory name and its parents from dir on, and replaces files in the way.
func (t *tree) mkdirAll(name string) error {
	t.exists = true
	if name == t.dir {
		return nil
	}
	info, err := t.root.Lstat(t.rel(name))
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		err = t.root.Remove(t.rel(name))
	default: // missing, or a parent is a file
		err = t.mkdirAll(path.Dir(name))
	}
	if err != nil {
		return err
	}
	if err := t.count(1, 0); err != nil {
		return err
	}
	return t.root.Mkdir(t.rel(name), 0o755)
}

// remove removes name and everything below it.
func (t *tree) remove(name string) error {
	maps.DeleteFunc(t.refused, func(refused, _ string) bool {
		return contains(name, refused)
	})
	if !contains(name, t.dir) {
		return t.root.RemoveAll(t.rel(name))
	}
	t.exists = false
	children, err := t.list(t.dir)
	if err != nil {
		return err
	}
	for _, child := range children {
		if err := t.root.RemoveAll(t.rel(child)); err != nil {
			return err
		}
	}
	return nil
}

func (t *tree) refuse(name, reason string) error {
	t.refused[name] = reason
	if len(t.refused) > maxRefused {
		return invalidf("%s %s (and %d others)", name, reason, maxRefused)
	}
	return nil
}

// count adds to the totals and fails if they exceed a limit.
func (t *tree) count(entries int, bytes int64) error {
	t.entries += entries
	t.bytes += bytes
	switch {
	case t.entries > t.limits.Files:
		return exceeded(LimitFiles, int64(t.limits.Files), "it has at least %d files and directories", t.entries)
	case t.bytes > t.limits.TotalBytes:
		return exceeded(LimitTotalBytes, t.limits.TotalBytes, "it has at least %d bytes of files", t.bytes)
	}
	return nil
}

// checkRefused returns an error if a refused entry is left after the last layer.
func (t *tree) checkRefused() error {
	if len(t.refused) == 0 {
		return nil
	}
	first := slices.Min(slices.Collect(maps.Keys(t.refused)))
	return invalidf("%s %s", first, t.refused[first])
}

// result returns the files that exist after the last layer.
func (t *tree) result() (Result, error) {
	if err := t.checkRefused(); err != nil {
		return Result{}, err
	}
	result := Result{ConfigDir: path.Join("/", t.dir)}
	err := fs.WalkDir(t.root.FS(), ".", func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		result.Files++
		result.Bytes += info.Size()
		return nil
	})
	switch {
	case err != nil:
		return Result{}, fmt.Errorf("counting the files: %w", err)
	case !t.exists:
		return Result{}, misplacedf("the image has no directory %s for its catalog: "+
			"set spec.extractContent.configDir, or correct the label or annotation %s", result.ConfigDir, ConfigsLabel)
	case result.Files == 0 && t.only != nil:
		return Result{}, invalidf("its directories %s have no files", strings.Join(t.only, " and "))
	case result.Files == 0:
		return Result{}, invalidf("the catalog's directory %s has no files", result.ConfigDir)
	}
	return result, nil
}
