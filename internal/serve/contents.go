package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/operator-catalogs/catalogd/internal/bundle"
	"github.com/operator-catalogs/catalogd/internal/limit"
	"github.com/operator-catalogs/catalogd/internal/serve/graphql/graph"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// maxImages limits the bundle images of one GraphQL query, each of which is an open file.
const maxImages = 20

// contents opens the content of bundles for a GraphQL query. A query holds a slot, so it must not wait for a registry: it notes what
// must be pulled, and runs again after that.
type contents struct {
	bundles  *bundles
	w        http.ResponseWriter
	r        *http.Request
	catalogs []store.Catalog

	mu     sync.Mutex
	images map[bundle.Request]*pulled
}

// pulled is a bundle image of a query.
type pulled struct {
	user    string
	wanted  bool // it must be pulled, or checked
	archive *bundle.Archive
	err     error
}

// open returns the content of a bundle.
func (c *contents) open(catalog string, of bundle.Blob) (*bundle.Archive, error) {
	if of.HasContent() {
		archive, err := of.Archive()
		return archive, graphError(bundleError(err))
	}
	i := slices.IndexFunc(c.catalogs, func(served store.Catalog) bool { return served.Name == catalog })
	c.mu.Lock()
	defer c.mu.Unlock()
	request, user, err := c.bundles.request(c.w, c.r, c.catalogs[i], of)
	if err != nil {
		return nil, graphError(err)
	}
	image, ok := c.images[request]
	if !ok {
		if len(c.images) == maxImages {
			return nil, &graph.Error{Code: graph.CodeLimit, Message: fmt.Sprintf(
				"the query reads more than %d bundle images; use a smaller \"first\", or select fewer bundles", maxImages)}
		}
		image = &pulled{user: user}
		image.archive, image.err = c.bundles.images.Cached(request)
		image.wanted = c.r.Method != http.MethodHead && (image.err != nil || !bundle.IsPinned(request.Image))
		c.images[request] = image
	}
	return image.archive, graphError(bundleError(image.err))
}

// fetch pulls what the query lacks. It reports whether the query must run again.
func (c *contents) fetch(ctx context.Context) (again bool) {
	var pulls sync.WaitGroup
	for request, image := range c.images {
		if !image.wanted {
			continue
		}
		again, image.wanted = true, false
		pulls.Go(func() {
			if image.archive != nil {
				_ = image.archive.Close() // only read
			}
			image.archive, image.err = c.bundles.images.Fetch(ctx, request, image.user)
		})
	}
	pulls.Wait()
	return again
}

// close closes all images.
func (c *contents) close() {
	for _, image := range c.images {
		if image.archive != nil {
			_ = image.archive.Close() // only read
		}
	}
}

// graphError returns an error for clients of GraphQL.
func graphError(err error) error {
	known, ok := errors.AsType[*statusError](err)
	if exceeded, isLimit := errors.AsType[*limit.ExceededError](err); isLimit {
		known, ok = tooManyRequests(exceeded), true
	}
	if !ok {
		return err
	}
	code := map[int]string{
		http.StatusForbidden: graph.CodeForbidden, http.StatusNotFound: graph.CodeNotFound, http.StatusUnprocessableEntity: graph.CodeContent,
		http.StatusBadGateway: graph.CodeRegistry, http.StatusTooManyRequests: graph.CodeBusy,
	}[known.code]
	if code == "" {
		code = graph.CodeUnavailable
	}
	return &graph.Error{Code: code, Message: known.text}
}
