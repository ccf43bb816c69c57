package node

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/operator-catalogs/catalogd/internal/catalogimage"
	"github.com/operator-catalogs/catalogd/internal/testing/catalogs"
)

// daemonImages returns the image that `make image` built, and one that differs in a label, as the target of a
// rollout.
func daemonImages(dir string) (current, other v1.Image, err error) {
	built, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, nil, err
	}
	index, err := partial.FindIndexes(built, func(v1.Descriptor) bool { return true })
	if err != nil || len(index) != 1 {
		return nil, nil, fmt.Errorf("%s has %d indexes, want one: %w", dir, len(index), err)
	}
	images, err := partial.FindImages(index[0], match.Platforms(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	if err != nil || len(images) != 1 {
		return nil, nil, fmt.Errorf("%s has %d images for %s, want one: %w", dir, len(images), runtime.GOARCH, err)
	}
	file, err := images[0].ConfigFile()
	if err != nil {
		return nil, nil, err
	}
	config := file.DeepCopy().Config
	config.Labels = map[string]string{"e2e": "other"}
	other, err = mutate.Config(images[0], config)
	return images[0], other, err
}

// oneBinary builds an image that contains only the binary.
func oneBinary(binary string) (v1.Image, error) {
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Name: filepath.Base(binary), Mode: 0o755, Size: int64(len(content))}); err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil })
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Config = v1.Config{Entrypoint: []string{"/" + filepath.Base(binary)}}
	return mutate.ConfigFile(img, file)
}

// pushCatalogs pushes nine small catalogs, which are the sample and variations of it, and a large one.
func (i *installation) pushCatalogs(ctx context.Context) error {
	for n := range 9 {
		name := fmt.Sprintf("small-%d", n+1)
		dir := filepath.Join(i.dir, "catalogs", name)
		if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "config", "samples", "catalog", "configs"))); err != nil {
			return err
		}
		variation := fmt.Sprintf(`{"schema": "example.com.variation", "name": %q}`, name)
		if err := os.WriteFile(filepath.Join(dir, "variation.json"), []byte(variation), 0o644); err != nil {
			return err
		}
		if _, err := i.pushCatalog(ctx, name, dir); err != nil {
			return err
		}
		i.catalogs = append(i.catalogs, name)
	}
	dir := os.Getenv("COMMUNITY_CATALOG")
	if dir == "" {
		dir = filepath.Join(i.dir, "catalogs", "community")
		if err := writeCatalog(ctx, catalogs.Scaled(1000), dir); err != nil { // a third of the community catalog
			return err
		}
	}
	i.catalogs = append(i.catalogs, "community")
	_, err := i.pushCatalog(ctx, "community", dir)
	return err
}

// pushCatalog pushes a catalog and returns its digest.
func (i *installation) pushCatalog(ctx context.Context, name, dir string) (string, error) {
	index, err := catalogimage.Build(dir)
	if err != nil {
		return "", err
	}
	digest, err := index.Digest()
	if err != nil {
		return "", err
	}
	return digest.String(), i.push(ctx, index, "catalogs/"+name+":latest")
}

func writeCatalog(ctx context.Context, shape catalogs.Shape, dir string) error {
	return shape.Files(ctx, func(f catalogs.File) error {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, f.Content, 0o644)
	})
}
