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

// imageTypes maps the media types of icons to their registered names. Browsers show these types and, with iconPolicy, run
// nothing in them.
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

// iconPolicy keeps an icon that is opened as a page from running scripts or fetching anything: an SVG of a catalog can
// contain scripts.
const iconPolicy = "default-src 'none'; style-src 'unsafe-inline'; sandbox"

// sendIcon sends the icon of a package, or a neutral one if it has none, as packageserver does. Content that does not claim
// to be an image is a download. Parameters are ignored, because pages add their own to bypass caches.
func (s *sender) sendIcon(w http.ResponseWriter, r *http.Request, c store.Catalog) error {
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
	// The tag depends on the icon, not on the digest: most icons outlive many digests.
	return s.sendContent(w, r, s.lastModified(r, c), hashTag([]byte(contentType+"\n"), data), data)
}

// maxIconBlob is the limit in bytes of an olm.package blob whose icon is served, because each request decodes the blob. The
// largest known one has 200 kB.
const maxIconBlob = 2 << 20

// readIcon returns the icon of a package and its claimed media type, both empty if it has none. Browsers keep icons, so the
// checksum of the blob is verified first.
func readIcon(ctx context.Context, c store.Catalog, name string) (data []byte, mediaType string, err error) {
	failed := func(format string, args ...any) error {
		return notFound("reading the icon of package %q in catalog %q: %s", name, c.Name, fmt.Sprintf(format, args...))
	}
	blobs := c.Snapshot.Select(store.Query{Schema: fbc.SchemaPackage, Name: name})
	if blobs.Size() > maxIconBlob {
		return nil, "", failed("the olm.package blob of %d bytes exceeds the limit of %d", blobs.Size(), maxIconBlob)
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
			return nil, "", failed("not an object with the strings base64data and mediatype")
		}
		data, err := base64.StdEncoding.DecodeString(pkg.Icon.Data)
		if err != nil {
			return nil, "", failed("%v", err)
		}
		return data, pkg.Icon.MediaType, nil
	}
	return nil, "", noPackage(c, name)
}

// iconType returns the Content-Type of an icon. It trusts a claimed image type: a wrong one makes a broken picture at worst.
func iconType(data []byte, claimed string) string {
	if claimed == "" {
		claimed = http.DetectContentType(data)
		if isSVG(data) {
			claimed = typeSVG
		}
	}
	mediaType, _, _ := mime.ParseMediaType(claimed) // "" if invalid
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
