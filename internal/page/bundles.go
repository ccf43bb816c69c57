package page

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/blang/semver/v4"
)

// The values of differing.Change.
const (
	added   = "Added"
	removed = "Removed"
	changed = "Changed"
)

const (
	shownRows  = 500 // rows of a part
	shownValue = 300 // characters of a value
)

// bundleComparison is the data of bundles.html: two bundles of a package, usually an older one and a newer one.
type bundleComparison struct {
	At       place
	Package  packageFacts
	Catalog  catalogVersion
	Versions []versionKey // all, newest first
	A, B     versionKey
	Parts    []part
	Same     []string // titles of the parts that are equal

	WithRights bool
	NoRights   string // why permissions are not compared
	RightsURL  string // the URL that also compares permissions; "" if they are compared
	SwapURL    string
}

// versionKey is a bundle with the text that names it in URLs: its version, or its name if the version is not unique.
type versionKey struct{ Key, Version, Name string }

// part is a part of a comparison.
type part struct {
	Title string
	Rows  []differing
	More  int // rows that are not shown
	Same  int // equal values
}

// differing is a value that differs. A or B is empty where it is absent.
type differing struct{ What, A, B, Change string }

// Title implements titled.
func (c bundleComparison) Title() string {
	if c.B.Key == "" {
		return "Versions of " + shorten(80, c.Package.Label())
	}
	return fmt.Sprintf("%s: %s and %s", shorten(80, c.Package.Label()), shorten(60, c.A.Key), shorten(60, c.B.Key))
}

const versionsQuery = `query($p: String!) { package(name: $p) { name displayName iconHash catalog { version name digest lastModified }
head { name } channels { entries { name version } } } }`

const bundlesQuery = `query($p: String!, $a: String!, $b: String!) {
a: bundles(filter: {package: $p, name: $a}, first: 1) { nodes { ...bundle } }
b: bundles(filter: {package: $p, name: $b}, first: 1) { nodes { ...bundle } } }
fragment bundle on Bundle { name version image deprecation { message } channels { name }
provides { group version kind } requires { group version kind } requiredPackages { packageName versionRange } relatedImages { name image }
csvMetadata { displayName description minKubeVersion maturity provider { name url } maintainers { name email } links { name url }
installModes { type supported } annotations { key value } nativeApis { group version kind } } }`

func loadBundleComparison(r *request) (any, error) {
	c := bundleComparison{At: placeOf(r)}
	if err := c.loadVersions(r); err != nil || c.B.Name == "" {
		return c, err
	}
	var reply struct{ A, B struct{ Nodes []graphBundle } }
	variables := map[string]any{"p": c.At.Package, "a": c.A.Name, "b": c.B.Name}
	if _, err := r.api.query(c.At.Catalog, c.Catalog.Version, bundlesQuery, variables, &reply); err != nil {
		return nil, err
	}
	if len(reply.A.Nodes) == 0 || len(reply.B.Nodes) == 0 {
		return nil, &apiError{Status: http.StatusNotFound, Text: fmt.Sprintf("bundle %q or %q not found in the catalog", c.A.Name, c.B.Name)}
	}
	for _, p := range compareBundles(reply.A.Nodes[0].value(), reply.B.Nodes[0].value()) {
		c.add(p)
	}
	chosen := url.Values{"a": {c.A.Key}, "b": {c.B.Key}}
	c.SwapURL = stateURL(url.Values{"a": {c.B.Key}, "b": {c.A.Key}, "permissions": r.values["permissions"]})
	if c.WithRights = r.values.Get("permissions") != ""; !c.WithRights {
		c.RightsURL = stateURL(with(chosen, "permissions", []string{"1"}))
		return c, nil
	}
	return c, c.addRights(r)
}

// loadVersions reads the versions of the package and finds those to compare: the parameters a and b. By default b is the head
// and a the version before b.
func (c *bundleComparison) loadVersions(r *request) error {
	var reply struct {
		Package *struct {
			packageFacts
			Catalog  catalogVersion
			Head     struct{ Name string }
			Channels []struct{ Entries []versionKey }
		}
	}
	if _, err := r.api.query(c.At.Catalog, c.At.Version, versionsQuery, map[string]any{"p": c.At.Package}, &reply); err != nil {
		return err
	}
	if reply.Package == nil {
		return r.api.noPackage(c.At)
	}
	c.Package, c.Catalog = reply.Package.packageFacts, reply.Package.Catalog
	for _, channel := range reply.Package.Channels {
		c.Versions = append(c.Versions, channel.Entries...)
	}
	c.Versions = sortVersions(c.Versions)
	head := slices.IndexFunc(c.Versions, func(v versionKey) bool { return v.Name == reply.Package.Head.Name })
	b, err := findVersion(c.Versions, r.values.Get("b"), head)
	if err != nil {
		return err
	}
	before := b + 1
	if before == len(c.Versions) {
		before = b
	}
	a, err := findVersion(c.Versions, r.values.Get("a"), before)
	if err != nil || a < 0 || b < 0 {
		return err
	}
	c.A, c.B = c.Versions[a], c.Versions[b]
	return nil
}

// sortVersions removes duplicates, sorts the newest version first and sets the keys. Invalid semantic versions are last.
func sortVersions(all []versionKey) []versionKey {
	parsed, count, seen := map[string]semver.Version{}, map[string]int{}, map[string]bool{}
	all = slices.DeleteFunc(all, func(v versionKey) bool {
		known := seen[v.Name]
		seen[v.Name] = true
		return known
	})
	for _, v := range all {
		count[v.Version]++
		if version, err := semver.Parse(v.Version); err == nil {
			parsed[v.Name] = version
		}
	}
	for i, v := range all {
		all[i].Key = v.Name
		if _, ok := parsed[v.Name]; ok && count[v.Version] == 1 {
			all[i].Key = v.Version
		}
	}
	slices.SortFunc(all, func(x, y versionKey) int {
		return cmp.Or(parsed[y.Name].Compare(parsed[x.Name]), cmp.Compare(x.Name, y.Name))
	})
	return all
}

// findVersion returns the index of a version or a bundle name; for an empty text it returns otherwise.
func findVersion(all []versionKey, text string, otherwise int) (int, error) {
	if text == "" {
		return otherwise, nil
	}
	i := slices.IndexFunc(all, func(v versionKey) bool {
		return v.Key == text || v.Name == text || v.Version == strings.TrimPrefix(text, "v")
	})
	if i < 0 {
		return i, &apiError{
			Status: http.StatusNotFound,
			Text:   fmt.Sprintf("version %q not found in the channels of the package", shorten(80, text)),
		}
	}
	return i, nil
}

// add adds a part, or only its title if both sides are equal.
func (c *bundleComparison) add(p part) {
	switch {
	case len(p.Rows) > 0:
		c.Parts = append(c.Parts, p)
	case p.Same > 0:
		c.Same = append(c.Same, strings.ToLower(p.Title[:1])+p.Title[1:])
	}
}

// compareValues compares two sets of named values.
func compareValues(title string, a, b values) part {
	p := part{Title: title}
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		before, inA := a[name]
		after, inB := b[name]
		d := differing{What: name, Change: changed}
		switch {
		case !inA:
			d.Change = added
		case !inB:
			d.Change = removed
		case before == after:
			p.Same++
			continue
		}
		if len(p.Rows) == shownRows {
			p.More++
			continue
		}
		isLong := len(before) > shownValue || len(after) > shownValue
		d.A, d.B = shownAs(before, inA, isLong), shownAs(after, inB, isLong)
		p.Rows = append(p.Rows, d)
	}
	return p
}

// shownAs returns a value for display: "" if it is absent, and the size of a long one.
func shownAs(value string, present, isLong bool) string {
	switch {
	case !present:
		return ""
	case isLong:
		return counted(utf8.RuneCountInString(value), "character")
	}
	return cmp.Or(value, "(empty)")
}

// values maps names to values. Several values of one name are separated by line breaks.
type values map[string]string

func (v values) add(name, value string) {
	if old, ok := v[name]; ok {
		value = old + "\n" + value
	}
	v[name] = value
}

// addSet adds a value that is not empty.
func (v values) addSet(name, value string) {
	if value != "" {
		v.add(name, value)
	}
}

// compareBundles compares the metadata of two bundles.
func compareBundles(a, b *bundle) []part {
	var parts []part
	for _, p := range []struct {
		title  string
		values func(*bundle, *csv) values
	}{
		{"Provided APIs", func(b *bundle, _ *csv) values { return apisOf(b.Provides) }},
		{"Required APIs", func(b *bundle, c *csv) values { return apisOf(slices.Concat(b.Requires, c.NativeAPIs)) }},
		{"Required packages", packagesOf},
		{"Images", imagesOf},
		{"Install modes", modesOf},
		{"Channels and requirements", factsOf},
		{"Texts and links", textsOf},
		{"Annotations", func(_ *bundle, c *csv) values {
			v := values{}
			for _, annotation := range c.Annotations {
				v.add(annotation.Key, annotation.Value)
			}
			return v
		}},
	} {
		parts = append(parts, compareValues(p.title, p.values(a, csvOf(a)), p.values(b, csvOf(b))))
	}
	return parts
}

// csvOf returns the metadata of a bundle; never nil.
func csvOf(b *bundle) *csv {
	if b.CSV == nil {
		return &csv{}
	}
	return b.CSV
}

// apisOf returns the versions of each kind.
func apisOf(list []gvk) values {
	v := values{}
	slices.SortFunc(list, func(x, y gvk) int {
		return cmp.Or(cmp.Compare(x.Group, y.Group), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Version, y.Version))
	})
	for _, api := range slices.Compact(list) {
		v.add(strings.TrimSuffix(api.Kind+"."+api.Group, "."), api.Version)
	}
	return v
}

func packagesOf(b *bundle, _ *csv) values {
	v := values{}
	for _, p := range b.RequiredPackages {
		v.add(p.PackageName, p.VersionRange)
	}
	return v
}

func imagesOf(b *bundle, _ *csv) values {
	v := values{}
	v.addSet("(the bundle)", b.Image)
	for _, i := range b.RelatedImages {
		if i.Image != b.Image {
			v.add(cmp.Or(i.Name, "(without a name)"), i.Image)
		}
	}
	return v
}

func modesOf(_ *bundle, c *csv) values {
	v := values{}
	for _, m := range c.InstallModes {
		v[m.Type] = "not supported"
		if m.Supported {
			v[m.Type] = "supported"
		}
	}
	return v
}

func factsOf(b *bundle, c *csv) values {
	v := values{}
	var channels []string
	for _, channel := range b.Channels {
		channels = append(channels, channel.Name)
	}
	v.addSet("Channels", strings.Join(channels, ", "))
	v.addSet("Minimum Kubernetes", c.MinKubeVersion)
	v.addSet("Maturity", c.Maturity)
	if b.Deprecation != nil {
		v.add("Deprecation", b.Deprecation.Message)
	}
	return v
}

func textsOf(_ *bundle, c *csv) values {
	v := values{}
	v.addSet("Display name", c.DisplayName)
	v.addSet("Description", c.Description)
	v.addSet("Provider", strings.TrimSpace(c.Provider.Name+" "+c.Provider.URL))
	for _, link := range c.Links {
		v.add("Link "+link.Name, link.URL)
	}
	for _, m := range c.Maintainers {
		v.add("Maintainer "+m.Name, m.Email)
	}
	return v
}

// addRights compares the permissions, or sets NoRights if the API refuses them.
func (c *bundleComparison) addRights(r *request) error {
	var sides [2]values
	for i, name := range []string{c.A.Name, c.B.Name} {
		var rights permissions
		path := "packages/" + url.PathEscape(c.At.Package) + "/bundles/" + url.PathEscape(name) + "/permissions"
		err := r.api.get(viewPath(c.At.Catalog, c.Catalog.Version, path), nil, &rights)
		if refused, ok := errors.AsType[*apiError](err); ok && refused.Status != http.StatusUnauthorized {
			c.NoRights = r.unknownRights(refused.Text)
			return nil
		}
		if err != nil {
			return err
		}
		sides[i] = rightsOf(rights)
	}
	c.add(compareValues("Permissions", sides[0], sides[1]))
	return nil
}

// rightsOf returns the verbs of each ServiceAccount and resource, and the webhooks.
func rightsOf(p permissions) values {
	v := values{}
	for _, account := range p.ServiceAccounts {
		for _, g := range account.Grants {
			where := "in its namespaces"
			if g.Scope == "Cluster" {
				where = "in the whole cluster"
			}
			for _, rule := range g.Rules {
				v.add(fmt.Sprintf("%s: %s, %s", cmp.Or(account.Name, "(no account)"), rule.What(), where), rule.Verb())
			}
		}
	}
	for _, w := range p.Webhooks {
		v.add("Webhook "+w.Name, w.Type+" "+strings.Join(w.Resources, ", "))
	}
	return v
}
