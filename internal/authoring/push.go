package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/operator-catalogs/catalogd/internal/registry"
)

// ParseTag reads where to push to: an image reference by tag (without one: latest), with its registry.
func ParseTag(ref string, opts Options) (name.Tag, error) {
	parsed, err := ParseImage(ref, opts)
	if err != nil {
		return name.Tag{}, err
	}
	tag, ok := parsed.(name.Tag)
	switch {
	case !namesRegistry(ref):
		return tag, &ReferenceError{ref, "names no registry: write registry/repository:tag"}
	case !ok:
		return tag, &ReferenceError{ref, "is by digest, which nobody can choose: write registry/repository:tag"}
	}
	return tag, nil
}

// Push pushes an image, as catalogimage builds it, and returns the reference by digest under which it stands there now. Registries of loopback
// addresses may speak plain HTTP.
func Push(ctx context.Context, index v1.ImageIndex, tag name.Tag, opts Options) (name.Digest, error) {
	digest, err := index.Digest()
	if err != nil {
		return name.Digest{}, fmt.Errorf("computing the digest: %w", err)
	}
	updates := make(chan v1.Update, 100)
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		for update := range updates {
			if opts.Progress != nil && update.Error == nil {
				opts.Progress(update.Complete, update.Total)
			}
		}
	}()
	err = remote.WriteIndex(tag, index, append(opts.remote(&meter{}), remote.WithContext(ctx), remote.WithProgress(updates))...)
	<-reported // WriteIndex closes updates on every path
	if err != nil {
		return name.Digest{}, explainPush(tag, err)
	}
	return tag.Context().Digest(digest.String()), nil
}

func explainPush(tag name.Tag, err error) error {
	explained := registry.Explain(fmt.Sprintf("pushing to %s", tag), tag, err)
	answer, ok := errors.AsType[*transport.Error](err)
	switch {
	case !ok:
		return explained
	case answer.StatusCode == http.StatusUnauthorized, answer.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%w; log in first: docker login %s", explained, tag.RegistryStr())
	case answer.StatusCode == http.StatusNotFound && len(answer.Errors) > 0: // as registries say it
		return fmt.Errorf("pushing to %s: registry %s has no repository %s: create it there first", tag, tag.RegistryStr(), tag.RepositoryStr())
	case answer.StatusCode == http.StatusNotFound, answer.StatusCode == http.StatusMethodNotAllowed:
		return fmt.Errorf("pushing to %s: %s does not answer like a registry (%d %s): is it one?", tag, tag.RegistryStr(), answer.StatusCode, http.StatusText(answer.StatusCode))
	}
	return explained
}
