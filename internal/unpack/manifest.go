package unpack

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/operator-catalogs/catalogd/internal/registry"
)

const (
	// maxNesting is how deep image indexes may lie in one another, and maxIndexes how many of them there may be: none
	// are nested in what the usual tools make.
	maxNesting = 3
	maxIndexes = 16
)

// A fetcher reads manifests. The registry client checks the size of each against a limit of its own.
type fetcher struct {
	puller  *remote.Puller
	ref     name.Digest
	indexes int // read so far
}

// fetch returns the image that ref names; of an index, the image that choose prefers.
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
			return nil, invalidf("its image index names no image")
		}
		if descriptor, err = f.child(ctx, child); err != nil {
			return nil, err
		}
	}
	if !descriptor.MediaType.IsImage() {
		return nil, invalidf("its manifest is of type %q; catalogd reads OCI images, and Docker images of schema 2", descriptor.MediaType)
	}
	return descriptor.Image()
}

// manifest returns a manifest with the media type that it has by its content: no digest covers the header of that name, and
// what it says may be a mirror's fault.
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

// verify checks manifest against its digest, as the registry client does too, but for what a header calls a signed manifest
// of Docker's schema 1: of that it trusts a header to say the digest. The error is worded as the client's, by which
// registry.Explain knows it.
func verify(ref name.Digest, manifest []byte) error {
	want, err := v1.NewHash(ref.DigestStr())
	if err != nil {
		return err
	}
	hasher, err := v1.Hasher(want.Algorithm)
	if err != nil {
		return err
	}
	_, _ = hasher.Write(manifest) // never fails
	if got := hex.EncodeToString(hasher.Sum(nil)); got != want.Hex {
		return fmt.Errorf("manifest digest: %q does not match requested digest: %q", got, want.Hex)
	}
	return nil
}

// mediaType returns what the manifest says that it is (OCI image specification, manifest.md and image-index.md: property
// mediaType, which may be missing), else what it is by its properties.
func mediaType(manifest []byte) (types.MediaType, error) {
	var content struct {
		SchemaVersion                       int
		MediaType                           types.MediaType
		Manifests, Config, Layers, FSLayers json.RawMessage
	}
	if err := json.Unmarshal(manifest, &content); err != nil {
		return "", fmt.Errorf("it is no manifest: %w", err)
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
		return "", errors.New("it is neither that of an image nor that of an image index")
	}
}

func (f *fetcher) child(ctx context.Context, child v1.Descriptor) (*remote.Descriptor, error) {
	ref := f.ref.Context().Digest(child.Digest.String())
	return f.manifest(ctx, ref, fmt.Sprintf("reading the manifest of image %s", child.Digest))
}

// images returns the images of an index, those of the indexes in it included.
func (f *fetcher) images(ctx context.Context, index *remote.Descriptor, depth int) ([]v1.Descriptor, error) {
	if f.indexes++; f.indexes > maxIndexes || depth > maxNesting {
		return nil, invalidf("its image index has other indexes in it, more than %d or more than %d deep: push an index of images", maxIndexes-1, maxNesting-1)
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

// choose returns the image of an index to unpack: the one for platform own, else that for linux/amd64, else the first.
// Catalog content does not depend on the platform, so any will do. Build attestations, which stand in an index as images
// of an unknown platform, come last.
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

// checkBlobs refuses what must not even be fetched. The configuration counts as the layers do: of several blobs of one
// digest, go-containerregistry fetches each as the first of them says.
func checkBlobs(manifest *v1.Manifest, limits Limits) error {
	if err := checkBlob(manifest.Config, limits); err != nil {
		return fmt.Errorf("the image configuration: %w", err)
	}
	for i, layer := range manifest.Layers {
		if err := checkBlob(layer, limits); err != nil {
			return inLayer(manifest, i, err)
		}
	}
	return nil
}

func checkBlob(blob v1.Descriptor, limits Limits) error {
	switch {
	case len(blob.URLs) > 0:
		return invalidf("it lies outside the registry; push the image with all its layers")
	case blob.Size < 0:
		return invalidf("the manifest says that it has %d bytes", blob.Size)
	case blob.Size > limits.TotalBytes: // though little of it may be unpacked, all of it is read
		return exceeded(LimitTotalBytes, limits.TotalBytes, "it has %d bytes", blob.Size)
	default:
		return nil
	}
}

func inLayer(manifest *v1.Manifest, i int, err error) error {
	return fmt.Errorf("layer %d of %d: %w", i+1, len(manifest.Layers), err)
}
