package bundle

import "github.com/google/go-containerregistry/pkg/name"

// Request asks for the content of a bundle of a catalog.
type Request struct {
	Catalog string
	Owner   string // identifies the object of the catalog: another one of its name does not get the cached bundles
	Package string
	Image   string
}

// IsPinned reports whether a reference names an image by its digest.
func IsPinned(image string) bool {
	_, err := name.NewDigest(image)
	return err == nil
}

// Reason classifies an Error.
type Reason string

// The reasons of an Error.
const (
	Forbidden Reason = "Forbidden" // the registry is not allowed
	Invalid   Reason = "Invalid"   // the image is no bundle, or exceeds a limit
	Registry  Reason = "Registry"  // the registry or the connection to it failed
	Pending   Reason = "Pending"   // the pull goes on; ask again
	Busy      Reason = "Busy"      // the user causes too many pulls
	NoRoom    Reason = "NoRoom"    // the volume or the cache has no room
	NotCached Reason = "NotCached" // the image is not cached, and the request must not pull it
	NotReady  Reason = "NotReady"  // the API server, which has the credentials, cannot be asked
)

// Error reports why the content is unavailable. Its text is for clients.
type Error struct {
	Reason Reason
	Text   string
	Cause  error // may be nil
}

func (e *Error) Error() string { return e.Text }

// Unwrap returns the cause, or nil.
func (e *Error) Unwrap() error { return e.Cause }
