package e2e

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-containerregistry/pkg/compression"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

const (
	titleAnnotation  = "org.opencontainers.image.title"
	configsDirectory = "configs" // of the layers that directoryLayer makes
)

// TestImageShapes packs one catalog into images of every shape that catalogs have, in a real registry.
func TestImageShapes(t *testing.T) {
	registry := newDistribution(t, distributionConfig{auth: noAuth, tls: plainHTTP})
	dir := soundWith(t, "one catalog in many shapes")
	blobs, err := readCatalog(dir)
	must.Succeed(t, err)
	catalog, other := directoryLayer(t, dir), catalogImage(t, tinyCatalog(t, "another platform's"))
	shapes := map[string]pushable{
		"docker":       imageOf(t, catalog),
		"oci":          ociImage(t, catalog),
		"zstd":         ociImage(t, compressedLayer(t, dir, compression.ZStd, types.OCILayerZStd)),
		"uncompressed": ociImage(t, compressedLayer(t, dir, compression.None, types.OCIUncompressedLayer)),
		"this-platform": indexOf(t, types.OCIImageIndex, platformImage{"s390x", other},
			platformImage{runtime.GOARCH, ociImage(t, catalog)}),
		"docker-list": indexOf(t, types.DockerManifestList, platformImage{"s390x", other},
			platformImage{runtime.GOARCH, imageOf(t, catalog)}),
		"not-this-platform": indexOf(t, types.OCIImageIndex, platformImage{"s390x", imageOf(t, catalog)}),
		"index-of-indexes":  nestedIndex(t, ociImage(t, catalog)),
		"whiteouts": imageOf(t, layerOf(t, "configs/gone/catalog.json", "configs/hidden/catalog.json"), catalog,
			layerOf(t, "configs/.wh.gone", "configs/hidden/.wh..wh..opq")),
		"artifact-of-archives": artifactOf(t, compressedLayer(t, dir, compression.GZip, "application/vnd.example.catalog.tar+gzip")),
		"artifact-of-files":    artifactOf(t, fileLayers(t, dir)...),
	}
	w := newWorld(t, shared)
	digests := map[string]string{}
	for _, shape := range slices.Sorted(maps.Keys(shapes)) {
		var ref string
		ref, digests[shape] = registry.push(t, "shapes/"+shape, shapes[shape])
		w.createCatalog(t, shape, ref, nil)
	}
	untitled, _ := registry.push(t, "shapes/untitled",
		artifactOf(t, static.NewLayer([]byte(`{"schema":"example.com.text"}`), "application/json")))
	w.createCatalog(t, "untitled", untitled, nil)
	w.waitTogether()
	for _, shape := range slices.Sorted(maps.Keys(shapes)) {
		t.Run(shape, func(t *testing.T) {
			w.waitReady(t, shape, digests[shape])
			checkContent(t, w, shape, blobs)
		})
	}
	t.Run("untitled", func(t *testing.T) { w.waitMessage(t, "untitled", titleAnnotation) })
}

func ociImage(t *testing.T, layers ...v1.Layer) v1.Image {
	t.Helper()
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(image, layers...)
	must.Succeed(t, err)
	image, err = mutate.Config(image, v1.Config{Labels: map[string]string{configsLabel: "/" + configsDirectory}})
	must.Succeed(t, err)
	return image
}

// artifactOf returns an artifact: it has layers, but an empty config.
func artifactOf(t *testing.T, layers ...v1.Layer) v1.Image {
	t.Helper()
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), "application/vnd.oci.empty.v1+json")
	for _, layer := range layers {
		addendum := mutate.Addendum{Layer: layer}
		if file, ok := layer.(titledLayer); ok {
			addendum.Layer, addendum.Annotations = file.Layer, map[string]string{titleAnnotation: file.title}
		}
		var err error
		image, err = mutate.Append(image, addendum)
		must.Succeed(t, err)
	}
	return image
}

// titledLayer is a file as the layer of an artifact, as `oras push` makes it.
type titledLayer struct {
	v1.Layer
	title string
}

// fileLayers returns each file of dir as a layer.
func fileLayers(t *testing.T, dir string) (layers []v1.Layer) {
	t.Helper()
	root := os.DirFS(dir)
	must.Succeed(t, fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(root, name)
		layers = append(layers, titledLayer{static.NewLayer(content, "application/json"), name})
		return err
	}))
	return layers
}

func compressedLayer(t *testing.T, dir string, how compression.Compression, kind types.MediaType) v1.Layer {
	t.Helper()
	file := filepath.Join(t.TempDir(), "layer.tar")
	must.Succeed(t, writeTar(file, dir))
	layer, err := tarball.LayerFromFile(file, tarball.WithCompression(how), tarball.WithMediaType(kind))
	must.Succeed(t, err)
	return layer
}

// layerOf is a layer of files, each with a blob that must not be in the catalog.
func layerOf(t *testing.T, names ...string) v1.Layer {
	t.Helper()
	var buffer bytes.Buffer
	archive := tar.NewWriter(&buffer)
	for _, name := range names {
		content := []byte(`{"schema":"example.com.unwanted"}`)
		must.Succeed(t, archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Typeflag: tar.TypeReg, Size: int64(len(content))}))
		_, err := archive.Write(content)
		must.Succeed(t, err)
	}
	must.Succeed(t, archive.Close())
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buffer.Bytes())), nil })
	must.Succeed(t, err)
	return layer
}

type platformImage struct {
	architecture string
	image        v1.Image
}

func indexOf(t *testing.T, kind types.MediaType, images ...platformImage) v1.ImageIndex {
	t.Helper()
	index := mutate.IndexMediaType(empty.Index, kind)
	for _, p := range images {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: p.image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: p.architecture}}})
	}
	return index
}

func nestedIndex(t *testing.T, image v1.Image) v1.ImageIndex {
	t.Helper()
	inner := indexOf(t, types.OCIImageIndex, platformImage{runtime.GOARCH, image})
	return mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{Add: inner})
}
