package edit

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/fbc/splice"
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

// RemoveBundles removes bundles of a package, their entries in channels, and their deprecations. What replaced one then replaces
// what that one replaced. skips of other entries stay: they let clusters that have the bundle upgrade. A channel without entries
// is removed, but not the default channel.
func (c *Catalog) RemoveBundles(pkg string, names ...string) error {
	return c.removeBundles(pkg, names, false)
}

// removeBundles removes bundles. With keepTail, the lowest entries that stay replace what they replaced, although it is removed.
func (c *Catalog) removeBundles(pkg string, names []string, keepTail bool) error {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	var bundles []*doc
	for _, name := range names {
		bundle := c.find(fbc.SchemaBundle, pkg, name)
		if bundle == nil {
			return &NotFoundError{"bundle", name, fmt.Sprintf("in package %q", pkg)}
		}
		bundles = append(bundles, bundle)
	}
	if err := remove(bundles...); err != nil {
		return err
	}
	for _, name := range c.channelsOf(pkg) {
		if err := c.dropEntries(pkg, name, names, keepTail); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := c.undeprecate(pkg, fbc.SchemaBundle, name); err != nil {
			return err
		}
	}
	return nil
}

// channelsOf returns the names of the channels of a package.
func (c *Catalog) channelsOf(pkg string) (names []string) {
	for _, d := range c.docs(func(d *doc) bool { return d.Schema == fbc.SchemaChannel && d.Package == pkg }) {
		names = append(names, d.Name)
	}
	return names
}

// dropEntries removes the entries of bundles from a channel. What replaced one then replaces what that one replaced. With keepTail,
// an entry that would replace nothing stays as it is.
func (c *Catalog) dropEntries(pkg, name string, bundles []string, keepTail bool) error {
	tree, err := c.find(fbc.SchemaChannel, pkg, name).tree()
	if err != nil {
		return err
	}
	entries := tree.Get("entries")
	if entries == nil || entries.Kind != splice.List {
		return nil
	}
	replaced := map[string]string{} // by a removed bundle
	var kept []channel.Entry
	for _, e := range entriesOf(entries) {
		if slices.Contains(bundles, e.Name) {
			replaced[e.Name] = e.Replaces
		} else {
			kept = append(kept, e)
		}
	}
	switch {
	case len(replaced) == 0:
		return nil
	case len(kept) == 0:
		return c.removeChannel(pkg, name)
	}
	for i := range kept {
		before := kept[i].Replaces
		for range replaced { // they may replace each other in a circle
			if next, ok := replaced[kept[i].Replaces]; ok {
				kept[i].Replaces = next
			}
		}
		if _, ok := replaced[kept[i].Replaces]; ok {
			kept[i].Replaces = ""
		}
		if keepTail && kept[i].Replaces == "" {
			kept[i].Replaces = before
		}
	}
	return c.setEntries(pkg, name, kept)
}

func (c *Catalog) removeChannel(pkg, name string) error {
	if p := c.find(fbc.SchemaPackage, pkg, pkg); p != nil {
		tree, err := p.tree()
		if err != nil {
			return err
		}
		if tree.Get("defaultChannel").Text() == name {
			return fmt.Errorf("channel %q is the default channel of package %q, and would have no entries: set another defaultChannel first, or "+
				"remove the package", name, pkg)
		}
	}
	if err := remove(c.find(fbc.SchemaChannel, pkg, name)); err != nil {
		return err
	}
	return c.undeprecate(pkg, fbc.SchemaChannel, name)
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
	entry, err := splice.Encode(struct {
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
	entries := tree.Get("entries")
	if entries == nil || len(entries.Items) == 0 {
		return fmt.Errorf("%s: the olm.deprecations blob of package %q has no entries: remove it first", d.file.name, pkg)
	}
	var s splice.Patch
	if i := deprecationIn(entries, schema, name); i >= 0 {
		s, err = splice.ReplaceScalar(d.file.text, entries.Items[i].Value.Get("message"), message)
	} else {
		s, err = splice.InsertItem(d.file.text, entries, len(entries.Items)-1, entry)
	}
	if err != nil {
		return fmt.Errorf("%s: the olm.deprecations blob of package %q: %w", d.file.name, pkg, err)
	}
	return d.file.set(splice.Apply(d.file.text, s))
}

func (c *Catalog) deprecations(pkg string) *doc {
	found := c.docs(func(d *doc) bool { return d.Schema == "olm.deprecations" && d.Package == pkg })
	if len(found) == 0 {
		return nil
	}
	return found[0]
}

// deprecation returns the place of the deprecation of a package, channel or bundle, or -1.
func deprecationIn(v *splice.Value, schema, name string) int {
	return slices.IndexFunc(v.Items, func(it splice.Item) bool {
		reference := it.Value.Get("reference")
		return reference.Get("schema").Text() == schema && reference.Get("name").Text() == name
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
	entries := tree.Get("entries")
	if entries == nil {
		return nil
	}
	i := deprecationIn(entries, schema, name)
	if i < 0 {
		return nil
	}
	if len(entries.Items) == 1 {
		return remove(d)
	}
	patches, err := splice.RemoveItems(d.file.text, entries, func(it splice.Item) bool { return it.Value == entries.Items[i].Value })
	if err != nil {
		return fmt.Errorf("%s: the olm.deprecations blob of package %q: %w", d.file.name, pkg, err)
	}
	return d.file.set(splice.Apply(d.file.text, patches...))
}

// Truncate removes the bundles of a package below a version, and deprecates the lowest one that stays, unless message is empty or it
// is a head. Entries that replaced a removed bundle still do, so that clusters that have it can upgrade.
func (c *Catalog) Truncate(pkg, below, message string) error {
	if err := c.check([]string{pkg}); err != nil {
		return err
	}
	var old []string
	tail, lowest := "", ""
	for _, d := range c.docs(func(d *doc) bool { return d.Schema == fbc.SchemaBundle && d.Package == pkg }) {
		version, err := versionOf(d.JSON)
		if err != nil {
			return fmt.Errorf("%s: bundle %q of package %q: %w", d.file.name, d.Name, pkg, err)
		}
		switch {
		case fbc.CompareVersions(version, below) < 0:
			old = append(old, d.Name)
		case tail == "" || fbc.CompareVersions(version, lowest) < 0:
			tail, lowest = d.Name, version
		}
	}
	switch {
	case len(old) == 0:
		return &NotFoundError{"bundle below version", below, fmt.Sprintf("in package %q", pkg)}
	case tail == "":
		return fmt.Errorf("package %q has no bundle of version %s or higher: remove the package, or choose a lower version", pkg, below)
	}
	if err := c.removeBundles(pkg, old, true); err != nil {
		return err
	}
	heads, err := c.Heads(pkg, "")
	if err != nil || message == "" || slices.Contains(heads, tail) { // there is nothing to upgrade to
		return err
	}
	return c.Deprecate(pkg, fbc.SchemaBundle, tail, message)
}

// versionOf returns the version of a bundle, from its olm.package property.
func versionOf(blob []byte) (string, error) {
	var bundle struct {
		Properties []struct {
			Type  string
			Value json.RawMessage
		}
	}
	if err := json.Unmarshal(blob, &bundle); err != nil {
		return "", err
	}
	for _, p := range bundle.Properties {
		var value struct{ Version string }
		if p.Type == property.TypePackage && json.Unmarshal(p.Value, &value) == nil && value.Version != "" {
			return value.Version, nil
		}
	}
	return "", errors.New("it has no olm.package property with a version")
}

// Images returns the images of the bundles of packages, or of all packages, each once and in the order of the catalog.
func (c *Catalog) Images(related bool, packages ...string) ([]string, error) {
	if err := c.check(packages); err != nil {
		return nil, err
	}
	var images []string
	seen := map[string]bool{"": true}
	for _, d := range c.docs(func(d *doc) bool {
		return d.Schema == fbc.SchemaBundle && (len(packages) == 0 || slices.Contains(packages, d.Package))
	}) {
		var bundle struct {
			Image         string
			RelatedImages []struct{ Image string }
		}
		if err := json.Unmarshal(d.JSON, &bundle); err != nil {
			return nil, fmt.Errorf("%s: bundle %q: %w", d.file.name, d.Name, err)
		}
		all := []string{bundle.Image}
		for _, image := range bundle.RelatedImages {
			if related {
				all = append(all, image.Image)
			}
		}
		for _, image := range all {
			if !seen[image] {
				seen[image] = true
				images = append(images, image)
			}
		}
	}
	return images, nil
}
