package authoring

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
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
	blobs   []*blob   // without custom ones

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
		p.blobs = append(p.blobs, b)
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
	p.checkDuplicates()
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
		b := p.blobs[0]
		p.missing(b, "package-unknown", []any{"package"},
			"unknown package %q for %s: olm.package blob not found; add one, or correct the name", p.name, b.describe())
		p.partial = true // the name may be misspelled
		return true
	}
	if errs := validation.IsDNS1123Label(p.name); len(errs) > 0 {
		p.fault(p.packages[0].blob, "package-name", []any{"name"}, "invalid package name %q: %s", p.name, strings.Join(errs, "; "))
	}
	for _, d := range p.packages {
		if !d.malformed {
			p.checkDefault(d.blob, d.content.DefaultChannel)
		}
	}
	return true
}

func (p *pkg) checkUnnamed() {
	for _, b := range p.blobs {
		if b.schema == fbc.SchemaPackage {
			p.fault(b, "package-name", nil, "the package has no name: set name")
		} else {
			p.fault(b, "package-unknown", nil, "%s has no package: set package", b.describe())
		}
	}
}

// checkDuplicates reports packages, channels and bundles with the name of another one.
func (p *pkg) checkDuplicates() {
	seen := map[[2]string]*blob{}
	for _, b := range p.blobs {
		if b.name == "" || b.schema == fbc.SchemaDeprecations {
			continue
		}
		key := [2]string{b.schema, b.name}
		if first := seen[key]; first != nil {
			p.fault(b, b.kind()+"-duplicate", []any{"name"}, "duplicate %s: the first is in %s; keep one of them", b.describe(), first.file)
		} else {
			seen[key] = b
		}
	}
}

// blob returns the first blob with a name, nil if there is none.
func (p *pkg) blob(schema, name string) *blob {
	if i := slices.IndexFunc(p.blobs, func(b *blob) bool { return b.schema == schema && b.name == name }); i >= 0 {
		return p.blobs[i]
	}
	return nil
}

func (p *pkg) checkDefault(b *blob, name string) {
	if name == "" {
		p.fault(b, "default-channel", nil, "default channel must be set: set defaultChannel to one of the package's channels%s", p.channelNames())
		return
	}
	if p.blob(fbc.SchemaChannel, name) == nil {
		p.missing(b, "default-channel", []any{"defaultChannel"},
			"default channel %q not found: set defaultChannel to one of the package's channels%s", name, p.channelNames())
	}
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

// kind returns the schema without its prefix.
func (b *blob) kind() string { return strings.TrimPrefix(b.schema, "olm.") }

// describe returns the kind and the name of a blob.
func (b *blob) describe() string {
	if b.schema == fbc.SchemaDeprecations {
		return "the olm.deprecations blob"
	}
	return fmt.Sprintf("%s %q", b.kind(), b.name)
}
