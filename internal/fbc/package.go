package fbc

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/model"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// propertyDeprecated marks a bundle that an old index deprecated. opm keeps it; lists omit it.
const propertyDeprecated = "olm.deprecated"

// Package is the content of a valid package.
type Package struct {
	Name           string
	Description    string
	DefaultChannel string // the name of one of Channels
	Deprecation    string // the message; empty if it is not deprecated
	HasIcon        bool
	IconHash       string // hash of the image in hex; empty if the package has no icon
	Channels       []Channel
}

// Channel is a channel of a package, which has them sorted by name.
type Channel struct {
	Name        string
	Head        string // the only bundle that no other entry of the channel replaces or skips
	Deprecation string
	Entries     []Entry // highest version first
}

// Entry is a bundle of a channel. Bundles with the property olm.deprecated are not entries.
type Entry struct {
	Name        string
	Version     string // semver 2.0
	Deprecation string
}

// InvalidPackageError is the error for an invalid package. It does not affect other packages of the catalog.
type InvalidPackageError struct {
	Name   string
	Reason string // one line
}

func (e *InvalidPackageError) Error() string {
	return fmt.Sprintf("invalid package %q: %s", e.Name, e.Reason)
}

// PackageOf returns the package of a blob with the given schema, package and name (or values that represent
// them), and whether it must have one: blobs of OLM's schemas must, custom ones may.
func PackageOf[T any](schema string, pkg, name T) (of T, required bool) {
	if schema == SchemaPackage {
		return name, true
	}
	return pkg, !IsCustom(schema)
}

// LoadPackage reads a package from its blobs (compact JSON; custom ones are skipped) and validates it by the
// rules of operator-registry's model. An invalid package is an *InvalidPackageError. LoadPackage returns an
// error of blobs unchanged. It keeps only the bundle data that the rules need, so the largest blob determines memory use.
func LoadPackage(name string, blobs iter.Seq2[[]byte, error]) (*Package, error) {
	var l loader
	for blob, err := range blobs {
		if err != nil {
			return nil, err
		}
		if err := l.add(blob); err != nil {
			return nil, invalid(name, err)
		}
	}
	if err := checkDefaultChannel(&l.cfg); err != nil {
		return nil, invalid(name, err)
	}
	m, err := declcfg.ConvertToModel(l.cfg)
	if err != nil {
		return nil, invalid(name, err)
	}
	pkg, ok := m[name]
	if !ok {
		return nil, invalid(name, fmt.Errorf("olm.package blob not found"))
	}
	return fromModel(pkg)
}

// CheckBlob returns an error if a blob (compact JSON) does not fit its schema. Custom blobs are always valid.
// LoadPackage calls it for each blob.
func CheckBlob(blob []byte) error {
	var l loader
	return l.add(blob)
}

// checkDefaultChannel precedes the check of the model, which reports an empty channel instead.
func checkDefaultChannel(cfg *declcfg.DeclarativeConfig) error {
	for _, p := range cfg.Packages {
		known := slices.ContainsFunc(cfg.Channels, func(ch declcfg.Channel) bool { return ch.Name == p.DefaultChannel })
		if p.Name != "" && p.DefaultChannel != "" && !known {
			return fmt.Errorf("default channel %q not found", p.DefaultChannel)
		}
	}
	return nil
}

// MaxEntries limits the entries of a channel, because the model's check of the replaces chain takes quadratic
// memory. The largest known channel has a few hundred.
const MaxEntries = 2000

// loader collects the blobs of a package.
type loader struct {
	cfg declcfg.DeclarativeConfig
}

func (l *loader) add(blob []byte) error {
	k, err := scan.ParseBlob(blob)
	if err != nil || IsCustom(k.Schema) {
		return err
	}
	if err := CheckValues(blob); err != nil {
		return err
	}
	if k.Schema == SchemaBundle {
		b, err := loadBundle(blob)
		l.cfg.Bundles = append(l.cfg.Bundles, b)
		return err
	}
	one, err := declcfg.LoadSlice([]*declcfg.Meta{{Schema: k.Schema, Package: k.Package, Name: k.Name, Blob: blob}})
	if err != nil {
		return err
	}
	for _, ch := range one.Channels {
		if err := checkEntries(ch); err != nil {
			return err
		}
	}
	for i := range one.Packages {
		if icon := one.Packages[i].Icon; icon != nil && len(icon.Data) > 0 {
			hash := HashOf(icon.Data)
			icon.Data = hash[:] // replaces the image; decoding has validated it
		}
	}
	l.cfg.Merge(one)
	return nil
}

func checkEntries(ch declcfg.Channel) error {
	if len(ch.Entries) > MaxEntries {
		return fmt.Errorf("channel %q has %d entries, which exceeds the limit of %d", ch.Name, len(ch.Entries), MaxEntries)
	}
	for _, e := range ch.Entries {
		if n := len(e.SkipRange); n > maxRangeBytes {
			return fmt.Errorf("channel %q: the skipRange of entry %q has %d bytes, which exceeds the limit of %d", ch.Name, e.Name, n, maxRangeBytes)
		}
	}
	return nil
}

func fromModel(m *model.Package) (*Package, error) {
	p := &Package{
		Name:           m.Name,
		Description:    m.Description,
		DefaultChannel: m.DefaultChannel.Name,
		Deprecation:    message(m.Deprecation),
		HasIcon:        m.Icon != nil,
	}
	if m.Icon != nil {
		p.IconHash = hex.EncodeToString(m.Icon.Data) // see loader.add
	}
	for _, ch := range m.Channels {
		head, err := ch.Head()
		if err != nil {
			return nil, invalid(m.Name, fmt.Errorf("channel %q: %w", ch.Name, err))
		}
		p.Channels = append(p.Channels, Channel{
			Name:        ch.Name,
			Head:        head.Name,
			Deprecation: message(ch.Deprecation),
			Entries:     entries(ch),
		})
	}
	slices.SortFunc(p.Channels, func(a, b Channel) int { return cmp.Compare(a.Name, b.Name) })
	return p, nil
}

func entries(ch *model.Channel) []Entry {
	bundles := make([]*model.Bundle, 0, len(ch.Bundles))
	for _, b := range ch.Bundles {
		if !slices.ContainsFunc(b.Properties, func(p property.Property) bool { return p.Type == propertyDeprecated }) {
			bundles = append(bundles, b)
		}
	}
	depths := replacesDepths(ch)
	slices.SortFunc(bundles, func(a, b *model.Bundle) int {
		return cmp.Or(b.Version.Compare(a.Version), cmp.Compare(depths[b.Name], depths[a.Name]), b.Compare(a), cmp.Compare(a.Name, b.Name))
	})
	out := make([]Entry, len(bundles))
	for i, b := range bundles {
		out[i] = Entry{Name: b.Name, Version: b.Version.String(), Deprecation: message(b.Deprecation)}
	}
	return out
}

// replacesDepths returns the length of the replaces chain of each entry. Of two versions with equal precedence
// (1.0.0+a, 1.0.0+b) the one that replaces the other is newer.
func replacesDepths(ch *model.Channel) map[string]int {
	depths := make(map[string]int, len(ch.Bundles))
	for name, b := range ch.Bundles {
		for b != nil && depths[name] <= len(ch.Bundles) {
			depths[name]++
			b = ch.Bundles[b.Replaces]
		}
	}
	return depths
}

func message(d *model.Deprecation) string {
	if d == nil {
		return ""
	}
	return d.Message
}

// maxReason limits a reason in bytes: it goes into the status and quotes the catalog.
const maxReason = 1000

func invalid(name string, err error) error {
	return &InvalidPackageError{Name: name, Reason: scan.Shorten(oneLine(err.Error()), maxReason)}
}

// oneLine converts the tree of errors of the model to one line: each leaf with its branches, sorted, because the
// model iterates over maps. In other texts it only replaces line breaks.
func oneLine(text string) string {
	if !strings.HasPrefix(text, "invalid index:\n") {
		return strings.Join(strings.Fields(text), " ")
	}
	type node struct {
		depth int
		text  string
	}
	var nodes []node
	for line := range strings.Lines(text) {
		trimmed := strings.TrimLeft(line, "│├└─ ")
		depth := len([]rune(line)) - len([]rune(trimmed))
		nodes = append(nodes, node{depth / len("    "), strings.TrimSuffix(strings.TrimSpace(trimmed), ":")})
	}
	var leaves, branch []string
	for i, n := range nodes {
		branch = append(branch[:min(n.depth, len(branch))], n.text)
		if i+1 == len(nodes) || nodes[i+1].depth <= n.depth {
			leaves = append(leaves, strings.Join(branch[min(2, len(branch)-1):], ": ")) // without "invalid index" and "invalid package"
		}
	}
	slices.Sort(leaves)
	return strings.Join(slices.Compact(leaves), "; ")
}
