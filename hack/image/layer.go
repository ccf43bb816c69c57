package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// file is what a layer holds: a file, or a directory if path ends in "/".
type file struct {
	path  string
	data  []byte
	mode  int64 // 0: 0644, of a directory 0755
	owner int   // and group
}

// layerOf packs files, with the directories they lie in. No time is in it, nor who packed it.
func layerOf(files []file) (v1.Layer, error) {
	var packed bytes.Buffer
	archive := tar.NewWriter(&packed)
	made := map[string]bool{}
	for _, f := range files {
		for _, dir := range parents(f.path) {
			if !made[dir] {
				made[dir] = true
				if err := add(archive, file{path: dir}); err != nil {
					return nil, err
				}
			}
		}
		if err := add(archive, f); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.DefaultCompression), tarball.WithCompressedCaching)
}

// parents are the directories above a file or directory, outermost first, with a "/" each.
func parents(of string) (dirs []string) {
	for dir := path.Dir(strings.TrimSuffix(of, "/")); dir != "."; dir = path.Dir(dir) {
		dirs = append([]string{dir + "/"}, dirs...)
	}
	return dirs
}

func add(archive *tar.Writer, f file) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: f.path, Size: int64(len(f.data)), Mode: f.mode, Uid: f.owner, Gid: f.owner, Format: tar.FormatUSTAR}
	if strings.HasSuffix(f.path, "/") {
		header.Typeflag = tar.TypeDir
	}
	if f.mode == 0 {
		header.Mode = 0o644
		if header.Typeflag == tar.TypeDir {
			header.Mode = 0o755
		}
	}
	err := archive.WriteHeader(header)
	_, writeErr := archive.Write(f.data)
	return errors.Join(err, writeErr)
}
