package serve

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/store"
)

//go:embed default-icon.svg
var defaultIcon []byte

const (
	typeSVG   = "image/svg+xml"
	typeBytes = "application/octet-stream"
)

// imageTypes are the media types that an icon is served as: images which browsers show and, under
// iconPolicy, cannot run. The value is the registered name, since catalogs spell some otherwise.
var imageTypes = map[string]string{
	typeSVG:                    typeSVG,
	"image/svg":                typeSVG,
	"image/png":                "image/png",
	"image/apng":               "image/apng",
	"image/jpeg":               "image/jpeg",
	"image/jpg":                "image/jpeg",
	"image/gif":                "image/gif",
	"image/webp":               "image/webp",
	"image/avif":               "image/avif",
	"image/bmp":                "image/bmp",
	"image/x-icon":             "image/x-icon",
	"image/vnd.microsoft.icon": "image/vnd.microsoft.icon",
}

// iconPolicy keeps an icon that is opened as a page of its own from running scripts or fetching
// anything: anyone who can write a catalog can put scripts into an SVG.
const iconPolicy = "default-src 'none'; style-src 'unsafe-inline'; sandbox"

// serveIcon serves the decoded icon of a package, or a neutral one if it has none, as packageserver
// does. What does not claim to be an image is offered as a download. An icon that is not base64
// is a 404 that says so. Parameters are ignored: pages add their own to get past caches.
func (s *server) serveIcon(w http.ResponseWriter, r *http.Request, c store.Catalog) error {
	name := r.PathValue("package")
	data, mediaType, err := readIcon(r.Context(), c, name)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		data, mediaType = defaultIcon, typeSVG
	}
	contentType := iconType(data, mediaType)
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Security-Policy", iconPolicy)
	if contentType == typeBytes {
		h.Set("Content-Disposition", "attachment")
	}
	// The tag follows the icon, not the catalog's digest: most icons outlive many digests.
	return s.serveBytes(w, r, c.Since, hashTag([]byte(contentType+"\n"), data), data)
}

// maxIconBlob bounds the olm.package blob of which an icon is served, since each request decodes it. The largest known one
// has 200 kB.
const maxIconBlob = 2 << 20

// readIcon returns the icon of the package's olm.package blob and the media type it claims, both
// empty if it has none. Browsers keep icons, so the blob is compared with its checksum first, which costs less than decoding it.
func readIcon(ctx context.Context, c store.Catalog, name string) (data []byte, mediaType string, err error) {
	blobs := c.Snapshot.Select(store.Query{Schema: fbc.SchemaPackage, Name: name})
	if blobs.Size() > maxIconBlob {
		return nil, "", notFound("the icon of package %q in catalog %q is not served: its olm.package blob has %d bytes, more than %d",
			name, c.Name, blobs.Size(), maxIconBlob)
	}
	for blob, err := range blobs.Verified(ctx) {
		if err != nil {
			return nil, "", fmt.Errorf("reading package %q of catalog %q: %w", name, c.Name, err)
		}
		var pkg struct {
			Icon struct {
				Data      string `json:"base64data"`
				MediaType string `json:"mediatype"`
			} `json:"icon"`
		}
		if err := json.Unmarshal(blob, &pkg); err != nil {
			return nil, "", notFound("the icon of package %q in catalog %q cannot be read: "+
				"it is no object with the strings base64data and mediatype", name, c.Name)
		}
		data, err := base64.StdEncoding.DecodeString(pkg.Icon.Data)
		if err != nil {
			return nil, "", notFound("the icon of package %q in catalog %q cannot be read: %v", name, c.Name, err)
		}
		return data, pkg.Icon.MediaType, nil
	}
	return nil, "", noPackage(c, name)
}

// iconType decides what the icon is served as. A claim is believed, as long as it is an image's; a
// wrong one makes a broken picture at worst. Without a claim the content is looked at.
func iconType(data []byte, claimed string) string {
	if claimed == "" {
		claimed = http.DetectContentType(data)
		if isSVG(data) {
			claimed = typeSVG
		}
	}
	mediaType, _, _ := mime.ParseMediaType(claimed) // "" if it is none
	if known, ok := imageTypes[mediaType]; ok {
		return known
	}
	return typeBytes
}

// isSVG reports whether data is XML whose root element is svg.
func isSVG(data []byte) bool {
	d := xml.NewDecoder(bytes.NewReader(data)) //nolint:gosec // G709: only tokens are read; nothing is made of them
	d.CharsetReader = func(_ string, input io.Reader) (io.Reader, error) { return input, nil }
	for {
		token, err := d.Token()
		if err != nil {
			return false
		}
		if root, ok := token.(xml.StartElement); ok {
			return root.Name.Local == "svg"
		}
	}
}
