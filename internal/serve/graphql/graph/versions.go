package graph

import (
	"errors"
	"strings"

	"github.com/blang/semver/v4"
)

// The bounds of the text of a range, in bytes: of one that a client gives, which is held against many versions, and of one of a catalog.
// Each of its terms becomes a call within a call. No sound package has a longer one.
const (
	maxVersionRange = 256
	maxSkipRange    = 4096
)

// versionRange reads a client's range; nil if there is none.
func versionRange(text string) (semver.Range, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > maxVersionRange {
		return nil, badInput("versionRange has %d bytes, more than %d", len(text), maxVersionRange)
	}
	holds, err := parseRange(text)
	if err != nil {
		return nil, badInput("versionRange %q is no range of versions, as >=1.2.0 <2.0.0 is one: %v", text, err)
	}
	return holds, nil
}

// parseRange is semver.ParseRange, which takes nothing between two || for a range that panics when it is asked.
func parseRange(text string) (semver.Range, error) {
	for part := range strings.SplitSeq(text, "||") {
		if strings.TrimSpace(part) == "" {
			return nil, errors.New("there is nothing before or behind one of its ||")
		}
	}
	return semver.ParseRange(text)
}
