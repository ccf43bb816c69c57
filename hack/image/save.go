package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/operator-catalogs/catalogd/hack/reproducible"
)

// repository is the name of the image in manifests.
const repository = "ghcr.io/operator-catalogs/catalogd"

// save overwrites the layout and the archive.
func save(index v1.ImageIndex, opts options) error {
	dir := filepath.Join(opts.out, "image")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("writing the layout: %w", err)
	}
	err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": opts.release.version,
		"io.containerd.image.name":          repository + ":" + opts.release.version,
	}))
	if err != nil {
		return fmt.Errorf("writing the layout: %w", err)
	}
	return pack(os.DirFS(dir), dir+".tar")
}

// pack writes the files of tree to an archive.
func pack(tree fs.FS, to string) (err error) {
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(out)
	defer func() { err = errors.Join(err, archive.Close(), out.Close()) }()
	return fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if entry.IsDir() {
			return reproducible.Add(archive, reproducible.File{Path: name + "/"})
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		return reproducible.Add(archive, reproducible.File{Path: name, Data: data})
	})
}

// push pushes the image of the layout dir to ref.
func push(ctx context.Context, dir, ref string, stdout io.Writer) error {
	tag, err := name.NewTag(ref)
	if err != nil {
		return fmt.Errorf("parsing the image reference: %w; use the form registry.example/catalogd:v1", err)
	}
	all, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return fmt.Errorf("reading the layout: %w; build the image first", err)
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		return err
	}
	if len(manifest.Manifests) != 1 {
		return fmt.Errorf("%s holds %d images, want 1", dir, len(manifest.Manifests))
	}
	index, err := all.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(tag, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("pushing to %s: %w", tag, err)
	}
	_, err = fmt.Fprintln(stdout, tag.Context().Digest(manifest.Manifests[0].Digest.String()))
	return err
}
