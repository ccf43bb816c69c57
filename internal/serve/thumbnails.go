package serve

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"k8s.io/utils/lru"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/serve/listing"
	"github.com/operator-catalogs/catalogd/internal/serve/thumbnail"
	"github.com/operator-catalogs/catalogd/internal/store"
)

const (
	// thumbnailSide is the maximum width and height of thumbnails in pixels. It is part of their path.
	thumbnailSide = 80
	// maxThumbnails limits the thumbnails in memory. Each takes at most 26 kB; in known catalogs, typically 4 kB.
	maxThumbnails = 256
)

// thumbnails serves small icons by hash. It shrinks raster images and sends SVG images unchanged.
type thumbnails struct {
	*sender
	listings  *listing.Cache
	immutable string        // Cache-Control
	making    chan struct{} // semaphore of size 1: shrinking an icon takes up to 64 MiB
	known     *lru.Cache    // hash -> PNG as []byte; nil if shrinking failed
}

// send sends the icon with a hash. The response for a hash never changes.
func (t *thumbnails) send(w http.ResponseWriter, r *http.Request, c store.Catalog) error {
	hash := r.PathValue("hash")
	if _, err := validated([]store.Catalog{c}); err != nil {
		return err
	}
	index, err := t.listings.Of(r.Context(), c.Snapshot)
	if err != nil {
		return fmt.Errorf("reading the packages of catalog %q: %w", c.Name, err)
	}
	pkg, ok := index.WithIcon(hash)
	if !ok {
		return notFound("icon %[2]q not found in catalog %[1]q; Package.iconHash in GraphQL has the hashes", c.Name, hash)
	}
	body, contentType, err := t.read(r.Context(), c, pkg, hash)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Cache-Control", t.immutable)
	h.Set("Content-Type", contentType)
	h.Set("Content-Security-Policy", iconPolicy)
	return t.sendContent(w, r, time.Time{}, hash, body)
}

// read returns the thumbnail of a package's icon and its type.
func (t *thumbnails) read(ctx context.Context, c store.Catalog, pkg, hash string) (body []byte, contentType string, err error) {
	if body, ok := t.known.Get(hash); ok {
		return thumbnailOf(c, pkg, body.([]byte))
	}
	select {
	case <-ctx.Done():
		return nil, "", context.Cause(ctx)
	case t.making <- struct{}{}:
	}
	defer func() { <-t.making }()
	if body, ok := t.known.Get(hash); ok { // made while this request waited
		return thumbnailOf(c, pkg, body.([]byte))
	}
	data, _, err := readIcon(ctx, c, pkg)
	if err != nil {
		return nil, "", err
	}
	if fbc.HashOf(data).String() != hash { // the index is wrong, because the checksum of the blob is verified
		return nil, "", notFound("the hash of the icon of package %q in catalog %q does not match", pkg, c.Name)
	}
	if isSVG(data) {
		return data, typeSVG, nil
	}
	small, err := thumbnail.Make(data, thumbnailSide)
	if err != nil {
		small = nil
	}
	t.known.Add(hash, small)
	return thumbnailOf(c, pkg, small)
}

func thumbnailOf(c store.Catalog, pkg string, small []byte) (body []byte, contentType string, err error) {
	if small == nil {
		return nil, "", notFound("shrinking the icon of package %q in catalog %q: not an SVG, PNG, JPEG, GIF or WebP image "+
			"of at most 25 megapixels; GET /catalogs/%[2]s/api/v1/packages/%[1]s/icon returns it unchanged", pkg, c.Name)
	}
	return small, "image/png", nil
}
