package edit

import (
	"errors"
	"fmt"

	"github.com/operator-catalogs/catalogd/internal/fbc/splice"
	"github.com/operator-catalogs/catalogd/internal/subset"
)

// Select keeps what the rules select of the packages, and blobs without a package. An error about what the rules name is a
// *NotFoundError, and one about a filter that cannot be applied a *subset.Error.
func (c *Catalog) Select(rules ...subset.Include) error {
	docs := documents(c.docs(func(d *doc) bool { return d.packageOf() != "" }))
	if len(docs) > 0 && docs[0].list != nil {
		return c.selectOfTemplate(rules)
	}
	selected, err := subset.Filter{Include: rules}.Select(docs)
	if fault, ok := errors.AsType[*subset.Error](err); ok && len(fault.Unmatched) > 0 {
		return notFound(fault.Unmatched[0])
	}
	switch {
	case err != nil:
		return err
	case len(selected.Unmatched) > 0:
		return notFound(selected.Unmatched[0])
	case len(selected.Unreadable) > 0:
		p := selected.Unreadable[0]
		return fmt.Errorf("package %q cannot be read: %s; correct it, or select it as a whole", p.Package, p.Reason)
	}
	byFile := map[*file][]splice.Patch{}
	for i, d := range docs {
		patches, err := d.patches(selected, i)
		if err != nil {
			return fmt.Errorf("%s: the %s %q of package %q: %w", d.file.name, d.Schema, d.Name, d.packageOf(), err)
		}
		byFile[d.file] = append(byFile[d.file], patches...)
	}
	for f, patches := range byFile {
		if len(patches) == 0 {
			continue
		}
		if err := f.set(splice.Apply(f.text, patches...)); err != nil {
			return err
		}
	}
	return nil
}

// patches returns what a selection does to a document.
func (d *doc) patches(selected *subset.Selection, i int) ([]splice.Patch, error) {
	if !selected.Keeps(i) {
		return []splice.Patch{d.removal()}, nil
	}
	e, edited := selected.Edit(i)
	if !edited {
		return nil, nil
	}
	tree, err := d.tree()
	if err != nil {
		return nil, err
	}
	return e.Patches(d.file.text, tree)
}

// selectOfTemplate keeps whole packages: a template does not have the versions of its bundles.
func (c *Catalog) selectOfTemplate(rules []subset.Include) error {
	var names []string
	for _, r := range rules {
		if !r.IsWhole() {
			return fmt.Errorf("selecting %s: a template has no bundle versions, so only whole packages can be selected; render the template first "+
				"(kubectl catalog render)", r)
		}
		names = append(names, r.Package)
	}
	return c.KeepPackages(names...)
}

func notFound(u subset.Unmatched) error {
	where := "in the catalog"
	if u.Channel != "" || u.Versions != "" {
		where = fmt.Sprintf("in package %q", u.Package)
	}
	switch {
	case u.Versions != "" && u.Channel != "":
		return &NotFoundError{"bundle of versions", u.Versions, fmt.Sprintf("in channel %q of package %q", u.Channel, u.Package)}
	case u.Versions != "":
		return &NotFoundError{"bundle of versions", u.Versions, where}
	case u.Channel != "":
		return &NotFoundError{"channel", u.Channel, where}
	}
	return &NotFoundError{"package", u.Package, where}
}

// documents are a catalog for a filter.
type documents []*doc

func (ds documents) Len() int                   { return len(ds) }
func (ds documents) JSON(i int) ([]byte, error) { return ds[i].JSON, nil }

func (ds documents) Blob(i int) subset.Blob {
	return subset.BlobOf(ds[i].Blob)
}
