package unpack

import (
	"archive/tar"
	"fmt"
	"hash/maphash"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// cleanName returns the path of a tar entry relative to the image's root, "." for the root. Absolute names are
// relative to the root too, as in all of OCI. Names that leave the root are errors.
func cleanName(name string) (string, error) {
	clean := path.Clean(strings.TrimLeft(name, "/"))
	switch {
	case clean == ".." || strings.HasPrefix(clean, "../"):
		return "", invalidf("the name of entry %q points outside of the image", name)
	case strings.ContainsRune(clean, 0):
		return "", invalidf("the name of entry %q contains a NUL byte", name)
	case len(clean) > maxPath:
		return "", invalidf("the name of entry %.80q... has %d bytes, which exceeds the limit of %d", name, len(clean), maxPath)
	case strings.Count(clean, "/") > maxDepth:
		return "", invalidf("entry %.80q... exceeds the limit of %d nested directories", name, maxDepth)
	}
	for part := range strings.SplitSeq(clean, "/") {
		if len(part) > maxName {
			return "", invalidf("%.80q... has %d bytes, which exceeds the limit of %d for one file name", part, len(part), maxName)
		}
	}
	return clean, nil
}

// contains reports whether name is dir or below it.
func contains(dir, name string) bool {
	return dir == "." || name == dir || strings.HasPrefix(name, dir+"/")
}

func (t *tree) isInside(name string) bool { return contains(t.dir, name) }
func (t *tree) isAbove(name string) bool  { return name != t.dir && contains(name, t.dir) }

// isBesideDatabase reports whether name is another file in the directory of the database, which may be the
// image's root.
func (t *tree) isBesideDatabase(name string) bool {
	return t.database != "" && t.isInside(name) && name != t.dir && name != t.database
}

// isOutside reports whether name is neither in one of the only directories nor a parent of one.
func (t *tree) isOutside(name string) bool {
	return t.only != nil && !slices.ContainsFunc(t.only, func(only string) bool { return contains(only, name) || contains(name, only) })
}

// rel returns the path in root of name, which must be inside dir.
func (t *tree) rel(name string) string {
	switch {
	case t.dir == ".":
		return name
	case name == t.dir:
		return "."
	default:
		return name[len(t.dir)+1:]
	}
}

func (t *tree) isBelowRefused(name string) bool {
	for len(t.refused) > 0 && name != "." {
		name = path.Dir(name)
		if _, ok := t.refused[name]; ok {
			return true
		}
	}
	return false
}

// touch records that the current layer has an entry for name, and so for all its parents.
func (t *tree) touch(name string) {
	for ; ; name = path.Dir(name) {
		t.touched[t.hash(name)] = struct{}{}
		if name == "." {
			return
		}
	}
}

func (t *tree) isTouched(name string) bool {
	_, ok := t.touched[t.hash(name)]
	return ok
}

func (t *tree) hash(name string) uint64 { return maphash.String(t.seed, name) }

// list returns the existing paths in directory name, including refused ones. For a parent of dir it returns the
// path towards dir. It is empty if name is not a directory.
func (t *tree) list(name string) ([]string, error) {
	var names []string
	for refused := range t.refused {
		if path.Dir(refused) == name {
			names = append(names, refused)
		}
	}
	if t.isAbove(name) {
		return append(names, t.towardsDir(name)), nil
	}
	info, err := t.root.Lstat(t.rel(name))
	if err != nil || !info.IsDir() {
		return names, nil // refused, or a file
	}
	entries, err := fs.ReadDir(t.root.FS(), t.rel(name))
	for _, entry := range entries {
		names = append(names, path.Join(name, entry.Name()))
	}
	return names, err
}

// towardsDir returns the child of name on the path to dir.
func (t *tree) towardsDir(name string) string {
	below := strings.TrimPrefix(t.dir, name+"/")
	first, _, _ := strings.Cut(below, "/")
	return path.Join(name, first)
}

// reason returns why an entry is refused, as a predicate for its name.
func reason(header *tar.Header) string {
	if isFile(header) { // only sparse files are refused
		return "is a sparse file, which is not supported: pack it without --sparse"
	}
	switch header.Typeflag {
	case tar.TypeSymlink:
		return "is a symbolic link, which is not supported: replace it with the file"
	case tar.TypeLink:
		return "is a hard link in place of a directory: replace it with the directory"
	case tar.TypeChar, tar.TypeBlock:
		return "is a device; only files and directories are supported"
	case tar.TypeFifo:
		return "is a named pipe; only files and directories are supported"
	default:
		return fmt.Sprintf("is an entry of unknown type %q; only files and directories are supported", header.Typeflag)
	}
}

func isFile(header *tar.Header) bool {
	switch header.Typeflag {
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		return true
	}
	return false
}

// isSparse reports whether a file is larger than its data in the archive, which Limits.Ratio does not notice.
// Three of GNU tar's formats (its manual, "Storing Sparse Files") are PAX records of a regular file; the fourth
// has its own type.
func isSparse(header *tar.Header) bool {
	if header.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for record := range header.PAXRecords {
		if strings.HasPrefix(record, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// Names of whiteouts (OCI image specification, layer.md, "Whiteouts").
const (
	whiteoutPrefix = ".wh."
	// opaque, after the prefix, hides all content of lower layers in the directory.
	opaque = ".wh..opq"
)

// applyWhiteout applies the entry .wh.<hidden> of directory parent. A whiteout hides content of lower layers
// only, wherever it stands in its layer.
func (t *tree) applyWhiteout(parent, hidden string) error {
	switch {
	case hidden == opaque:
		return t.hideIn(parent)
	case strings.HasPrefix(hidden, whiteoutPrefix):
		return nil // bookkeeping of AUFS
	case hidden == "" || hidden == "." || hidden == "..":
		return invalidf("%s is a whiteout without a name", path.Join(parent, whiteoutPrefix)+hidden)
	default:
		return t.hide(path.Join(parent, hidden))
	}
}

// hide removes what lower layers have at name and below it.
func (t *tree) hide(name string) error {
	switch {
	case !t.isInside(name) && !t.isAbove(name):
		return nil
	case t.isTouched(name):
		return t.hideIn(name)
	default:
		return t.remove(name)
	}
}

// hideIn hides the content of lower layers in directory name, once for each layer.
func (t *tree) hideIn(name string) error {
	if _, done := t.cleared[t.hash(name)]; done || !t.isInside(name) && !t.isAbove(name) {
		return nil
	}
	t.cleared[t.hash(name)] = struct{}{}
	children, err := t.list(name)
	if err != nil {
		return err
	}
	for _, child := range children {
		if err := t.hide(child); err != nil {
			return err
		}
	}
	return nil
}
