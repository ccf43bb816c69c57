package unpack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/operator-catalogs/catalogd/internal/registry"
)

const (
	// maxNesting limits the nesting of image indexes, and maxIndexes their number. The usual tools nest
	// none.
	maxNesting = 3
	maxIndexes = 16
)

// fetcher reads manifests. The registry client limits their size.
type fetcher struct {
	puller  *remote.Puller
	ref     name.Digest
	indexes int // read so far
}

// fetch returns the image ref, or the image of an index that choose prefers.
func fetch(ctx context.Context, ref name.Digest, opts Options) (v1.Image, error) {
	puller, err := remote.NewPuller(opts.Remote...)
	if err != nil {
		return nil, fmt.Errorf("setting up access to the registry: %w", err)
	}
	f := &fetcher{puller: puller, ref: ref}
	descriptor, err := f.manifest(ctx, ref, "reading the manifest")
	if err != nil {
		return nil, err
	}
	if descriptor.MediaType.IsIndex() {
		images, err := f.images(ctx, descriptor, 1)
		if err != nil {
			return nil, err
		}
		child, ok := choose(images, opts.platform())
		if !ok {
			return nil, invalidf("its image index lists no image")
		}
		if descriptor, err = f.child(ctx, child); err != nil {
			return nil, err
		}
	}
	if !descriptor.MediaType.IsImage() {
		return nil, invalidf("its manifest has the unsupported type %q; supported are OCI images and Docker images of schema 2",
			descriptor.MediaType)
	}
	return descriptor.Image()
}

// manifest returns a manifest with the media type of its content. The header of that name is not covered by the
// digest, so a mirror may get it wrong.
func (f *fetcher) manifest(ctx context.Context, ref name.Digest, doing string) (*remote.Descriptor, error) {
	descriptor, err := f.puller.Get(ctx, ref)
	if err == nil {
		err = verify(ref, descriptor.Manifest)
	}
	if err != nil {
		return nil, registry.Explain(doing, f.ref, err)
	}
	if descriptor.MediaType, err = mediaType(descriptor.Manifest); err != nil {
		return nil, invalidf("%s: %w", doing, err)
	}
	return descriptor, nil
}

// verify checks manifest against its digest. The registry client does so too, except for signed manifests of
// Docker's schema 1, where it trusts a header. The error has the client's wording, which registry.Explain
// matches.
func verify(ref name.Digest, manifest []byte) error {
	got, _, err := v1.SHA256(bytes.NewReader(manifest))
	if err == nil && got.String() != ref.DigestStr() {
		err = fmt.Errorf("manifest digest: %q does not match requested digest: %q", got, ref.DigestStr())
	}
	return err
}

// mediaType returns the manifest's property mediaType (OCI image specification, manifest.md and image-index.md),
// or derives it from other properties if it is missing.
func mediaType(manifest []byte) (types.MediaType, error) {
	var content struct {
		SchemaVersion                       int
		MediaType                           types.MediaType
		Manifests, Config, Layers, FSLayers json.RawMessage
	}
	if err := json.Unmarshal(manifest, &content); err != nil {
		return "", fmt.Errorf("it is not a manifest: %w", err)
	}
	switch {
	case content.MediaType != "":
		return content.MediaType, nil
	case content.SchemaVersion == 1 || content.FSLayers != nil:
		return types.DockerManifestSchema1, nil
	case content.Manifests != nil:
		return types.OCIImageIndex, nil
	case content.Config != nil || content.Layers != nil:
		return types.OCIManifestSchema1, nil
	default:
		return "", errors.New("it is neither an image manifest nor an image index")
	}
}

func (f *fetcher) child(ctx context.Context, child v1.Descriptor) (*remote.Descriptor, error) {
	ref := f.ref.Context().Digest(child.Digest.String())
	return f.manifest(ctx, ref, fmt.Sprintf("reading the manifest of image %s", child.Digest))
}

// images returns the images of an index, including those of nested indexes.
func (f *fetcher) images(ctx context.Context, index *remote.Descriptor, depth int) ([]v1.Descriptor, error) {
	if f.indexes++; f.indexes > maxIndexes || depth > maxNesting {
		return nil, invalidf("its image index nests more than %d indexes, or more than %d levels: push an index of images", maxIndexes-1,
			maxNesting-1)
	}
	manifest, err := v1.ParseIndexManifest(bytes.NewReader(index.Manifest))
	if err != nil {
		return nil, invalidf("reading the image index: %w", err)
	}
	var images []v1.Descriptor
	for _, child := range manifest.Manifests {
		switch {
		case child.MediaType.IsImage():
			images = append(images, child)
		case child.MediaType.IsIndex():
			nested, err := f.child(ctx, child)
			if err != nil {
				return nil, err
			}
			below, err := f.images(ctx, nested, depth+1)
			if err != nil {
				return nil, err
			}
			images = append(images, below...)
		}
	}
	return images, nil
}

// choose returns the image of an index to unpack: the one for platform own, else for linux/amd64, else the
// first. Catalog content does not depend on the platform. Build attestations, which are listed as images of an
// unknown platform, come last.
func choose(images []v1.Descriptor, own v1.Platform) (v1.Descriptor, bool) {
	for _, matches := range []func(v1.Platform) bool{
		func(p v1.Platform) bool { return p.Satisfies(own) },
		func(p v1.Platform) bool { return p.Satisfies(v1.Platform{OS: "linux", Architecture: "amd64"}) },
		func(p v1.Platform) bool { return p.OS != "unknown" },
		func(v1.Platform) bool { return true },
	} {
		for _, image := range images {
			platform := v1.Platform{}
			if image.Platform != nil {
				platform = *image.Platform
			}
			if matches(platform) {
				return image, true
			}
		}
	}
	return v1.Descriptor{}, false
}

// checkBlobs refuses blobs before they are fetched. It checks the configuration like a layer: of several blobs
// with one digest, go-containerregistry fetches each with the descriptor of the first.
func checkBlobs(manifest *v1.Manifest, limits Limits) error {
	if err := checkBlob(manifest.Config, limits); err != nil {
		return fmt.Errorf("the image configuration: %w", err)
	}
	if limits.Layers > 0 && len(manifest.Layers) > limits.Layers {
		return invalidf("it has %d layers, which exceeds the limit of %d", len(manifest.Layers), limits.Layers)
	}
	total := int64(0)
	for i, layer := range manifest.Layers {
		if err := checkBlob(layer, limits); err != nil {
			return inLayer(manifest, i, err)
		}
		total += layer.Size
	}
	if limits.ImageBytes > 0 && total > limits.ImageBytes {
		return invalidf("its layers have %d bytes together, which exceeds the limit of %d", total, limits.ImageBytes)
	}
	return nil
}

func checkBlob(blob v1.Descriptor, limits Limits) error {
	switch {
	case len(blob.URLs) > 0:
		return invalidf("it is stored outside the registry: push the image with all its layers")
	case blob.Size < 0:
		return invalidf("its size in the manifest is %d bytes", blob.Size)
	case limits.ImageBytes > 0 && blob.Size > limits.ImageBytes:
		return invalidf("it has %d bytes, which exceeds the limit of %d", blob.Size, limits.ImageBytes)
	case limits.ImageBytes == 0 && blob.Size > limits.TotalBytes: // all of it is read, even if little is unpacked
		return exceeded(LimitTotalBytes, limits.TotalBytes, "it has %d bytes", blob.Size)
	default:
		return nil
	}
}

func inLayer(manifest *v1.Manifest, i int, err error) error {
	return fmt.Errorf("layer %d of %d: %w", i+1, len(manifest.Layers), err)
}

// maxConfigBytes limits the image configuration, which is read into memory. Real ones have a few kilobytes.
const maxConfigBytes = 8 << 20

// location is the place of the catalog in an image. Paths have no leading slash; "." is the image's root.
type location struct {
	dir      string // directory of the catalog files, or of the database
	database string // path of the SQLite database, a direct child of dir; "": dir has catalog files
	artifact bool   // an OCI artifact, whose layers may be single files

	only []string // directories; nothing else below dir is unpacked. nil: everything is
}

// locate finds the catalog: in configDir, else where the image's labels point. With a configDir, or for an
// artifact, it does not read the image configuration. An artifact without annotation is a catalog as a whole.
func locate(ref name.Digest, img v1.Image, manifest *v1.Manifest, configDir string) (location, error) {
	artifact := isArtifact(manifest)
	switch {
	case configDir != "":
		return location{dir: inImage(configDir), artifact: artifact}, nil
	case artifact:
		return location{dir: inImage(manifest.Annotations[ConfigsLabel]), artifact: true}, nil
	}
	labels, err := labels(ref, img, manifest)
	if err != nil {
		return location{}, err
	}
	configs, database := labels[ConfigsLabel], labels[DatabaseLabel]
	switch {
	case configs != "":
		return location{dir: inImage(configs)}, nil
	case database == "":
		return location{}, misplacedf("the image has neither label %s nor %s, so the location of its catalog is unknown: "+
			"set spec.extractContent.configDir, or build the image with the first label", ConfigsLabel, DatabaseLabel)
	}
	file := inImage(database)
	if file == "." {
		return location{}, invalidf("the label %s of the image is %q, which is not a file name: correct it", DatabaseLabel, database)
	}
	return location{dir: path.Dir(file), database: file}, nil
}

// isArtifact distinguishes artifacts from images (OCI image specification, manifest.md, "Guidelines for Artifact
// Usage").
func isArtifact(manifest *v1.Manifest) bool {
	return manifest.ArtifactType != "" || !manifest.Config.MediaType.IsConfig()
}

// labels reads the image configuration.
func labels(ref name.Digest, img v1.Image, manifest *v1.Manifest) (map[string]string, error) {
	if manifest.Config.Size > maxConfigBytes {
		return nil, invalidf("its configuration has %d bytes, which exceeds the limit of %d", manifest.Config.Size, maxConfigBytes)
	}
	raw, err := img.RawConfigFile()
	if err != nil {
		return nil, registry.Explain("reading the image configuration", ref, err)
	}
	var config struct { // a v1.ConfigFile takes a hundred times the size of some
		Config struct {
			Labels map[string]string `json:"Labels"`
		} `json:"config"`
	}
	if err := json.Unmarshal(raw, &config); err != nil {
		return nil, invalidf("reading the image configuration: %w", err)
	}
	return config.Config.Labels, nil
}

// inImage converts a path from an admin or a label to a path in the image; "" is the root.
func inImage(name string) string {
	return path.Join(".", path.Clean("/" + name)[1:])
}
