package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/operator-catalogs/catalogd/hack/reproducible"
)

const (
	source = "https://github.com/operator-catalogs/catalogd"
	user   = 65532 // user and group ID that no node uses
)

// Paths in the image.
const (
	binaryPath = "catalogd"
	rootsPath  = "etc/ssl/certs/ca-certificates.crt" // the first path that Go reads
	sbomPath   = "usr/share/doc/catalogd/sbom.cdx.json"
	dataPath   = "var/lib/catalogd"
)

// assemble builds the index of the images of all binaries, by platform.
func assemble(binaries map[string]string, of release) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, text := range slices.Sorted(maps.Keys(binaries)) {
		platform, err := v1.ParsePlatform(text)
		if err != nil {
			return nil, err
		}
		image, err := imageOf(binaries[text], *platform, of)
		if err != nil {
			return nil, fmt.Errorf("making the image for %s: %w", text, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	return mutate.Annotations(index, labels(of)).(v1.ImageIndex), nil
}

// imageOf builds the image of one platform. CA certificates change less often than catalogd, and have their own
// layer.
func imageOf(binary string, platform v1.Platform, of release) (v1.Image, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	bom, err := sbom(binary, of)
	if err != nil {
		return nil, err
	}
	roots, err := roots()
	if err != nil {
		return nil, err
	}
	var layers []mutate.Addendum
	for _, content := range []struct {
		name  string
		files []reproducible.File
	}{
		{"CA certificates", []reproducible.File{{Path: rootsPath, Data: roots}}},
		{
			"catalogd",
			[]reproducible.File{{Path: binaryPath, Data: program, Mode: 0o755}, {Path: sbomPath, Data: bom}, {Path: dataPath + "/", Owner: user}},
		},
	} {
		layer, err := layerOf(content.files)
		if err != nil {
			return nil, fmt.Errorf("packing %s: %w", content.name, err)
		}
		layers = append(layers, mutate.Addendum{
			Layer: layer, History: v1.History{Created: v1.Time{Time: of.created}, CreatedBy: "hack/image: " + content.name},
		})
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	base, err = mutate.ConfigFile(base, &v1.ConfigFile{
		OS:           platform.OS,
		Architecture: platform.Architecture,
		Variant:      platform.Variant,
		Created:      v1.Time{Time: of.created},
		RootFS:       v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:       fmt.Sprintf("%d:%d", user, user),
			Entrypoint: []string{"/" + binaryPath},
			WorkingDir: "/",
			Labels:     labels(of),
		},
	})
	if err != nil {
		return nil, err
	}
	image, err := mutate.Append(base, layers...)
	if err != nil {
		return nil, err
	}
	return mutate.Annotations(image, labels(of)).(v1.Image), nil
}

// labels are annotations of https://specs.opencontainers.org/image-spec/annotations.
func labels(of release) map[string]string {
	all := map[string]string{
		"title":       "catalogd",
		"description": "Keeps catalogs of Kubernetes operators on a cluster and serves their content",
		"url":         source,
		"source":      source,
		"licenses":    "Apache-2.0",
		"version":     of.version,
		"revision":    of.revision,
		"created":     of.created.Format(time.RFC3339),
	}
	prefixed := map[string]string{}
	for name, value := range all {
		if value != "" {
			prefixed["org.opencontainers.image."+name] = value
		}
	}
	return prefixed
}

// layerOf packs files with their parent directories.
func layerOf(files []reproducible.File) (v1.Layer, error) {
	var packed bytes.Buffer
	if err := reproducible.Tar(&packed, files); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.DefaultCompression), tarball.WithCompressedCaching)
}
