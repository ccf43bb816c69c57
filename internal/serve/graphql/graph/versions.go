package graph

import (
	"github.com/blang/semver/v4"

	"github.com/operator-catalogs/catalogd/internal/channel"
)

// maxVersionRange limits the text of a client's range, in bytes: it is checked against many versions.
const maxVersionRange = 256

// versionRange parses a client's range. An empty text is nil.
func versionRange(text string) (semver.Range, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > maxVersionRange {
		return nil, badInput("versionRange has %d bytes, more than %d", len(text), maxVersionRange)
	}
	contains, err := channel.ParseRange(text)
	if err != nil {
		return nil, badInput("versionRange %q: invalid version range (example: >=1.2.0 <2.0.0): %v", text, err)
	}
	return contains, nil
}
