package authoring

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// pkg checks a package. It finds all faults; catalogd stops at the first.
type pkg struct {
	*linter
	name    string
	partial bool      // blobs may be missing
	faults  []pending // errors or, if the package is valid, warnings

	packages     []decoded[declcfg.Package]
	channels     []decoded[declcfg.Channel]
	deprecations []decoded[declcfg.Deprecation]
	bundles      []*bundle
}

// decoded is a blob and its content, which is zero if malformed.
type decoded[T any] struct {
	*blob
	content   T
	malformed bool
}

func (p *pkg) fault(b *blob, rule string, path []any, format string, args ...any) {
	p.faults = append(p.faults, newFault(b, p.name, rule, path, format, args...))
}

// missing adds a fault about something absent, unless it may be in an unreadable file.
func (p *pkg) missing(b *blob, rule string, path []any, format string, args ...any) {
	if !p.partial {
		p.fault(b, rule, path, format, args...)
	}
}

func newFault(b *blob, pkg, rule string, path []any, format string, args ...any) pending {
	return pending{blob: b, path: path, Fault: Fault{Rule: rule, Package: pkg, Message: fmt.Sprintf(format, args...)}}
}

// read decodes the blobs and checks each of them.
func (p *pkg) read(blobs []*blob) error {
	for _, b := range blobs {
		if fbc.IsCustom(b.schema) {
			continue
		}
		text, err := p.catalog.text(b)
		if err != nil {
			return err
		}
		switch b.schema {
		case fbc.SchemaPackage:
			p.packages = append(p.packages, decode[declcfg.Package](p, b, text))
		case fbc.SchemaChannel:
			p.channels = append(p.channels, decode[declcfg.Channel](p, b, text))
		case fbc.SchemaDeprecations:
			p.deprecations = append(p.deprecations, decode[declcfg.Deprecation](p, b, text))
		case fbc.SchemaBundle:
			p.bundles = append(p.bundles, p.readBundle(b, text))
		}
	}
	return nil
}

func decode[T any](p *pkg, b *blob, text []byte) decoded[T] {
	d := decoded[T]{blob: b}
	if err := fbc.CheckBlob(text); err != nil {
		d.malformed = true
		path, words := malformed[T](text, err)
		p.fault(b, "blob-malformed", path, "%s: %s", b.describe(), words)
		return d
	}
	d.malformed = json.Unmarshal(text, &d.content) != nil // CheckBlob succeeded
	return d
}

// malformed returns the path of the field that cannot be decoded, and the problem. Without such a field it
// returns catalogd's error.
func malformed[T any](text []byte, verdict error) (path []any, words string) {
	if fbc.CheckValues(text) != nil {
		return nil, oneLine(verdict)
	}
	err := json.Unmarshal(text, new(T))
	if _, ok := errors.AsType[base64.CorruptInputError](err); ok {
		return []any{"icon", "base64data"}, "base64data of the icon is not base64" // the only base64 field
	}
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok || wrong.Field == "" {
		return nil, oneLine(verdict)
	}
	for key := range strings.SplitSeq(wrong.Field, ".") {
		path = append(path, key)
	}
	return path, fmt.Sprintf("%s must be %s", wrong.Field, jsonTypeName(wrong.Type))
}

// jsonTypeName returns the JSON type that decodes to t.
func jsonTypeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "a string"
		}
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Pointer:
		return jsonTypeName(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	default:
		return "a number"
	}
}

func (p *pkg) check() {
	if !p.checkPackages() {
		return // other checks need a package
	}
	p.checkChannels()
	p.checkBundles()
	p.checkVersions()
	p.checkDeprecations()
}

// checkPackages checks the olm.package blobs. It reports whether the blobs have a package name.
func (p *pkg) checkPackages() bool {
	if p.name == "" {
		p.checkUnnamed()
		return false
	}
	if len(p.packages) == 0 {
		b := p.first()
		p.missing(b, "package-unknown", []any{"package"},
			"unknown package %q for %s: olm.package blob not found; add one, or correct the name", p.name, b.describe())
		p.partial = true // the name may be misspelled
		return true
	}
	if errs := validation.IsDNS1123Label(p.name); len(errs) > 0 {
		p.fault(p.packages[0].blob, "package-name", []any{"name"}, "invalid package name %q: %s", p.name, strings.Join(errs, "; "))
	}
	for _, d := range p.packages[1:] {
		p.fault(d.blob, "package-duplicate", []any{"name"}, "duplicate package %q: the first is in %s; keep one of them", p.name,
			p.packages[0].file)
	}
	for _, d := range p.packages {
		if !d.malformed {
			p.checkDefault(d.blob, d.content.DefaultChannel)
		}
	}
	return true
}

func (p *pkg) checkUnnamed() {
	for _, d := range p.packages {
		p.fault(d.blob, "package-name", nil, "the package has no name: set name")
	}
	for _, d := range p.channels {
		p.fault(d.blob, "package-unknown", nil, "%s has no package: set package", d.describe())
	}
	for _, b := range p.bundles {
		p.fault(b.blob, "package-unknown", nil, "%s has no package: set package", b.describe())
	}
	for _, d := range p.deprecations {
		p.fault(d.blob, "package-unknown", nil, "%s have no package: set package", d.describe())
	}
}

func (p *pkg) checkDefault(b *blob, name string) {
	if name == "" {
		p.fault(b, "default-channel", nil, "default channel must be set: set defaultChannel to one of the package's channels%s", p.channelNames())
		return
	}
	for _, ch := range p.channels {
		if ch.name == name {
			return
		}
	}
	p.missing(b, "default-channel", []any{"defaultChannel"},
		"default channel %q not found: set defaultChannel to one of the package's channels%s", name, p.channelNames())
}

// channelNames returns some channel names for a remedy.
func (p *pkg) channelNames() string {
	const limit = 5
	var names []string
	for _, ch := range p.channels[:min(limit, len(p.channels))] {
		names = append(names, ch.name)
	}
	switch {
	case len(names) == 0:
		return " (it has none)"
	case len(p.channels) > limit:
		names = append(names, "…")
	}
	return ": " + strings.Join(names, ", ")
}

// first returns a blob of the package.
func (p *pkg) first() *blob {
	switch {
	case len(p.channels) > 0:
		return p.channels[0].blob
	case len(p.bundles) > 0:
		return p.bundles[0].blob
	default:
		return p.deprecations[0].blob
	}
}

// describe returns the kind and the name of a blob.
func (b *blob) describe() string {
	if b.schema == fbc.SchemaDeprecations {
		return "deprecations"
	}
	return fmt.Sprintf("%s %q", strings.TrimPrefix(b.schema, "olm."), b.name)
}
