// Package template renders catalog templates of operator-registry, and makes templates of catalogs. The results are those of
// `opm alpha render-template` and `opm alpha convert-template`. What opm drops or changes silently is an error.
package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/template/semver"
	"github.com/operator-framework/operator-registry/alpha/template/substitutes"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// The schemas of templates.
const (
	Basic       = "olm.template.basic"
	Semver      = "olm.semver"
	Substitutes = "olm.template.substitutes"
)

// Template is a catalog template.
type Template struct {
	File   string // for messages
	Schema string

	text    []byte // compact JSON
	entries []*declcfg.Meta
	images  []image
}

// image is a reference to a bundle image, with its place in the template: "stable.bundles[2]".
type image struct{ at, ref string }

// Parse parses a template. file is its name for errors.
func Parse(file string, text []byte) (*Template, error) {
	t := &Template{File: file}
	doc, err := document(text)
	if err == nil {
		t.text = doc
		err = t.read()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return t, nil
}

// document returns the only document of a file, as compact JSON.
func document(text []byte) (doc []byte, err error) {
	n := 0
	err = scan.Objects(text, scan.DefaultMaxBlobBytes, func(object []byte) error {
		if n++; n == 1 {
			doc = bytes.Clone(object)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case n == 0:
		return nil, errors.New("the file is empty")
	case n > 1:
		return nil, fmt.Errorf("the file has %d documents, and opm reads only the first: put all blobs into the list entries of a template, or "+
			"make a template of the catalog with kubectl catalog template convert", n)
	}
	return doc, nil
}

func (t *Template) read() error {
	blob, err := scan.ParseBlob(t.text)
	if err != nil {
		return err
	}
	switch t.Schema = blob.Schema; t.Schema {
	case Basic:
		return t.readBasic()
	case Semver:
		return t.readSemver()
	case Substitutes:
		return t.readSubstitutes()
	case "olm.composite", "olm.composite.catalogs":
		return errors.New("opm has no composite templates since v1.44: map templates to catalogs in ci.yaml")
	}
	return fmt.Errorf("unknown template schema %q; valid schemas are %s, %s, %s", t.Schema, Basic, Semver, Substitutes)
}

// Images returns the references of the bundle images.
func (t *Template) Images() []string {
	refs := make([]string, len(t.images))
	for i, image := range t.images {
		refs[i] = image.ref
	}
	return refs
}

// addImage adds the image of a bundle at a place.
func (t *Template) addImage(ref, format string, args ...any) error {
	at := fmt.Sprintf(format, args...)
	if ref == "" {
		return fmt.Errorf("%s has no image", at)
	}
	t.images = append(t.images, image{at, ref})
	return nil
}

// strict decodes JSON, and refuses unknown fields.
func strict(data []byte, v any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(v)
	if err == nil {
		return nil
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	if strings.HasPrefix(text, "unknown field") {
		text += ", which opm would ignore: correct or remove it"
	}
	return errors.New(text)
}

func (t *Template) readBasic() error {
	var doc struct {
		Schema  string
		Entries []json.RawMessage
	}
	if err := strict(t.text, &doc); err != nil {
		return err
	}
	if err := t.readEntries(doc.Entries); err != nil {
		return err
	}
	for i, entry := range t.entries {
		if entry.Schema != fbc.SchemaBundle {
			continue
		}
		var b declcfg.Bundle
		if err := json.Unmarshal(entry.Blob, &b); err != nil {
			return fmt.Errorf("%s: %w", describe(i, entry), err)
		}
		if b.Package != "" || len(b.Properties) > 0 || len(b.RelatedImages) > 0 {
			return fmt.Errorf("%s must have only schema, name and image, as the rest comes from the image: remove package, properties and "+
				"relatedImages", describe(i, entry))
		}
		if err := t.addImage(b.Image, "%s", describe(i, entry)); err != nil {
			return err
		}
	}
	return nil
}

func (t *Template) readSubstitutes() error {
	var doc struct {
		Schema        string
		Entries       []json.RawMessage
		Substitutions []substitutes.Substitute
	}
	if err := strict(t.text, &doc); err != nil {
		return err
	}
	if err := t.readEntries(doc.Entries); err != nil {
		return err
	}
	for i, entry := range t.entries {
		if number := inexact(entry.Blob); number != "" {
			return fmt.Errorf("%s: opm would change the number %s: write it as a string", describe(i, entry), number)
		}
	}
	for i, s := range doc.Substitutions {
		if s.Base == "" {
			return fmt.Errorf("substitutions[%d] has no base: set base to the name of a bundle", i)
		}
		if s.Name == "" {
			return fmt.Errorf("substitutions[%d] has no name: set name to the image that substitutes bundle %q", i, s.Base)
		}
		if err := t.addImage(s.Name, "substitutions[%d]", i); err != nil {
			return err
		}
	}
	return nil
}

func (t *Template) readSemver() error {
	var doc semver.SemverTemplateData
	if err := strict(t.text, &doc); err != nil {
		return err
	}
	for i, b := range doc.Candidate.Bundles {
		if err := t.addImage(b.Image, "candidate.bundles[%d]", i); err != nil {
			return err
		}
	}
	for i, b := range doc.Fast.Bundles {
		if err := t.addImage(b.Image, "fast.bundles[%d]", i); err != nil {
			return err
		}
	}
	for i, b := range doc.Stable.Bundles {
		if err := t.addImage(b.Image, "stable.bundles[%d]", i); err != nil {
			return err
		}
	}
	return nil
}

// readEntries reads the blobs in a template. Unknown fields are refused, as opm drops them.
func (t *Template) readEntries(entries []json.RawMessage) error {
	for i, raw := range entries {
		entry, err := metaOf(raw)
		if err != nil {
			return fmt.Errorf("entries[%d]: %w", i, err)
		}
		var known any
		switch entry.Schema {
		case fbc.SchemaPackage:
			known = new(declcfg.Package)
		case fbc.SchemaChannel:
			known = new(declcfg.Channel)
		case fbc.SchemaBundle:
			known = new(declcfg.Bundle)
		case fbc.SchemaDeprecations:
			known = new(declcfg.Deprecation)
		}
		if known != nil {
			err = strict(entry.Blob, known)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", describe(i, entry), err)
		}
		t.entries = append(t.entries, entry)
	}
	return nil
}

// metaOf returns a blob as opm does, with sorted keys. But its numbers are unchanged.
func metaOf(object []byte) (*declcfg.Meta, error) {
	blob, err := scan.ParseBlob(object)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return &declcfg.Meta{Schema: blob.Schema, Package: blob.Package, Name: blob.Name, Blob: out.Bytes()}, nil
}

// describe names an entry: `entries[3] (olm.channel "stable")`.
func describe(i int, entry *declcfg.Meta) string {
	if entry.Name == "" {
		return fmt.Sprintf("entries[%d] (%s)", i, entry.Schema)
	}
	return fmt.Sprintf("entries[%d] (%s %q)", i, entry.Schema, entry.Name)
}

// inexact returns the first integer that a float64 does not hold, or "".
func inexact(object []byte) string {
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	for {
		token, err := decoder.Token()
		if err != nil {
			return ""
		}
		number, ok := token.(json.Number)
		if !ok || strings.ContainsAny(number.String(), ".eE") {
			continue
		}
		if f, err := number.Float64(); err != nil || math.Abs(f) > 1<<53-1 {
			return number.String()
		}
	}
}

// place returns where the template has an image.
func (t *Template) place(ref string) string {
	i := slices.IndexFunc(t.images, func(image image) bool { return image.ref == ref })
	return t.images[i].at
}
