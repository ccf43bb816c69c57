package packages

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// A kind of things in catalogs.
type kind struct {
	names       []string // plural, singular, short
	columns     []output.Column
	arePackages bool
	isLarge     bool // whether a list needs a restriction or --all
	list        func(context.Context, *content.Service, getRequest) ([]item, error)
	complete    func(*session.Session) cobra.CompletionFunc // nil: none
}

var allKinds = []kind{packageKind, channelKind, bundleKind, deprecationKind}

// kinds has the kinds by each of their names.
var kinds = func() map[string]kind {
	named := map[string]kind{}
	for _, k := range allKinds {
		for _, name := range k.names {
			named[name] = k
		}
	}
	return named
}()

// An item is a thing in a catalog.
type item struct {
	output.Row
	catalog, pkg, name string
	part               string // distinguishes items of the same package and name
}

// matches reports whether name names the item. A package also has the name of its OperatorPackage.
func (i item) matches(name string) bool {
	return i.name == name || (i.name == i.pkg && lookup.Matches(name, i.pkg, i.catalog))
}

func rowsOf(items []item) []output.Row {
	rows := make([]output.Row, len(items))
	for i := range items {
		rows[i] = items[i].Row
	}
	return rows
}

// itemsOf makes items of views, which are also the printed objects.
func itemsOf[T any](views []T, kind string, toItem func(T) item) ([]item, error) {
	items := make([]item, len(views))
	for i, v := range views {
		items[i] = toItem(v)
		var err error
		if items[i].Row, err = output.NewRow(kind, items[i].name, v, items[i].Cells...); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// note is the last column of most tables.
var note = output.Column{Name: "note", Least: 10, Drop: 3, Style: func(cell string) output.Style {
	if strings.Contains(cell, "deprecated") {
		return output.Yellow
	}
	return output.Plain
}}

var catalogColumn = output.Column{Name: "catalog", Drop: 4, Apart: true}

func notes(isDefault bool, deprecated *content.Deprecation) string {
	var all []string
	if isDefault {
		all = append(all, "default")
	}
	if deprecated != nil {
		all = append(all, "deprecated")
	}
	return strings.Join(all, ", ")
}

var digits = regexp.MustCompile(`[0-9]+`)

// compareNames compares names with numbers by their value: stable-1.9 comes before stable-1.10.
func compareNames(a, b string) int {
	aligned := func(number string) string { return fmt.Sprintf("%20s", number) }
	return cmp.Compare(digits.ReplaceAllStringFunc(a, aligned), digits.ReplaceAllStringFunc(b, aligned))
}

var packageKind = kind{
	arePackages: true,
	names:       []string{"packages", "package", "pkg"},
	columns: []output.Column{
		{Name: "name"}, catalogColumn, {Name: "display name", Least: 16, Drop: 1}, {Name: "channel", Least: 10, Drop: 2},
		{Name: "version"}, note,
		{Name: "provider", Wide: true}, {Name: "categories", Wide: true}, {Name: "capabilities", Wide: true},
	},
	list:     listPackages,
	complete: lookup.CompletePackages,
}

type packageView struct {
	Name             string               `json:"name"`
	Catalog          content.Named        `json:"catalog"`
	DisplayName      string               `json:"displayName"`
	ShortDescription string               `json:"shortDescription,omitempty"`
	Provider         string               `json:"provider"`
	Categories       []string             `json:"categories"`
	Capabilities     string               `json:"capabilities"`
	Version          string               `json:"version"`
	DefaultChannel   content.Named        `json:"defaultChannel"`
	Deprecation      *content.Deprecation `json:"deprecation,omitempty"`
}

func listPackages(ctx context.Context, s *content.Service, req getRequest) ([]item, error) {
	filter := content.Variables("catalog", req.Catalog)
	var names []string
	for _, name := range append(slices.Clone(req.names), req.Package) {
		names = append(names, lookup.PossibleNames(name)...)
	}
	if len(names) > 0 {
		filter["names"] = names
	}
	const query = `query($filter: PackageFilter, $after: String, $full: Boolean!) {
		packages(filter: $filter, first: 100, after: $after) {
			nodes { name catalog { name } displayName shortDescription @include(if: $full) provider categories capabilities version
				defaultChannel { name } deprecation { message } }
			pageInfo { hasNextPage endCursor } } }`
	variables := map[string]any{"filter": filter, "full": req.full}
	found, err := content.All[packageView](ctx, s, "", "", query, variables)
	if err != nil {
		return nil, err
	}
	return itemsOf(found, "Package", func(p packageView) item {
		return item{catalog: p.Catalog.Name, pkg: p.Name, name: p.Name, Row: output.Row{Cells: []string{
			p.Name, p.Catalog.Name, p.DisplayName, p.DefaultChannel.Name, p.Version, notes(false, p.Deprecation),
			p.Provider, strings.Join(p.Categories, ", "), p.Capabilities,
		}}}
	})
}

var channelKind = kind{
	names: []string{"channels", "channel", "ch"},
	columns: []output.Column{
		{Name: "name"}, {Name: "package"}, catalogColumn, {Name: "head", Least: 16, Drop: 1}, {Name: "version", Drop: 5}, note,
	},
	isLarge:  true,
	list:     listChannels,
	complete: lookup.CompleteChannels,
}

type channelView struct {
	channelHead
	Package   content.Named `json:"package"`
	Catalog   content.Named `json:"catalog"`
	IsDefault bool          `json:"isDefault"`
}

func listChannels(ctx context.Context, s *content.Service, req getRequest) ([]item, error) {
	filter := content.Variables("catalog", req.Catalog, "package", req.Package, "name", req.Channel)
	const query = `query($filter: ChannelFilter, $after: String) { channels(filter: $filter, first: 100, after: $after) {
		nodes { name package { name catalog { name } defaultChannel { name } } head { name version } deprecation { message } }
		pageInfo { hasNextPage endCursor } } }`
	type channel struct {
		channelView
		Package struct {
			Name                    string
			Catalog, DefaultChannel content.Named
		} `json:"package"` // hides the view's field
	}
	answer, err := content.All[channel](ctx, s, "", "", query, map[string]any{"filter": filter})
	if err != nil {
		return nil, err
	}
	found := make([]channelView, len(answer))
	for i, c := range answer {
		found[i] = c.channelView
		found[i].Package, found[i].Catalog = content.Named{Name: c.Package.Name}, c.Package.Catalog
		found[i].IsDefault = c.Name == c.Package.DefaultChannel.Name
	}
	slices.SortStableFunc(found, func(a, b channelView) int {
		return cmp.Or(cmp.Compare(a.Catalog.Name, b.Catalog.Name), cmp.Compare(a.Package.Name, b.Package.Name),
			compareNames(a.Name, b.Name))
	})
	return itemsOf(found, "Channel", func(c channelView) item {
		return item{catalog: c.Catalog.Name, pkg: c.Package.Name, name: c.Name, Row: output.Row{Cells: []string{
			c.Name, c.Package.Name, c.Catalog.Name, c.Head.Name, c.Head.Version, notes(c.IsDefault, c.Deprecation),
		}}}
	})
}

var bundleKind = kind{
	names: []string{"bundles", "bundle"},
	columns: []output.Column{
		{Name: "name"}, {Name: "package", Drop: 1, Apart: true}, catalogColumn, {Name: "version"},
		{Name: "channels", Least: 10, Drop: 2}, note, {Name: "image", Wide: true},
	},
	isLarge:  true,
	list:     listBundles,
	complete: lookup.CompleteBundles,
}

type bundleView struct {
	Name        string               `json:"name"`
	Package     content.Named        `json:"package"`
	Catalog     content.Named        `json:"catalog"`
	Version     string               `json:"version"`
	Image       string               `json:"image"`
	Channels    []content.Named      `json:"channels"`
	Deprecation *content.Deprecation `json:"deprecation,omitempty"`
}

func listBundles(ctx context.Context, s *content.Service, req getRequest) ([]item, error) {
	filter := content.Variables("catalog", req.Catalog, "package", req.Package, "channel", req.Channel)
	if len(req.names) == 1 {
		filter["name"] = req.names[0]
	}
	// Only the image is read from the bundle's blob; the rest is indexed.
	const query = `query($filter: BundleFilter, $after: String, $full: Boolean!) { bundles(filter: $filter, first: 100, after: $after) {
		nodes { name package { name } catalog { name } version image @include(if: $full) channels { name } deprecation { message } }
		pageInfo { hasNextPage endCursor } } }`
	variables := map[string]any{"filter": filter, "full": req.full}
	found, err := content.All[bundleView](ctx, s, "", "", query, variables)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(found, func(a, b bundleView) int {
		return cmp.Or(cmp.Compare(a.Catalog.Name, b.Catalog.Name), cmp.Compare(a.Package.Name, b.Package.Name),
			fbc.CompareVersions(b.Version, a.Version))
	})
	return itemsOf(found, "Bundle", func(b bundleView) item {
		channels := strings.Join(content.Names(b.Channels), ", ")
		return item{catalog: b.Catalog.Name, pkg: b.Package.Name, name: b.Name, Row: output.Row{Cells: []string{
			b.Name, b.Package.Name, b.Catalog.Name, b.Version, channels, notes(false, b.Deprecation), b.Image,
		}}}
	})
}

var deprecationKind = kind{
	names: []string{"deprecations", "deprecation"},
	columns: []output.Column{
		{Name: "package"}, catalogColumn, {Name: "kind", Drop: 5}, {Name: "name"}, {Name: "message", Least: 10, Drop: 1},
	},
	list: listDeprecations,
}

type deprecationView struct {
	Package content.Named `json:"package"`
	Catalog content.Named `json:"catalog"`
	Kind    string        `json:"deprecates"` // package, channel or bundle
	Name    string        `json:"name"`
	Message string        `json:"message"`
}

func listDeprecations(ctx context.Context, s *content.Service, req getRequest) ([]item, error) {
	const query = `query($filter: DeprecationsFilter, $after: String) { deprecations(filter: $filter, first: 100, after: $after) {
		nodes { package { name catalog { name } } entries { reference { schema name } message } }
		pageInfo { hasNextPage endCursor } } }`
	type blob struct {
		Package struct {
			Name    string
			Catalog content.Named
		}
		Entries []struct {
			Reference struct{ Schema, Name string }
			Message   string
		}
	}
	filter := content.Variables("catalog", req.Catalog, "package", req.Package)
	blobs, err := content.All[blob](ctx, s, "", "", query, map[string]any{"filter": filter})
	if err != nil {
		return nil, err
	}
	var found []deprecationView
	for _, b := range blobs {
		for _, entry := range b.Entries {
			kind := strings.TrimPrefix(entry.Reference.Schema, "olm.")
			name := entry.Reference.Name
			if kind == "package" {
				name = b.Package.Name
			}
			if req.Channel == "" || (kind == "channel" && name == req.Channel) {
				pkg := content.Named{Name: b.Package.Name}
				found = append(found, deprecationView{pkg, b.Package.Catalog, kind, name, entry.Message})
			}
		}
	}
	return itemsOf(found, "Deprecation", func(d deprecationView) item {
		return item{catalog: d.Catalog.Name, pkg: d.Package.Name, name: d.Name, part: d.Kind, Row: output.Row{Cells: []string{
			d.Package.Name, d.Catalog.Name, d.Kind, d.Name, d.Message,
		}}}
	})
}
