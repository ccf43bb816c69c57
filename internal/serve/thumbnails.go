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
	// thumbnailSide is the width and the height of thumbnails in pixels, as their path has it.
	thumbnailSide = 80
	// maxThumbnails limits the thumbnails in memory. One takes at most 26 kB; of a known catalog, 4 kB.
	maxThumbnails = 256
)

// thumbnails serves icons by their hashes, at a size for lists. Raster images are shrunk; others are sent unchanged.
type thumbnails struct {
	*sender
	listings  *listing.Cache
	immutable string        // Cache-Control
	making    chan struct{} // holds one value while an icon is read and shrunk, which can take 64 MiB
	known     *lru.Cache    // hash -> []byte; nil: not an image that can be shrunk
}

// send sends the icon with a hash. Its content never changes, whatever the catalog does.
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
		return notFound("no package of catalog %q has an icon with the hash %q; GraphQL has the hashes as Package.iconHash", c.Name, hash)
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
	if body, ok := t.known.Get(hash); ok { // meanwhile
		return thumbnailOf(c, pkg, body.([]byte))
	}
	data, _, err := readIcon(ctx, c, pkg)
	if err != nil {
		return nil, "", err
	}
	if fbc.HashOf(data).String() != hash { // the blob matches its own hash, so the index is wrong
		return nil, "", notFound("the icon of package %q in catalog %q has another hash", pkg, c.Name)
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
		return nil, "", notFound("the icon of package %q in catalog %q is neither an SVG nor a PNG, JPEG, GIF or WebP of up to 25 megapixels; "+
			"GET /catalogs/%[2]s/api/v1/packages/%[1]s/icon has it unchanged", pkg, c.Name)
	}
	return small, "image/png", nil
}
