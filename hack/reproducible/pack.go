package reproducible

import (
	"archive/tar"
	"archive/zip"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"
)

// File is a file in an archive, or a directory if Path ends in "/".
type File struct {
	Path  string
	Data  []byte
	Mode  int64 // 0 means 0644, or 0755 for a directory
	Owner int   // and group
}

func (f File) isDir() bool { return strings.HasSuffix(f.Path, "/") }

func (f File) mode() int64 {
	switch {
	case f.Mode != 0:
		return f.Mode
	case f.isDir():
		return 0o755
	default:
		return 0o644
	}
}

// Tar packs files with their parent directories, without times and owner names.
func Tar(to io.Writer, files []File) error {
	archive := tar.NewWriter(to)
	for _, f := range withParents(files) {
		if err := Add(archive, f); err != nil {
			return err
		}
	}
	return archive.Close()
}

// withParents adds the parent directories of files, each once and before its content.
func withParents(files []File) []File {
	var all []File
	made := map[string]bool{}
	for _, f := range files {
		for _, dir := range parents(f.Path) {
			if !made[dir] {
				made[dir] = true
				all = append(all, File{Path: dir})
			}
		}
		all = append(all, f)
	}
	return all
}

// parents returns the directories above a file or directory, outermost first, each with a trailing "/".
func parents(of string) (dirs []string) {
	for dir := path.Dir(strings.TrimSuffix(of, "/")); dir != "."; dir = path.Dir(dir) {
		dirs = append([]string{dir + "/"}, dirs...)
	}
	return dirs
}

// Add adds a file to an archive as Tar does.
func Add(archive *tar.Writer, f File) error {
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: f.Path, Size: int64(len(f.Data)), Mode: f.mode(), Uid: f.Owner, Gid: f.Owner, Format: tar.FormatUSTAR,
	}
	if f.isDir() {
		header.Typeflag = tar.TypeDir
	}
	err := archive.WriteHeader(header)
	_, writeErr := archive.Write(f.Data)
	return errors.Join(err, writeErr)
}

// earliest is the first time that a zip archive can represent.
var earliest = time.Date(1980, time.January, 1, 0, 0, 0, 0, time.UTC)

// Zip packs files as Tar does, without owners.
func Zip(to io.Writer, files []File) error {
	archive := zip.NewWriter(to)
	for _, f := range withParents(files) {
		header := &zip.FileHeader{Name: f.Path, Method: zip.Deflate, Modified: earliest}
		mode := fs.FileMode(f.mode())
		if f.isDir() {
			mode |= fs.ModeDir
		}
		header.SetMode(mode)
		w, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := w.Write(f.Data); err != nil {
			return err
		}
	}
	return archive.Close()
}
