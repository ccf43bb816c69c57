// Package reproducible builds release artifacts: the same source and the same Go give the same bytes.
package reproducible

import (
	"archive/tar"
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"time"
)

// Settled are the settings of Go that affect the bytes of a program.
var Settled = []string{
	"GOFLAGS=-trimpath -buildvcs=false", "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOPPC64=power8", "GOFIPS140=off", "GOEXPERIMENT=",
}

// Compile builds cmd/NAME of this module as a static, stripped program with its version.
func Compile(ctx context.Context, name, system, arch, version, to string, stderr io.Writer) error {
	program := "github.com/operator-catalogs/catalogd/cmd/" + name
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w -X main.version="+version, "-o", to, program)
	cmd.Env = slices.Concat(os.Environ(), Settled, []string{"GOOS=" + system, "GOARCH=" + arch})
	cmd.Stderr = stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("compiling %s for %s/%s: %w", name, system, arch, err)
	}
	return nil
}

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
