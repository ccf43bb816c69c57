package graph

import (
	"errors"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/operator-catalogs/catalogd/internal/bundle"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// BundleContent is what is in the image of a bundle, or what the catalog has of it.
type BundleContent struct {
	*bundle.Content
	of          *Bundle
	archive     *bundle.Archive
	permissions lazy[bundle.Permissions]
}

// Content opens the content of the bundle.
func (b *Bundle) Content() (*BundleContent, error) {
	return b.opened.get(b.openContent)
}

func (b *Bundle) openContent() (*BundleContent, error) {
	text, err := b.content()
	if err != nil {
		return nil, err
	}
	if err := b.src.r.spendDecoded(scan.CountValues(text)); err != nil {
		return nil, err
	}
	blob, err := bundle.ReadBlob(text)
	if err != nil {
		return nil, b.invalid("the bundle", err)
	}
	for _, object := range blob.Objects { // the archive decodes and copies each
		err := b.src.r.spendDecoded(scan.EstimateValues(object))
		if err == nil {
			err = b.src.r.spendRead(2 * int64(len(object)))
		}
		if err != nil {
			return nil, err
		}
	}
	if b.src.r.Content == nil {
		return nil, &Error{CodeForbidden, "the content of bundles is disabled"}
	}
	archive, err := b.src.r.Content(b.src.catalog.Name, blob)
	if err != nil {
		return nil, err
	}
	if err := b.src.r.spendRead(int64(len(archive.JSON()))); err != nil {
		return nil, err
	}
	return &BundleContent{Content: &archive.Content, of: b, archive: archive}, nil
}

// unavailable returns the error of a bundle that left the cache meanwhile; other errors unchanged.
func (b *Bundle) unavailable(err error) error {
	if gone, ok := errors.AsType[*bundle.Error](err); ok {
		return &Error{CodeUnavailable, gone.Text}
	}
	return err
}

// Digest returns the digest of the image, nil for objects that the catalog has.
func (c *BundleContent) Digest() *string { return orNull(c.Content.Digest) }

// Labels returns the labels of the image, sorted by key.
func (c *BundleContent) Labels() []*KeyValue { return sorted(c.Content.Labels, nil) }

// Files returns the files, or those with the given paths.
func (c *BundleContent) Files(paths []string) []*BundleFile {
	out := []*BundleFile{}
	for _, file := range c.Content.Files {
		if paths == nil || slices.Contains(paths, file.Path) {
			out = append(out, &BundleFile{file, c})
		}
	}
	return out
}

// Manifests returns the objects of a kind and a name; empty ones match all.
func (c *BundleContent) Manifests(kind, name *string) ([]JSON, error) {
	if err := c.spendObjects(); err != nil {
		return nil, err
	}
	objects, err := c.archive.Objects(deref(kind), deref(name))
	if err != nil {
		return nil, c.of.unavailable(err)
	}
	out := make([]JSON, len(objects))
	for i, object := range objects {
		out[i] = JSON(object)
	}
	return out, nil
}

// spendObjects charges for reading all objects, as each use does.
func (c *BundleContent) spendObjects() error { return c.of.src.r.spendRead(c.archive.ObjectBytes()) }

// Permissions returns the permissions that the bundle asks for.
func (c *BundleContent) Permissions() (bundle.Permissions, error) {
	return c.permissions.get(func() (p bundle.Permissions, err error) {
		if err := c.spendObjects(); err != nil {
			return p, err
		}
		if err := c.of.src.r.spendDecoded(int(c.archive.ObjectBytes() / bytesPerValue)); err != nil {
			return p, err
		}
		p, err = c.archive.Permissions()
		if invalid, ok := errors.AsType[*bundle.Error](err); ok && invalid.Reason == bundle.Invalid {
			return p, c.of.invalid("the permissions", invalid)
		}
		return p, c.of.unavailable(err)
	})
}

// bytesPerValue is how many bytes of objects have a value that is decoded: CRDs, the larger part of bundles, have none.
const bytesPerValue = 100

// BundleFile is a file of a bundle.
type BundleFile struct {
	bundle.File
	content *BundleContent
}

// Fault returns why some objects cannot be read, nil if all can.
func (f *BundleFile) Fault() *string { return orNull(f.File.Fault) }

// Text returns the text, nil if the file is not UTF-8.
func (f *BundleFile) Text() (*string, error) {
	if err := f.content.of.src.r.spendRead(f.Bytes); err != nil {
		return nil, err
	}
	file, err := f.content.archive.File(f.Path)
	if err != nil {
		return nil, f.content.of.unavailable(err)
	}
	data, err := io.ReadAll(file)
	if err != nil || !utf8.Valid(data) {
		return nil, err
	}
	text := string(data)
	return &text, nil
}
