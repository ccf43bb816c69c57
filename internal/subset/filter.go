// Package subset takes packages, channels and versions out of a file-based catalog. What stays is unchanged, byte for byte, but for
// the entries that go and the links that would lead nowhere.
//
// The package has no state, and reads and writes nothing: catalogd filters catalogs with it, and the plugin files.
package subset

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
)

// engineVersion is part of every fingerprint. Raise it if the result of a filter changes: a store has earlier results.
// TestResultMatchesEngineVersion fails if that was forgotten.
const engineVersion = 1

// Filter selects a part of a catalog. The zero Filter selects all of it.
type Filter struct {
	// Include selects packages. All rules of a package count. If there are rules, packages without one go, and so do blobs
	// without a package.
	Include []Include `json:"include,omitempty"`
	// Exclude removes packages, or channels of them, from what Include selects.
	Exclude []Exclude `json:"exclude,omitempty"`
}

// Include selects a package, or a part of it.
type Include struct {
	Package        string   `json:"package"`
	Channels       []string `json:"channels,omitempty"`       // empty: all
	DefaultChannel string   `json:"defaultChannel,omitempty"` // of the result; empty: unchanged
	MinVersion     string   `json:"minVersion,omitempty"`     // of bundles, inclusive
	MaxVersion     string   `json:"maxVersion,omitempty"`
	OnlyHeads      bool     `json:"onlyHeads,omitempty"` // the heads of the channels, within the versions
}

// Exclude removes a package, or channels of it.
type Exclude struct {
	Package        string   `json:"package"`
	Channels       []string `json:"channels,omitempty"`       // empty: the whole package
	DefaultChannel string   `json:"defaultChannel,omitempty"` // of the result; empty: unchanged
}

// IsZero reports whether the filter selects the whole catalog.
func (f Filter) IsZero() bool { return len(f.Include) == 0 && len(f.Exclude) == 0 }

// Validate returns an error about the first invalid rule.
func (f Filter) Validate() error {
	defaults := map[string]string{}
	check := func(pkg, defaultChannel string, channels []string) error {
		switch before := defaults[pkg]; {
		case pkg == "":
			return fmt.Errorf("a rule names no package")
		case slices.Contains(channels, ""):
			return fmt.Errorf("package %q: the name of a channel is empty", pkg)
		case defaultChannel != "" && before != "" && before != defaultChannel:
			return fmt.Errorf("package %q: two rules set different default channels, %q and %q", pkg, before, defaultChannel)
		case defaultChannel != "":
			defaults[pkg] = defaultChannel
		}
		return nil
	}
	for _, r := range f.Include {
		if err := cmp.Or(check(r.Package, r.DefaultChannel, r.Channels), r.checkVersions()); err != nil {
			return err
		}
	}
	for _, r := range f.Exclude {
		if err := check(r.Package, r.DefaultChannel, r.Channels); err != nil {
			return err
		}
	}
	return nil
}

func (r Include) checkVersions() error {
	lowest, highest, err := r.versions()
	switch {
	case err != nil:
		return fmt.Errorf("package %q: %w", r.Package, err)
	case lowest != nil && highest != nil && lowest.GT(*highest):
		return fmt.Errorf("package %q: the lowest version %s is higher than the highest version %s", r.Package, lowest, highest)
	}
	return nil
}

// versions returns the bounds of the versions; nil: none.
func (r Include) versions() (lowest, highest *semver.Version, err error) {
	if lowest, err = parseVersion(r.MinVersion); err == nil {
		highest, err = parseVersion(r.MaxVersion)
	}
	return lowest, highest, err
}

// parseVersion returns nil for an empty text.
func parseVersion(text string) (*semver.Version, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no version is no error
	}
	v, err := semver.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("invalid version %q: %w; write it like 1.2.0", text, err)
	}
	return &v, nil
}

// Fingerprint returns a name for the results of the filter: 32 hex digits. It ignores the order of rules and channels. The zero
// Filter has none.
func (f Filter) Fingerprint() string {
	if f.IsZero() {
		return ""
	}
	text, err := json.Marshal(struct {
		Engine  int             `json:"engine"`
		Include json.RawMessage `json:"include"`
		Exclude json.RawMessage `json:"exclude"`
	}{
		engineVersion,
		sorted(f.Include, func(r *Include) *[]string { return &r.Channels }),
		sorted(f.Exclude, func(r *Exclude) *[]string { return &r.Channels }),
	})
	if err != nil { // strings and numbers only
		panic(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// sorted encodes rules without duplicates, with their channels sorted.
func sorted[R any](rules []R, channels func(*R) *[]string) json.RawMessage {
	var texts [][]byte
	for _, r := range rules {
		c := channels(&r)
		*c = slices.Compact(slices.Sorted(slices.Values(*c)))
		text, _ := json.Marshal(r)
		texts = append(texts, text)
	}
	slices.SortFunc(texts, bytes.Compare)
	texts = slices.CompactFunc(texts, bytes.Equal)
	return slices.Concat([]byte("["), bytes.Join(texts, []byte(",")), []byte("]"))
}

// String returns the rule as Parse reads it, with all its channels.
func (r Include) String() string {
	out := r.Package
	if len(r.Channels) > 0 {
		out += "/" + strings.Join(r.Channels, ",")
	}
	if v := r.Versions(); v != "" {
		out += "@" + v
	}
	return out
}

// Versions returns the versions as Parse reads them; "" if the rule has all of them.
func (r Include) Versions() string {
	switch {
	case r.MinVersion == "" && r.MaxVersion == "" && r.OnlyHeads:
		return heads
	case r.MinVersion == "" && r.MaxVersion == "":
		return ""
	case r.MinVersion == r.MaxVersion:
		return "=" + r.MinVersion
	}
	return r.MinVersion + ".." + r.MaxVersion
}
