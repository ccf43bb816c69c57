package edit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// NotFoundError is about a package, channel or bundle that the catalog does not have.
type NotFoundError struct{ What, Name, Where string }

func (e *NotFoundError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("%s %q not found %s", e.What, e.Name, e.Where))
}

// Packages returns the names of the packages that have blobs, sorted.
func (c *Catalog) Packages() []string {
	names := map[string]bool{}
	for _, d := range c.docs(func(d *doc) bool { return d.packageOf() != "" }) {
		names[d.packageOf()] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// check returns an error for names that are no packages.
func (c *Catalog) check(names []string) error {
	have := c.Packages()
	for _, name := range names {
		if !slices.Contains(have, name) {
			return &NotFoundError{"package", name, "in the catalog"}
		}
	}
	return nil
}

// KeepPackages removes all other packages. Blobs without a package stay.
func (c *Catalog) KeepPackages(names ...string) error {
	if err := c.check(names); err != nil {
		return err
	}
	return remove(c.docs(func(d *doc) bool { return d.packageOf() != "" && !slices.Contains(names, d.packageOf()) })...)
}

// RemovePackages removes packages.
func (c *Catalog) RemovePackages(names ...string) error {
	if err := c.check(names); err != nil {
		return err
	}
	return remove(c.docs(func(d *doc) bool { return slices.Contains(names, d.packageOf()) })...)
}

// find returns the document of a schema in a package.
func (c *Catalog) find(schema, pkg, name string) *doc {
	found := c.docs(func(d *doc) bool { return d.Schema == schema && d.packageOf() == pkg && d.Name == name })
	if len(found) == 0 {
		return nil
	}
	return found[0]
}

// PackagesOf returns the packages that have a bundle of that name.
func (c *Catalog) PackagesOf(bundle string) (packages []string) {
	for _, d := range c.docs(func(d *doc) bool { return d.Schema == fbc.SchemaBundle && d.Name == bundle }) {
		packages = append(packages, d.Package)
	}
	return packages
}

// RemoveBundle removes a bundle, its entries in channels, and its deprecation. What replaced it then replaces what it replaced.
// skips of other entries stay: they let clusters that have the bundle upgrade. A channel without entries is removed, but not
// the default channel.
func (c *Catalog) RemoveBundle(pkg, name string) error {
	bundle := c.find(fbc.SchemaBundle, pkg, name)
	if bundle == nil {
		return &NotFoundError{"bundle", name, fmt.Sprintf("in package %q", pkg)}
	}
	if err := remove(bundle); err != nil {
		return err
	}
	var channels []string
	for _, d := range c.docs(func(d *doc) bool { return d.Schema == fbc.SchemaChannel && d.Package == pkg }) {
		channels = append(channels, d.Name)
	}
	for _, channel := range channels {
		if err := c.removeEntry(pkg, channel, name); err != nil {
			return err
		}
	}
	return c.undeprecate(pkg, fbc.SchemaBundle, name)
}

// removeEntry removes the entry of a bundle from a channel.
func (c *Catalog) removeEntry(pkg, channel, bundle string) error {
	d := c.find(fbc.SchemaChannel, pkg, channel)
	tree, err := d.tree()
	if err != nil {
		return err
	}
	entries := tree.get("entries")
	if entries == nil || entries.kind != list {
		return nil
	}
	at := slices.IndexFunc(entries.items, func(it item) bool { return it.value.get("name").string() == bundle })
	if at < 0 {
		return nil
	}
	if len(entries.items) == 1 {
		return c.removeChannel(pkg, channel)
	}
	replaced := entries.items[at].value.get("replaces").string()
	removed, err := removeItem(d.file.text, entries, at)
	if err != nil {
		return fmt.Errorf("%s: channel %q of package %q: %w", d.file.name, channel, pkg, err)
	}
	splices := []splice{removed}
	for i, it := range entries.items {
		if i == at || it.value.get("replaces").string() != bundle {
			continue
		}
		s, err := relink(d.file.text, it.value, replaced)
		if err != nil {
			return fmt.Errorf("%s: channel %q of package %q: %w", d.file.name, channel, pkg, err)
		}
		splices = append(splices, s)
	}
	return d.file.set(apply(d.file.text, splices...))
}

// relink makes an entry replace another bundle, or none.
func relink(text []byte, entry *value, replaces string) (splice, error) {
	i := entry.member("replaces")
	if replaces == "" {
		return removeMember(text, entry, i)
	}
	return replaceScalar(text, entry.members[i].value, replaces)
}

func (c *Catalog) removeChannel(pkg, channel string) error {
	if p := c.find(fbc.SchemaPackage, pkg, pkg); p != nil {
		tree, err := p.tree()
		if err != nil {
			return err
		}
		if tree.get("defaultChannel").string() == channel {
			return fmt.Errorf("channel %q is the default channel of package %q, and would have no entries: set another defaultChannel first, or "+
				"remove the package", channel, pkg)
		}
	}
	if err := remove(c.find(fbc.SchemaChannel, pkg, channel)); err != nil {
		return err
	}
	return c.undeprecate(pkg, fbc.SchemaChannel, channel)
}

// Deprecate deprecates a package, or a channel or bundle of it (schema and name), or replaces the message.
func (c *Catalog) Deprecate(pkg, schema, name, message string) error {
	if err := c.check([]string{pkg}); err != nil {
		return err
	}
	target := name
	if schema == fbc.SchemaPackage {
		target = pkg
	}
	if c.find(schema, pkg, target) == nil {
		return &NotFoundError{strings.TrimPrefix(schema, "olm."), target, fmt.Sprintf("in package %q", pkg)}
	}
	reference := map[string]string{"schema": schema}
	if name != "" {
		reference["name"] = name
	}
	entry, err := json.Marshal(struct {
		Reference map[string]string `json:"reference"`
		Message   string            `json:"message"`
	}{reference, message})
	if err != nil {
		return err
	}
	d := c.deprecations(pkg)
	if d == nil {
		blob := fmt.Appendf(nil, `{"schema":"olm.deprecations","package":%q,"entries":[%s]}`, pkg, entry)
		all := c.docs(func(d *doc) bool { return d.packageOf() == pkg })
		return insert(all[len(all)-1], blob)
	}
	tree, err := d.tree()
	if err != nil {
		return err
	}
	entries := tree.get("entries")
	if entries == nil || len(entries.items) == 0 {
		return fmt.Errorf("%s: the olm.deprecations blob of package %q has no entries: remove it first", d.file.name, pkg)
	}
	var s splice
	if i := entries.deprecation(schema, name); i >= 0 {
		s, err = replaceScalar(d.file.text, entries.items[i].value.get("message"), message)
	} else {
		s, err = insertItem(d.file.text, entries, len(entries.items)-1, entry)
	}
	if err != nil {
		return fmt.Errorf("%s: the olm.deprecations blob of package %q: %w", d.file.name, pkg, err)
	}
	return d.file.set(apply(d.file.text, s))
}

func (c *Catalog) deprecations(pkg string) *doc {
	found := c.docs(func(d *doc) bool { return d.Schema == "olm.deprecations" && d.Package == pkg })
	if len(found) == 0 {
		return nil
	}
	return found[0]
}

// deprecation returns the place of the deprecation of a package, channel or bundle, or -1.
func (v *value) deprecation(schema, name string) int {
	return slices.IndexFunc(v.items, func(it item) bool {
		reference := it.value.get("reference")
		return reference.get("schema").string() == schema && reference.get("name").string() == name
	})
}

// undeprecate removes a deprecation, if there is one.
func (c *Catalog) undeprecate(pkg, schema, name string) error {
	d := c.deprecations(pkg)
	if d == nil {
		return nil
	}
	tree, err := d.tree()
	if err != nil {
		return err
	}
	entries := tree.get("entries")
	if entries == nil {
		return nil
	}
	i := entries.deprecation(schema, name)
	if i < 0 {
		return nil
	}
	if len(entries.items) == 1 {
		return remove(d)
	}
	s, err := removeItem(d.file.text, entries, i)
	if err != nil {
		return fmt.Errorf("%s: the olm.deprecations blob of package %q: %w", d.file.name, pkg, err)
	}
	return d.file.set(apply(d.file.text, s))
}
