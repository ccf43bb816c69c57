package edit

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
	"github.com/operator-catalogs/catalogd/internal/fbc/splice"
)

// Schemas of templates (operator-registry, alpha/template).
const (
	schemaBasic       = "olm.template.basic"
	schemaSubstitutes = "olm.template.substitutes"
	schemaSemver      = "olm.semver"
)

// detectTemplate makes the catalog one of the entries of a template, if its only file is one.
func (c *Catalog) detectTemplate() error {
	if len(c.files) != 1 || len(c.files[0].docs) != 1 {
		return nil
	}
	f := c.files[0]
	switch f.docs[0].Schema {
	case schemaBasic, schemaSubstitutes, schemaSemver:
		c.template = f.docs[0].Schema
		return f.set(f.text)
	}
	return nil
}

// addTemplate adds the entries of a basic or substitutes template. One of another schema has only itself.
func (f *file) addTemplate(d *doc) error {
	if d.Schema == schemaSemver {
		f.docs = append(f.docs, d)
		return nil
	}
	tree, err := d.tree()
	if err != nil {
		return err
	}
	list := tree.Get("entries")
	var template struct{ Entries []json.RawMessage }
	if err := json.Unmarshal(d.JSON, &template); err != nil {
		return fmt.Errorf("the entries of the template: %w", err)
	}
	if list == nil || len(list.Items) == 0 || len(list.Items) != len(template.Entries) {
		return errors.New("the template has no entries")
	}
	for i, raw := range template.Entries {
		blob, err := scan.ParseBlob(raw)
		if err != nil {
			return fmt.Errorf("entry %d of the template: %w", i+1, err)
		}
		if rendered, ok := f.catalog.rendered[imageOf(raw)]; ok && blob.Schema == fbc.SchemaBundle {
			if blob, err = scan.ParseBlob(rendered); err != nil {
				return err
			}
		}
		f.docs = append(f.docs, &doc{Blob: blob, file: f, list: list, at: i})
	}
	return nil
}

func removeFromTemplate(docs []*doc) error {
	f, list := docs[0].file, docs[0].list
	if len(docs) == len(list.Items) {
		return errors.New("the template would have no entries: remove the file instead")
	}
	patches, err := splice.RemoveItems(f.text, list, func(it splice.Item) bool {
		return slices.ContainsFunc(docs, func(d *doc) bool { return list.Items[d.at].Start == it.Start })
	})
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	return f.set(splice.Apply(f.text, patches...))
}

func imageOf(blob []byte) string {
	var bundle struct{ Image string }
	if json.Unmarshal(blob, &bundle) != nil {
		return ""
	}
	return bundle.Image
}

// IsTemplate reports whether the catalog is a template, whose bundles have only images.
func (c *Catalog) IsTemplate() bool { return c.template != "" }

// IsSemver reports whether the catalog is a semver template, which only Add can change.
func (c *Catalog) IsSemver() bool { return c.template == schemaSemver }

// Unrendered returns the images of the bundles of a basic or substitutes template that Render has not set.
func (c *Catalog) Unrendered() (images []string) {
	if c.template == "" {
		return nil
	}
	for _, d := range c.docs(func(d *doc) bool { return d.Schema == fbc.SchemaBundle && d.Name == "" }) {
		images = append(images, imageOf(d.JSON))
	}
	return images
}

// Render sets the blobs of the bundles of a template, by image, so that edits know their names and versions. They are not written.
func (c *Catalog) Render(blobs map[string][]byte) error {
	c.rendered = blobs
	for _, f := range c.files {
		if err := f.set(f.text); err != nil {
			return err
		}
	}
	return nil
}

// addToSemver adds an image to streams of a semver template: candidate, fast or stable.
func (c *Catalog) addToSemver(image string, streams []string, mode channel.Mode) error {
	if mode == channel.ModeGiven {
		return errors.New("a semver template places bundles by their versions: leave out --replaces, --skips and --skip-range")
	}
	for _, stream := range streams {
		d := c.files[0].docs[0]
		tree, err := d.tree()
		if err != nil {
			return err
		}
		bundles := tree.Get(stream).Get("bundles")
		if !slices.Contains([]string{"candidate", "fast", "stable"}, strings.ToLower(stream)) || bundles == nil || len(bundles.Items) == 0 {
			return fmt.Errorf("%s: the semver template has no bundles in %q: write the first one by hand, or choose another of candidate, fast, "+
				"stable", d.file.name, stream)
		}
		for _, it := range bundles.Items {
			if it.Value.Get("image").Text() == image {
				return fmt.Errorf("%s: image %s is already in %s", d.file.name, image, stream)
			}
		}
		raw, err := json.Marshal(map[string]string{"image": image})
		if err != nil {
			return err
		}
		s, err := splice.InsertItem(d.file.text, bundles, len(bundles.Items)-1, raw)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", d.file.name, stream, err)
		}
		if err := d.file.set(splice.Apply(d.file.text, s)); err != nil {
			return err
		}
	}
	return nil
}
