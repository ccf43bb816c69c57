package unpack

import (
	"archive/tar"
	"fmt"
	"hash/maphash"
	"io/fs"
	"path"
	"strings"
)

// cleanName returns the path of a tar entry relative to the image's root, "." for the root. Absolute names are relative to
// it too, as everywhere in OCI; those that leave it are errors.
func cleanName(name string) (string, error) {
	clean := path.Clean(strings.TrimLeft(name, "/"))
	switch {
	case clean == ".." || strings.HasPrefix(clean, "../"):
		return "", invalidf("the name of entry %q leaves the image", name)
	case strings.ContainsRune(clean, 0):
		return "", invalidf("the name of entry %q has a NUL byte in it", name)
	case len(clean) > maxPath:
		return "", invalidf("the name of entry %.80q... has %d bytes, more than the limit of %d", name, len(clean), maxPath)
	case strings.Count(clean, "/") > maxDepth:
		return "", invalidf("entry %.80q... lies more than %d directories deep", name, maxDepth)
	}
	for part := range strings.SplitSeq(clean, "/") {
		if len(part) > maxName {
			return "", invalidf("%.80q... is %d bytes long, more than the limit of %d for one file name", part, len(part), maxName)
		}
	}
	return clean, nil
}

// contains says whether name is dir or lies below it.
func contains(dir, name string) bool {
	return dir == "." || name == dir || strings.HasPrefix(name, dir+"/")
}

func (t *tree) isInside(name string) bool { return contains(t.dir, name) }
func (t *tree) isAbove(name string) bool  { return name != t.dir && contains(name, t.dir) }

// isBesideDatabase tells what is not wanted in dir, which may well be the image's root, as it is a database that is.
func (t *tree) isBesideDatabase(name string) bool {
	return t.database != "" && t.isInside(name) && name != t.dir && name != t.database
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

// touch notes that the current layer has an entry for name, so that all its parents are of this layer too.
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

// list returns the paths in directory name that are there, refused ones included; of a parent of dir, the one that leads
// to dir. It is empty if name is no directory.
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

// towardsDir returns the path one below name on the way to dir.
func (t *tree) towardsDir(name string) string {
	below := strings.TrimPrefix(t.dir, name+"/")
	first, _, _ := strings.Cut(below, "/")
	return path.Join(name, first)
}

// reason says why an entry is refused, as the rest of a sentence that begins with its name.
func reason(header *tar.Header) string {
	if isFile(header) { // others are made
		return "is a sparse file; a catalog may have whole files only: pack it without --sparse"
	}
	switch header.Typeflag {
	case tar.TypeSymlink:
		return "is a symbolic link; catalogd follows no links: put the file itself there"
	case tar.TypeLink:
		return "is a hard link in place of a directory: put the directory itself there"
	case tar.TypeChar, tar.TypeBlock:
		return "is a device; a catalog may have files and directories only"
	case tar.TypeFifo:
		return "is a named pipe; a catalog may have files and directories only"
	default:
		return fmt.Sprintf("is an entry of unknown type %q; a catalog may have files and directories only", header.Typeflag)
	}
}

func isFile(header *tar.Header) bool {
	switch header.Typeflag {
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		return true
	}
	return false
}

// isSparse tells a file that is larger than what the archive has of it, which no Limits.Ratio sees. Of GNU tar's formats for
// these (its manual, "Storing Sparse Files") three are PAX records of a regular file; the fourth has a type of its own.
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
