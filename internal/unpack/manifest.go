package unpack

import (
	"bytes"
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/operator-catalogs/catalogd/internal/registry"
)

const (
	// maxNesting is how deep image indexes may lie in one another, and maxIndexes how many of them there may be: none
	// are nested in what the usual tools make.
	maxNesting = 3
	maxIndexes = 16
)

// A fetcher reads manifests. The registry client checks each against its digest, and its size against a limit of its own.
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

func (f *fetcher) manifest(ctx context.Context, ref name.Digest, doing string) (*remote.Descriptor, error) {
	descriptor, err := f.puller.Get(ctx, ref)
	if err != nil {
		return nil, registry.Explain(doing, f.ref, err)
	}
	return descriptor, nil
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
