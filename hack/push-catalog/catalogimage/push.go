package catalogimage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// progressInterval is the least time between two lines of progress.
const progressInterval = 2 * time.Second

// Push builds the image of the catalog directory dir, pushes it to ref (an image reference by tag; without one, "latest")
// and returns the reference by digest under which it now stands there. Loopback registries are spoken to in plain HTTP.
// Credentials are those of `docker login`. What it is doing goes to progress, a line each.
func Push(ctx context.Context, dir, ref string, progress io.Writer) (name.Digest, error) {
	tag, err := name.NewTag(ref)
	if err != nil {
		return name.Digest{}, fmt.Errorf("reading the image reference: %w; write it like 127.0.0.1:5005/catalogs/mine:latest", err)
	}
	fmt.Fprintf(progress, "packing %s\n", dir)
	img, err := Build(dir)
	if err != nil {
		return name.Digest{}, err
	}
	digest, err := img.Digest()
	if err != nil {
		return name.Digest{}, fmt.Errorf("computing the digest: %w", err)
	}
	if err := write(ctx, tag, img, progress); err != nil {
		return name.Digest{}, err
	}
	return tag.Context().Digest(digest.String()), nil
}

func write(ctx context.Context, tag name.Tag, img v1.Image, progress io.Writer) error {
	updates := make(chan v1.Update, 100)
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		report(updates, tag, progress)
	}()
	err := remote.Write(tag, img, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithProgress(updates))
	<-reported // remote.Write closes updates on every path
	if err != nil {
		return fmt.Errorf("pushing to %s: %w%s", tag, err, remedy(tag, err))
	}
	return nil
}

// report tells how far a push is that takes a while; a short one is told by its result.
func report(updates <-chan v1.Update, tag name.Tag, progress io.Writer) {
	last := time.Now()
	for update := range updates {
		if update.Error == nil && time.Since(last) >= progressInterval {
			fmt.Fprintf(progress, "pushing to %s: %.1f of %.1f MB\n", tag, float64(update.Complete)/1e6, float64(update.Total)/1e6)
			last = time.Now()
		}
	}
}

func remedy(tag name.Tag, err error) string {
	var answer *transport.Error
	switch {
	case !errors.As(err, &answer):
		return fmt.Sprintf("; does a registry listen at %s?", tag.RegistryStr())
	case answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden:
		return fmt.Sprintf("; log in first: docker login %s", tag.RegistryStr())
	default:
		return ""
	}
}
