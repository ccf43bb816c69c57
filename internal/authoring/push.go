package authoring

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/operator-catalogs/catalogd/internal/registry"
)

// ReferenceError is the error for an invalid image reference.
type ReferenceError struct{ ref, why string }

func (e *ReferenceError) Error() string { return fmt.Sprintf("%q %s", e.ref, e.why) }

// ParseImage parses an image reference. All its errors are ReferenceErrors.
func ParseImage(ref string, opts Options) (name.Reference, error) {
	if scheme, _, ok := strings.Cut(ref, "://"); ok {
		return nil, &ReferenceError{ref, fmt.Sprintf("is not a valid image reference: write registry/repository:tag, without %s://", scheme)}
	}
	parsed, err := name.ParseReference(ref, opts.name()...)
	if err != nil || isPath(ref) || strings.HasSuffix(ref, ":") { // which the parser accepts
		return nil, &ReferenceError{ref, "is not a valid image reference: " + registry.ReferenceForm}
	}
	return parsed, nil
}

// ParseTag parses an image reference with a registry and a tag, latest by default.
func ParseTag(ref string, opts Options) (name.Tag, error) {
	parsed, err := ParseImage(ref, opts)
	if err != nil {
		return name.Tag{}, err
	}
	tag, ok := parsed.(name.Tag)
	switch {
	case !namesRegistry(ref):
		return tag, &ReferenceError{ref, "has no registry: write registry/repository:tag"}
	case !ok:
		return tag, &ReferenceError{ref, "has a digest, but a push needs a tag: write registry/repository:tag"}
	}
	return tag, nil
}

// Push pushes an image of catalogimage. Registries at loopback addresses may use plain HTTP.
func Push(ctx context.Context, index v1.ImageIndex, tag name.Tag, opts Options) error {
	updates := make(chan v1.Update, 100)
	counted := make(chan struct{})
	var done, total atomic.Int64
	go func() {
		defer close(counted)
		for update := range updates {
			if update.Error == nil {
				done.Store(update.Complete)
				total.Store(update.Total)
			}
		}
	}()
	end := opts.watch(func() (int64, int64) { return done.Load(), total.Load() })
	err := remote.WriteIndex(tag, index, append(opts.remote(), remote.WithContext(ctx), remote.WithProgress(updates))...)
	<-counted // WriteIndex closes updates on every path
	end()
	if err != nil {
		return explainPush(tag, err)
	}
	return nil
}

func explainPush(tag name.Tag, err error) error {
	explained := registry.Explain(fmt.Sprintf("pushing to %s", tag), tag, err)
	answer, ok := errors.AsType[*transport.Error](err)
	switch {
	case !ok:
		return explained
	case answer.StatusCode == http.StatusUnauthorized, answer.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%w; log in first: docker login %s", explained, tag.RegistryStr())
	case answer.StatusCode == http.StatusNotFound && len(answer.Errors) > 0: // a registry's reply
		return fmt.Errorf("pushing to %s: registry %s has no repository %s: create it first", tag, tag.RegistryStr(), tag.RepositoryStr())
	case answer.StatusCode == http.StatusNotFound, answer.StatusCode == http.StatusMethodNotAllowed:
		return fmt.Errorf("pushing to %s: %s does not respond like a registry (%d %s)", tag, tag.RegistryStr(), answer.StatusCode,
			http.StatusText(answer.StatusCode))
	}
	return explained
}
