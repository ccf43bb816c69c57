package page

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/blang/semver/v4"

	"github.com/operator-catalogs/catalogd/internal/version"
)

// The tabs of a package: the values of the parameter tab and their labels.
var tabs = []struct{ param, label string }{
	{"", "Overview"},
	{"versions", "Versions"},
	{"apis", "APIs"},
	{"permissions", "Permissions"},
	{"images", "Images"},
	{"install", "Install"},
}

// packagePage is the data of package.html.
type packagePage struct {
	packageDetails
	At      place
	Tab     string
	Tabs    []choice
	Channel string       // the shown channel
	Bundle  *bundle      // the shown bundle; nil if the package has no head
	Picks   []choice     // links to the channels
	Also    []elsewhere  // the package in other catalogs
	Partial []string     // errors of parts that could not be read
	Rights  *permissions // of the tab permissions
	NoRight string       // why the permissions are unknown
	Readme  template.HTML
	Preview bool // of files, without a cluster
}

// place is the part of a URL that names a package in a version of a catalog.
type place struct {
	Root, Catalog, Version string // Version is empty for the current one
	Package                string
}

func placeOf(r *request) place {
	return place{r.root, r.PathValue("catalog"), r.PathValue("digest"), r.PathValue("package")}
}

// URL returns the URL of the package.
func (p place) URL() string { return packageURL(p.Root, p.Catalog, p.Version, p.Package) }

// CurrentURL returns the URL of the package in the current version.
func (p place) CurrentURL() string { return packageURL(p.Root, p.Catalog, "", p.Package) }

// RawURL returns the URL of the blobs of the package.
func (p place) RawURL() string {
	return catalogURL(p.Root, p.Catalog, p.Version) + "/raw/" + url.PathEscape(p.Package)
}

// ChannelURL returns the URL of a channel.
func (p place) ChannelURL(channel string) string {
	return p.URL() + "/channels/" + url.PathEscape(channel)
}

// VersionURL returns the URL of a bundle: by its version, or by its name if the version is not unique.
func (p place) VersionURL(channel string, e entry) string {
	return p.URL() + "?" + url.Values{"channel": {channel}, "version": {e.key()}}.Encode()
}

// elsewhere is the package in another catalog.
type elsewhere struct {
	Catalog, Version, URL string
	Preferred             bool
}

// packageDetails is a package in the reply to packageQuery.
type packageDetails struct {
	packageFacts
	Description      string
	Keywords         []string
	Categories       []string
	Capabilities     string
	Architectures    []string
	OperatingSystems []string
	Features         []string
	InstallModes     []string
	Catalog          catalogVersion
	DefaultChannel   struct{ Name string }
	Channels         []channelDetails
}

// channelDetails is a channel with its entries.
type channelDetails struct {
	Name        string
	Deprecation *deprecation
	Head        struct{ Name, Version string }
	Entries     []entry
}

// entry is a bundle of a channel.
type entry struct {
	Name, Version string
	Deprecation   *deprecation
	Twin          bool `json:"-"` // another entry has the same version
}

// key names an entry in URLs: by its version, or by its name if the version is not unique.
func (e entry) key() string {
	if _, err := semver.Parse(e.Version); err != nil || e.Twin {
		return e.Name
	}
	return e.Version
}

// bundle is a version of a package.
type bundle struct {
	Name, Version, Image, Hash string
	Deprecation                *deprecation
	Channels                   []struct{ Name string }
	Provides, Requires         []gvk
	RequiredPackages           []struct{ PackageName, VersionRange string }
	RelatedImages              []image
	CSV                        *csv
}

type gvk struct{ Group, Version, Kind string }

// URL returns the path of an API's page below the mount point.
func (g gvk) URL() string {
	return "apis/" + url.PathEscape(cmp.Or(g.Group, "-")) + "/" + url.PathEscape(g.Kind)
}

type image struct{ Name, Image string }

// csv is the metadata of a ClusterServiceVersion.
type csv struct {
	DisplayName, Description, MinKubeVersion, Maturity string
	Maintainers                                        []struct{ Name, Email string }
	Links                                              []struct{ Name, URL string }
	Provider                                           struct{ Name, URL string }
	Annotations                                        []struct{ Key, Value string }
	InstallModes                                       []struct {
		Type      string
		Supported bool
	}
	CustomResourceDefinitions struct{ Owned, Required []crd }
	APIServiceDefinitions     struct{ Owned, Required []apiService }
	NativeAPIs                []gvk
}

// Annotation returns the value of an annotation.
func (c *csv) Annotation(key string) string {
	for _, a := range c.Annotations {
		if a.Key == key {
			return a.Value
		}
	}
	return ""
}

// Created returns the time of creation; zero if the annotation is not a time.
func (c *csv) Created() time.Time {
	created, _ := time.Parse(time.RFC3339, c.Annotation("createdAt")) // the page shows other texts as they are
	return created
}

// crd is a custom resource of an operator.
type crd struct {
	Name, Version, Kind, DisplayName, Description string
	SpecDescriptors, StatusDescriptors            []descriptor
	Examples                                      []indented
}

// Group returns the API group, which follows the first dot of the name.
func (c crd) Group() string {
	_, group, _ := strings.Cut(c.Name, ".")
	return group
}

// API returns the group, version and kind.
func (c crd) API() gvk { return gvk{c.Group(), c.Version, c.Kind} }

type descriptor struct{ Path, DisplayName, Description string }

type apiService struct{ Name, Group, Version, Kind, DisplayName, Description string }

// API returns the group, version and kind.
func (a apiService) API() gvk { return gvk{a.Group, a.Version, a.Kind} }

// Title implements titled.
func (p packagePage) Title() string { return p.Label() }

// PinnedURL returns the URL of the package in the shown version of the catalog; "" if the URL is pinned already.
func (p packagePage) PinnedURL() string {
	if p.At.Version != "" {
		return ""
	}
	return packageURL(p.At.Root, p.At.Catalog, p.Catalog.Version, p.Name)
}

const packageQuery = `query($p: String!, $channel: String!, $name: String, $range: String,
$pick: Boolean!, $inChannel: Boolean!, $overview: Boolean!, $apis: Boolean!, $images: Boolean!) {
package(name: $p) { name displayName shortDescription provider version iconHash deprecation { message }
description @include(if: $overview) keywords categories capabilities architectures operatingSystems features installModes
catalog { name digest version image lastModified } defaultChannel { name }
channels { name deprecation { message } head { name version } entries { name version deprecation { message } } }
head @skip(if: $pick) { ...bundle }
channel(name: $channel) @include(if: $inChannel) { head { ...bundle } } }
bundles(filter: {package: $p, channel: $channel, name: $name, versionRange: $range}, first: 1) @include(if: $pick) { nodes { ...bundle } } }
fragment bundle on Bundle { name version image hash deprecation { message } channels { name }
requires { group version kind } requiredPackages { packageName versionRange }
provides @include(if: $apis) { group version kind } relatedImages @include(if: $images) { name image }
csvMetadata { displayName minKubeVersion maturity maintainers { name email } links { name url } provider { name url }
installModes { type supported }
annotations(keys: ["createdAt", "repository", "support", "operatorframework.io/suggested-namespace"]) { key value }
nativeApis @include(if: $apis) { group version kind }
customResourceDefinitions @include(if: $apis) { owned { name version kind displayName description
specDescriptors { path displayName description } statusDescriptors { path displayName description } examples }
required { name version kind displayName description } }
apiServiceDefinitions @include(if: $apis) { owned { name group version kind displayName description }
required { name group version kind displayName description } } } }`

// packageReply is the reply to packageQuery.
type packageReply struct {
	Package *struct {
		packageDetails
		Head    *graphBundle
		Channel *struct{ Head graphBundle }
	}
	Bundles *struct{ Nodes []graphBundle }
}

// graphBundle is a bundle in a GraphQL response.
type graphBundle struct {
	bundle
	CSVMetadata *csv
}

// value returns the bundle.
func (g *graphBundle) value() *bundle {
	g.CSV = g.CSVMetadata
	return &g.bundle
}

func loadPackage(r *request) (any, error) {
	p := packagePage{At: placeOf(r), Tab: r.values.Get("tab"), Preview: r.page.Preview != nil}
	if !slices.ContainsFunc(tabs, func(t struct{ param, label string }) bool { return t.param == p.Tab }) {
		return nil, &apiError{Status: http.StatusBadRequest, Text: fmt.Sprintf("unknown tab %q", shorten(40, p.Tab))}
	}
	if err := p.load(r); err != nil {
		return nil, err
	}
	for _, t := range tabs {
		p.Tabs = append(p.Tabs, choice{t.label, stateURL(with(r.values, "tab", nonEmpty(t.param))), t.param == p.Tab})
	}
	for _, c := range p.Channels {
		values := with(r.values, "channel", nonEmpty(c.Name))
		values.Del("version")
		p.Picks = append(p.Picks, choice{c.Name, stateURL(values), c.Name == p.Channel})
	}
	p.Also = r.api.elsewhere(p.At, p.packageDetails.Catalog.Name)
	switch p.Tab {
	case "":
		p.Readme = markdown(p.Description)
	case "permissions":
		return p, p.loadPermissions(r)
	}
	return p, nil
}

// load reads the package and the shown bundle: the one of the parameter version, else the head of the parameter channel, else
// the head of the default channel.
func (p *packagePage) load(r *request) error {
	channel, version := r.values.Get("channel"), r.values.Get("version")
	variables := map[string]any{
		"p": p.At.Package, "channel": channel, "pick": version != "", "inChannel": channel != "" && version == "",
		"overview": p.Tab == "", "apis": p.Tab == "apis", "images": p.Tab == "images",
	}
	if _, err := semver.Parse(version); err == nil {
		variables["range"] = "=" + version
	} else {
		variables["name"] = version
	}
	var reply packageReply
	partial, err := r.api.query(p.At.Catalog, p.At.Version, packageQuery, variables, &reply)
	if err != nil {
		return err
	}
	if reply.Package == nil {
		return r.api.noPackage(p.At)
	}
	p.Partial, p.packageDetails = partial, reply.Package.packageDetails
	p.Channel = cmp.Or(channel, p.DefaultChannel.Name)
	switch {
	case reply.Bundles != nil && len(reply.Bundles.Nodes) > 0:
		p.Bundle = reply.Bundles.Nodes[0].value()
	case reply.Bundles != nil:
		return &apiError{Status: http.StatusNotFound, Text: fmt.Sprintf("version %q not found in package %q; see the tab Versions",
			shorten(80, version), p.Name)}
	case reply.Package.Channel != nil:
		p.Bundle = reply.Package.Channel.Head.value()
	case channel != "":
		return &apiError{Status: http.StatusNotFound, Text: fmt.Sprintf("channel %q not found in package %q", shorten(80, channel), p.Name)}
	case reply.Package.Head != nil:
		p.Bundle = reply.Package.Head.value()
	}
	for _, c := range p.Channels {
		sortEntries(c.Entries)
	}
	return nil
}

// sortEntries sorts entries, newest first, and sets Twin.
func sortEntries(entries []entry) {
	slices.SortStableFunc(entries, func(a, b entry) int { return version.Compare(b.Version, a.Version) })
	seen := map[string]int{}
	for _, e := range entries {
		seen[e.Version]++
	}
	for i := range entries {
		entries[i].Twin = seen[entries[i].Version] > 1
	}
}

// noPackage returns the error for a missing package, with the reason if validation failed.
func (a api) noPackage(at place) error {
	text := fmt.Sprintf("package %q not found in catalog %q", shorten(80, at.Package), at.Catalog)
	invalid, err := a.invalidPackages(at.Catalog, at.Version)
	if err != nil {
		return err
	}
	var c catalog
	if err := a.get(catalogURL("/", at.Catalog, at.Version), nil, &c); err == nil && c.Subset != nil {
		text += "; the catalog serves only a subset of its image, as its CatalogSource sets"
	}
	for _, p := range invalid {
		if p.Name == at.Package {
			text = fmt.Sprintf("package %q is left out of catalog %q because validation failed: %s", at.Package, at.Catalog, p.Reason)
		}
	}
	return &apiError{Status: http.StatusNotFound, Text: text, Also: a.elsewhere(at, at.Catalog)}
}

// elsewhere returns all catalogs with the package, by priority; nil if only catalog here has it. The first one is preferred.
func (a api) elsewhere(at place, here string) []elsewhere {
	var reply struct {
		Packages struct {
			Nodes []struct {
				Version string
				Catalog struct{ Name string }
			}
		}
	}
	query := `query($p: String!) { packages(filter: {name: $p}, first: 20) { nodes { version catalog { name } } } }`
	if _, err := a.query("", "", query, map[string]any{"p": at.Package}, &reply); err != nil {
		return nil // readers of one catalog may not query all
	}
	var out []elsewhere
	for i, n := range reply.Packages.Nodes {
		out = append(out, elsewhere{n.Catalog.Name, n.Version, packageURL(at.Root, n.Catalog.Name, "", at.Package), i == 0})
	}
	if len(out) == 1 && out[0].Catalog == here {
		return nil
	}
	return out
}

// Shown returns the shown channel.
func (p packagePage) Shown() channelDetails {
	for _, c := range p.Channels {
		if c.Name == p.Channel {
			return c
		}
	}
	return channelDetails{}
}

// IsHead reports whether the shown bundle is the head of the shown channel.
func (p packagePage) IsHead() bool { return p.Bundle != nil && p.Bundle.Name == p.Shown().Head.Name }

// pinned matches an image reference with a digest.
var pinned = regexp.MustCompile(`@sha256:[0-9a-f]{64}$`)

// Images returns the images to mirror without duplicates: the bundle image, then the related images.
func (b *bundle) Images() []image {
	all := append([]image{{"bundle", b.Image}}, b.RelatedImages...)
	seen := map[string]bool{"": true}
	return slices.DeleteFunc(all, func(i image) bool {
		known := seen[i.Image]
		seen[i.Image] = true
		return known
	})
}

// IsPinned reports whether the reference names a digest.
func (i image) IsPinned() bool { return pinned.MatchString(i.Image) }

// ImageLines returns the references of all images, one per line.
func (b *bundle) ImageLines() string {
	var lines []string
	for _, i := range b.Images() {
		lines = append(lines, i.Image)
	}
	return strings.Join(lines, "\n")
}

// indented is JSON text with indentation.
type indented struct{ Text string }

// Bounds of an example that is indented: indenting makes it longer by its depth at each value.
const (
	maxExample = 20_000 // bytes
	maxIndent  = 32     // levels
)

// UnmarshalJSON implements json.Unmarshaler. JSON that is too long or too deep keeps its form.
func (i *indented) UnmarshalJSON(raw []byte) error {
	var b bytes.Buffer
	if len(raw) > maxExample || isDeep(raw) || json.Indent(&b, raw, "", "  ") != nil {
		b.Reset()
		b.Write(raw[:min(len(raw), maxExample)])
	}
	i.Text = shorten(maxExample, b.String())
	return nil
}

// isDeep reports whether JSON has more than maxIndent levels. Brackets in texts count, too.
func isDeep(raw []byte) bool {
	depth, deepest := 0, 0
	for _, c := range raw {
		switch c {
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest > maxIndent
}
