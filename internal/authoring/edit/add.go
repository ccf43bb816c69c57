package edit

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/operator-catalogs/catalogd/internal/authoring/export"
	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// Addition is a bundle to add to a catalog.
type Addition struct {
	Package, Image string
	Entry          channel.Entry // with its version; replaces, skips and skipRange are those of the bundle or of the user
	Channels       []string
	Blob           []byte // of schema olm.bundle
	// NewPackage returns the blob of a package that the catalog does not have.
	NewPackage func() ([]byte, error)
}

// Add adds bundles, the lowest versions first, and returns the names of the bundles that mode drops. With overwrite, a bundle may
// replace one of the same name that is the head of all its channels.
func (c *Catalog) Add(additions []Addition, mode channel.Mode, overwrite bool) (dropped []string, err error) {
	sorted := slices.SortedStableFunc(slices.Values(additions), func(a, b Addition) int { return fbc.CompareVersions(a.Entry.Version, b.Entry.Version) })
	for _, a := range sorted {
		names, err := c.add(a, mode, overwrite)
		if err != nil {
			return nil, fmt.Errorf("adding bundle %q to package %q: %w", a.Entry.Name, a.Package, err)
		}
		dropped = append(dropped, names...)
	}
	return dropped, nil
}

func (c *Catalog) add(a Addition, mode channel.Mode, overwrite bool) ([]string, error) {
	if c.template == schemaSemver {
		return nil, c.addToSemver(a.Image, a.Channels, mode)
	}
	if len(a.Channels) == 0 {
		return nil, fmt.Errorf("the bundle names no channel: specify one")
	}
	if err := c.ensurePackage(a); err != nil {
		return nil, err
	}
	old := c.find(fbc.SchemaBundle, a.Package, a.Entry.Name)
	channels := a.Channels
	if old != nil {
		if !overwrite {
			return nil, fmt.Errorf("the package already has a bundle of that name: raise its version")
		}
		had, err := c.channelsHeadedBy(a.Package, a.Entry.Name)
		if err != nil {
			return nil, err
		}
		channels = slices.Compact(slices.Sorted(slices.Values(append(had, channels...))))
	}
	if err := c.checkVersion(a); err != nil {
		return nil, err
	}
	if err := c.putBundle(a, old); err != nil {
		return nil, err
	}
	before := c.placed(a.Package)
	for _, name := range channels {
		if err := c.place(a, name, mode); err != nil {
			return nil, fmt.Errorf("channel %q: %w", name, err)
		}
	}
	after := c.placed(a.Package)
	var dropped []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if !after[name] && c.find(fbc.SchemaBundle, a.Package, name) != nil {
			dropped = append(dropped, name)
		}
	}
	if len(dropped) == 0 {
		return nil, nil
	}
	return dropped, c.RemoveBundles(a.Package, dropped...)
}

// checkVersion returns an error if another bundle of the package has the version.
func (c *Catalog) checkVersion(a Addition) error {
	for name, version := range c.versions(a.Package) {
		if version == a.Entry.Version && name != a.Entry.Name {
			return fmt.Errorf("bundle %q already has version %s: raise the version", name, version)
		}
	}
	return nil
}

// versions returns the versions of the bundles of a package by name, "" for those that have none.
func (c *Catalog) versions(pkg string) map[string]string {
	versions := map[string]string{}
	for _, d := range c.docs(func(d *doc) bool { return d.Schema == fbc.SchemaBundle && d.Package == pkg }) {
		versions[d.Name], _ = versionOf(d.JSON)
	}
	return versions
}

// entries returns the entries of a channel with their versions; nil if there is no such channel.
func (c *Catalog) entries(pkg, name string) (all []channel.Entry) {
	d := c.find(fbc.SchemaChannel, pkg, name)
	if d == nil {
		return nil
	}
	tree, err := d.tree()
	if err != nil {
		return nil
	}
	versions := c.versions(pkg)
	for _, e := range entriesOf(tree.Get("entries")) {
		e.Version = versions[e.Name]
		all = append(all, e)
	}
	return all
}

// placed returns the names that the channels of a package have.
func (c *Catalog) placed(pkg string) map[string]bool {
	names := map[string]bool{}
	for _, name := range c.channelsOf(pkg) {
		for _, e := range c.entries(pkg, name) {
			names[e.Name] = true
		}
	}
	return names
}

// channelsHeadedBy returns the channels of a bundle, and an error if it is not their head.
func (c *Catalog) channelsHeadedBy(pkg, bundle string) (names []string, err error) {
	for _, name := range c.channelsOf(pkg) {
		entries := c.entries(pkg, name)
		if !slices.ContainsFunc(entries, func(e channel.Entry) bool { return e.Name == bundle }) {
			continue
		}
		if !slices.Contains(channel.Heads(entries), bundle) {
			return nil, fmt.Errorf("only the head of a channel can be overwritten, and the bundle is not the head of channel %q: raise its version", name)
		}
		names = append(names, name)
	}
	return names, nil
}

// Heads returns the heads of a channel, or of all channels of a package if name is empty.
func (c *Catalog) Heads(pkg, name string) (heads []string, err error) {
	if err := c.check([]string{pkg}); err != nil {
		return nil, err
	}
	names := c.channelsOf(pkg)
	if name != "" {
		if !slices.Contains(names, name) {
			return nil, &NotFoundError{"channel", name, fmt.Sprintf("in package %q", pkg)}
		}
		names = []string{name}
	}
	for _, name := range names {
		heads = append(heads, channel.Heads(c.entries(pkg, name))...)
	}
	return slices.Compact(slices.Sorted(slices.Values(heads))), nil
}

// place adds the entry to a channel, or changes the one that is there.
func (c *Catalog) place(a Addition, name string, mode channel.Mode) error {
	have := c.entries(a.Package, name)
	elsewhere := map[string]channel.Entry{}
	for _, other := range c.channelsOf(a.Package) {
		for _, e := range c.entries(a.Package, other) {
			elsewhere[e.Name] = e
		}
	}
	others := slices.DeleteFunc(slices.Clone(have), func(e channel.Entry) bool { return e.Name == a.Entry.Name })
	want, err := channel.Place(mode, others, a.Entry, elsewhere)
	if err != nil {
		return err
	}
	if len(have) > 0 {
		return c.setEntries(a.Package, name, want)
	}
	if c.find(fbc.SchemaChannel, a.Package, name) != nil {
		return fmt.Errorf("the channel has no entries: remove it first")
	}
	return c.insertChannel(a.Package, name, want)
}

func (c *Catalog) insertChannel(pkg, name string, entries []channel.Entry) error {
	var raw []json.RawMessage
	for _, e := range entries {
		one, err := encodeEntry(e)
		if err != nil {
			return err
		}
		raw = append(raw, one)
	}
	blob, err := json.Marshal(struct {
		Schema  string            `json:"schema"`
		Package string            `json:"package"`
		Name    string            `json:"name"`
		Entries []json.RawMessage `json:"entries"`
	}{fbc.SchemaChannel, pkg, name, raw})
	if err != nil {
		return err
	}
	behind := c.docs(func(d *doc) bool {
		return d.packageOf() == pkg && (d.Schema == fbc.SchemaChannel || d.Schema == fbc.SchemaPackage)
	})
	return insert(behind[len(behind)-1], blob)
}

// ensurePackage adds the package if the catalog does not have it.
func (c *Catalog) ensurePackage(a Addition) error {
	if c.find(fbc.SchemaPackage, a.Package, a.Package) != nil {
		return nil
	}
	blob, err := a.NewPackage()
	if err != nil {
		return err
	}
	return c.AddPackage(a.Package, blob)
}

// AddPackage adds a blob of schema olm.package: to a file of its own in a directory, and to the end of a file or template.
func (c *Catalog) AddPackage(name string, blob []byte) error {
	if c.find(fbc.SchemaPackage, name, name) != nil {
		return fmt.Errorf("the catalog already has package %q", name)
	}
	if len(c.files) == 1 && (c.single || c.template != "") && len(c.files[0].docs) > 0 {
		docs := c.files[0].docs
		return insert(docs[len(docs)-1], blob)
	}
	if len(c.files) == 1 && c.single {
		return c.files[0].write(blob)
	}
	return c.create(path.Join(name, "catalog"+c.extension()), blob)
}

// extension returns the suffix of new files: that of most others.
func (c *Catalog) extension() string {
	jsons := 0
	for _, f := range c.files {
		if f.isJSON {
			jsons++
		}
	}
	if 2*jsons > len(c.files) {
		return ".json"
	}
	return ".yaml"
}

// create makes a new file.
func (c *Catalog) create(name string, blob []byte) error {
	if slices.ContainsFunc(c.files, func(f *file) bool { return f.name == name }) {
		return fmt.Errorf("file %s already exists", name)
	}
	f := &file{name: name, catalog: c}
	c.files = append(c.files, f)
	return f.write(blob)
}

// write makes a blob the content of a file, in the format of its suffix.
func (f *file) write(blob []byte) error {
	encode := export.YAML
	if path.Ext(f.name) == ".json" {
		encode = export.JSON
	}
	text, err := encode(blob)
	if err != nil {
		return err
	}
	return f.set(text)
}

// putBundle adds the blob of a bundle behind the last bundle of its package, or in a file of its own if that one has one, or in
// place of old. A template gets only its image.
func (c *Catalog) putBundle(a Addition, old *doc) error {
	blob := a.Blob
	if c.template != "" {
		var err error
		if blob, err = json.Marshal(map[string]string{"schema": fbc.SchemaBundle, "image": a.Image}); err != nil {
			return err
		}
		if c.rendered == nil {
			c.rendered = map[string][]byte{}
		}
		c.rendered[a.Image] = a.Blob
	}
	if old != nil {
		if err := insert(old, blob); err != nil {
			return err
		}
		return remove(c.find(fbc.SchemaBundle, a.Package, a.Entry.Name)) // the first of both
	}
	behind := c.docs(func(d *doc) bool { return d.packageOf() == a.Package })
	last := behind[len(behind)-1]
	if bundles := c.docs(func(d *doc) bool { return d.packageOf() == a.Package && d.Schema == fbc.SchemaBundle }); len(bundles) > 0 {
		last = bundles[len(bundles)-1]
	}
	if last.Schema == fbc.SchemaBundle && len(last.file.docs) == 1 && !c.single {
		return c.create(path.Join(path.Dir(last.file.name), a.Entry.Name+path.Ext(last.file.name)), blob)
	}
	return insert(last, blob)
}
