package local

import (
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/operator-catalogs/catalogd/internal/registry"
)

// A ReferenceError is that of what names no image, wherever that may be.
type ReferenceError struct{ ref, why string }

func (e *ReferenceError) Error() string { return fmt.Sprintf("%q %s", e.ref, e.why) }

// ParseImage reads the reference of an image. All its errors are ReferenceErrors.
func ParseImage(ref string, opts Options) (name.Reference, error) {
	if scheme, _, ok := strings.Cut(ref, "://"); ok {
		return nil, &ReferenceError{ref, fmt.Sprintf("is no image reference: write registry/repository:tag, without %s://", scheme)}
	}
	parsed, err := name.ParseReference(ref, opts.name()...)
	if err != nil || isPath(ref) || strings.HasSuffix(ref, ":") { // the last two of which the parser takes
		return nil, &ReferenceError{ref, "is no image reference: " + registry.ReferenceForm}
	}
	return parsed, nil
}
