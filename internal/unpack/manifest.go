package unpack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// maxConfigBytes bounds the image configuration, which is read into memory. Real ones have a few kilobytes.
const maxConfigBytes = 8 << 20

// fetch returns the image that ref names; of an index, the image that choose prefers. The registry client checks each
// manifest against its digest.
func fetch(ctx context.Context, ref name.Digest, opts Options) (v1.Image, error) {
	puller, err := remote.NewPuller(opts.Remote...)
	if err != nil {
		return nil, fmt.Errorf("setting up access to the registry: %w", err)
	}
	descriptor, err := puller.Get(ctx, ref)
	if err != nil {
		return nil, &transferError{"reading the manifest", err}
	}
	if descriptor.MediaType.IsIndex() {
		child, err := chooseFrom(descriptor, opts.platform())
		if err != nil {
			return nil, err
		}
		descriptor, err = puller.Get(ctx, ref.Context().Digest(child.Digest.String()))
		if err != nil {
			return nil, &transferError{fmt.Sprintf("reading the manifest of image %s", child.Digest), err}
		}
	}
	if !descriptor.MediaType.IsImage() {
		return nil, invalidf("its manifest is of type %q; catalogd reads OCI images, and Docker images of schema 2", descriptor.MediaType)
	}
	return descriptor.Image()
}

func chooseFrom(descriptor *remote.Descriptor, own v1.Platform) (v1.Descriptor, error) {
	manifest, err := v1.ParseIndexManifest(bytes.NewReader(descriptor.Manifest))
	if err != nil {
		return v1.Descriptor{}, invalidf("reading the image index: %w", err)
	}
	child, ok := choose(manifest.Manifests, own)
	if !ok {
		return v1.Descriptor{}, invalidf("its image index names no image")
	}
	return child, nil
}

// choose returns the image of an index to unpack: the one for platform own, else that for linux/amd64, else the first.
// Catalog content does not depend on the platform, so any will do. Build attestations, which stand in an index as images
// of an unknown platform, come last.
func choose(children []v1.Descriptor, own v1.Platform) (v1.Descriptor, bool) {
	for _, matches := range []func(v1.Platform) bool{
		func(p v1.Platform) bool { return p.Satisfies(own) },
		func(p v1.Platform) bool { return p.Satisfies(v1.Platform{OS: "linux", Architecture: "amd64"}) },
		func(p v1.Platform) bool { return p.OS != "unknown" },
		func(v1.Platform) bool { return true },
	} {
		for _, child := range children {
			platform := v1.Platform{}
			if child.Platform != nil {
				platform = *child.Platform
			}
			if child.MediaType.IsImage() && matches(platform) {
				return child, true
			}
		}
	}
	return v1.Descriptor{}, false
}

// configDir returns where the catalog lies in the image: the path without a leading slash, "." for the image's root. With
// dir given the image configuration is not read, as an OCI artifact may have none.
func configDir(img v1.Image, manifest *v1.Manifest, dir string) (string, error) {
	if dir == "" {
		if manifest.Config.Size > maxConfigBytes {
			return "", invalidf("its configuration has %d bytes, more than the limit of %d", manifest.Config.Size, maxConfigBytes)
		}
		raw, err := img.RawConfigFile()
		if err != nil {
			return "", &transferError{"reading the image configuration", err}
		}
		config, err := v1.ParseConfigFile(bytes.NewReader(raw))
		if err != nil {
			return "", invalidf("reading the image configuration: %w", err)
		}
		dir = config.Config.Labels[ConfigsLabel]
	}
	if dir == "" {
		return "", invalidf("the image has no label %s, so it does not say where its catalog lies: "+
			"set spec.extractContent.configDir, or build the image with the label", ConfigsLabel)
	}
	return path.Join(".", path.Clean("/" + dir)[1:]), nil
}

// transferError is a failure to get something from the registry. Its text leaves out local ports, which change with each
// attempt, the addresses of redirects, which may carry a token, and the text of replies, which may be a page of HTML.
type transferError struct {
	doing string
	err   error
}

func (e *transferError) Unwrap() error { return e.err }

func (e *transferError) Error() string {
	if answer, ok := errors.AsType[*transport.Error](e.err); ok {
		return fmt.Sprintf("%s: the registry answered %d %s", e.doing, answer.StatusCode, http.StatusText(answer.StatusCode))
	}
	if errors.Is(e.err, io.EOF) || errors.Is(e.err, io.ErrUnexpectedEOF) {
		return fmt.Sprintf("%s: the registry closed the connection too early", e.doing)
	}
	if op, ok := errors.AsType[*net.OpError](e.err); ok {
		return fmt.Sprintf("%s: %v", e.doing, op.Err)
	}
	if request, ok := errors.AsType[*url.Error](e.err); ok {
		return fmt.Sprintf("%s: %v", e.doing, request.Err)
	}
	return fmt.Sprintf("%s: %v", e.doing, e.err)
}
