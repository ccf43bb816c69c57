package poll

import (
	"context"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/operator-catalogs/catalogd/internal/registry"
)

// Digest returns the current digest reference of the image ref. It sends one HEAD request for the manifest and
// downloads nothing. A ref by digest is returned as is, without a request.
//
// Each call also opens a session with the registry (GET /v2/, and a token if required), unless opts contain
// remote.Reuse of a remote.Puller, whose sessions serve all later calls.
//
// A failure of the registry, or on the way to it, is a *registry.Error.
func Digest(ctx context.Context, ref name.Reference, opts ...remote.Option) (name.Digest, error) {
	if digest, ok := ref.(name.Digest); ok {
		return digest, nil
	}
	descriptor, err := remote.Head(ref, append([]remote.Option{remote.WithContext(ctx)}, opts...)...)
	if err != nil {
		return name.Digest{}, registry.Explain("finding the digest of "+ref.String(), ref, err)
	}
	return ref.Context().Digest(descriptor.Digest.String()), nil
}

// Check returns nil if the registry returns the image ref to this caller. It sends one HEAD request. Errors are
// those of Digest.
func Check(ctx context.Context, ref name.Digest, opts ...remote.Option) error {
	_, err := remote.Head(ref, append([]remote.Option{remote.WithContext(ctx)}, opts...)...)
	return registry.Explain("requesting the manifest", ref, err)
}
