package poll

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/operator-catalogs/catalogd/internal/registry"
)

// Digest returns the reference by digest of the image that ref names now. It asks the registry with one HEAD of the
// manifest and downloads nothing; a ref that is by digest already is returned as it is, without a request.
//
// Each call also opens a session with the registry (GET /v2/, and a token where the registry wants one), unless opts has
// remote.Reuse of a remote.Puller, whose sessions then serve all later calls.
//
// What the registry, or the way to it, is to blame for is a *registry.Error.
func Digest(ctx context.Context, ref name.Reference, opts ...remote.Option) (name.Digest, error) {
	if digest, ok := ref.(name.Digest); ok {
		return digest, nil
	}
	puller, err := remote.NewPuller(opts...)
	if err != nil {
		return name.Digest{}, fmt.Errorf("setting up access to registry %s: %w", ref.Context().RegistryStr(), err)
	}
	descriptor, err := puller.Head(ctx, ref)
	if err != nil {
		return name.Digest{}, registry.Explain("finding the digest of "+ref.String(), ref, err)
	}
	return ref.Context().Digest(descriptor.Digest.String()), nil
}

// Check asks the registry with one HEAD whether it has the image ref, for whoever asks. Errors are those of Digest.
func Check(ctx context.Context, ref name.Digest, opts ...remote.Option) error {
	puller, err := remote.NewPuller(opts...)
	if err != nil {
		return fmt.Errorf("setting up access to registry %s: %w", ref.Context().RegistryStr(), err)
	}
	_, err = puller.Head(ctx, ref)
	return registry.Explain("asking for it", ref, err)
}
