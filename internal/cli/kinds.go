package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/cli/content"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// note says at the end of a row what is particular about it.
var note = term.Column{Name: "note", Least: 10, Drop: 3, Style: func(cell string) term.Style {
	if strings.Contains(cell, "deprecated") {
		return term.Yellow
	}
	return term.Plain
}}

// inCatalog says where something is.
var inCatalog = term.Column{Name: "catalog", Drop: 4, Apart: true}

type named struct {
	Name string `json:"name"`
}

type deprecation struct {
	Message string `json:"message"`
}

func notes(isDefault bool, deprecated *deprecation) string {
	var all []string
	if isDefault {
		all = append(all, "default")
	}
	if deprecated != nil {
		all = append(all, "deprecated")
	}
	return strings.Join(all, ", ")
}

var packageKind = kind{
	ofPackages: true,
	names:      []string{"packages", "package", "pkg"},
	columns: []term.Column{
		{Name: "name"}, inCatalog, {Name: "display name", Least: 16, Drop: 1}, {Name: "channel", Least: 10, Drop: 2}, {Name: "version"}, note,
		{Name: "provider", Wide: true}, {Name: "categories", Wide: true}, {Name: "capabilities", Wide: true},
	},
	list:     listPackages,
	complete: (*env).completePackages,
}

type packageView struct {
	Name             string       `json:"name"`
	Catalog          named        `json:"catalog"`
	DisplayName      string       `json:"displayName"`
	ShortDescription string       `json:"shortDescription,omitempty"`
	Provider         string       `json:"provider"`
	Categories       []string     `json:"categories"`
	Capabilities     string       `json:"capabilities"`
	Version          string       `json:"version"`
	DefaultChannel   named        `json:"defaultChannel"`
	Deprecation      *deprecation `json:"deprecation,omitempty"`
}

func listPackages(ctx context.Context, s *content.Service, opts getOptions) ([]listed, error) {
	filter := map[string]any{}
	if opts.catalog != "" {
		filter["catalog"] = opts.catalog
	}
	var names []string
	for _, name := range append(slices.Clone(opts.names), opts.pkg) {
		names = append(names, namesMeant(name)...)
	}
	if len(names) > 0 {
		filter["names"] = names
	}
	const query = `query($filter: PackageFilter, $after: String, $full: Boolean!) { packages(filter: $filter, first: 100, after: $after) {
		nodes { name catalog { name } displayName shortDescription @include(if: $full) provider categories capabilities version defaultChannel { name } deprecation { message } }
		pageInfo { hasNextPage endCursor } } }`
	found, err := content.All[packageView](ctx, s, "", "", query, map[string]any{"filter": filter, "full": opts.full})
	if err != nil {
		return nil, err
	}
	return rowsOf(found, "Package", func(p packageView) listed {
		return listed{catalog: p.Catalog.Name, pkg: p.Name, name: p.Name, row: row{cells: []string{
			p.Name, p.Catalog.Name, p.DisplayName, p.DefaultChannel.Name, p.Version, notes(false, p.Deprecation),
			p.Provider, strings.Join(p.Categories, ", "), p.Capabilities,
		}}}
	})
}

// rowsOf makes rows of what was found; the objects are the views themselves.
func rowsOf[T any](found []T, kind string, row func(T) listed) ([]listed, error) {
	rows := make([]listed, len(found))
	for i, f := range found {
		rows[i] = row(f)
		object, err := view(kind, rows[i].name, f)
		if err != nil {
			return nil, err
		}
		rows[i].object = object
	}
	return rows, nil
}

func withoutEmpty(names []string) []string {
	var kept []string
	for _, name := range names {
		if name != "" {
			kept = append(kept, name)
		}
	}
	return kept
}

var channelKind = kind{
	names: []string{"channels", "channel", "ch"},
	columns: []term.Column{
		{Name: "name"}, {Name: "package"}, inCatalog, {Name: "head", Least: 16, Drop: 1}, {Name: "version", Drop: 5}, note,
	},
	narrow:   true,
	list:     listChannels,
	complete: (*env).completeChannels,
}

type channelView struct {
	Name      string `json:"name"`
	Package   named  `json:"package"`
	Catalog   named  `json:"catalog"`
	IsDefault bool   `json:"isDefault"`
	Head      struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"head"`
	Deprecation *deprecation `json:"deprecation,omitempty"`
}

// scope is the filter of what belongs to packages.
func (o getOptions) scope() map[string]any {
	filter := map[string]any{}
	if o.catalog != "" {
		filter["catalog"] = o.catalog
	}
	if o.pkg != "" {
		filter["package"] = o.pkg
	}
	return filter
}

func listChannels(ctx context.Context, s *content.Service, opts getOptions) ([]listed, error) {
	filter := opts.scope()
	if opts.channel != "" {
		filter["name"] = opts.channel
	}
	const query = `query($filter: ChannelFilter, $after: String) { channels(filter: $filter, first: 100, after: $after) {
		nodes { name package { name catalog { name } defaultChannel { name } } head { name version } deprecation { message } }
		pageInfo { hasNextPage endCursor } } }`
	type channel struct {
		channelView
		Package struct {
			Name                    string
			Catalog, DefaultChannel named
		} `json:"package"` // which hides the other
	}
	answer, err := content.All[channel](ctx, s, "", "", query, map[string]any{"filter": filter})
	if err != nil {
		return nil, err
	}
	found := make([]channelView, len(answer))
	for i, c := range answer {
		found[i] = c.channelView
		found[i].Package, found[i].Catalog, found[i].IsDefault = named{c.Package.Name}, c.Package.Catalog, c.Name == c.Package.DefaultChannel.Name
	}
	slices.SortStableFunc(found, func(a, b channelView) int {
		return cmp.Or(cmp.Compare(a.Catalog.Name, b.Catalog.Name), cmp.Compare(a.Package.Name, b.Package.Name), compareNames(a.Name, b.Name))
	})
	return rowsOf(found, "Channel", func(c channelView) listed {
		return listed{catalog: c.Catalog.Name, pkg: c.Package.Name, name: c.Name, row: row{cells: []string{
			c.Name, c.Package.Name, c.Catalog.Name, c.Head.Name, c.Head.Version, notes(c.IsDefault, c.Deprecation),
		}}}
	})
}

var bundleKind = kind{
	names: []string{"bundles", "bundle"},
	columns: []term.Column{
		{Name: "name"}, {Name: "package", Drop: 1, Apart: true}, inCatalog, {Name: "version"}, {Name: "channels", Least: 10, Drop: 2}, note,
		{Name: "image", Wide: true},
	},
	narrow:   true,
	list:     listBundles,
	complete: (*env).completeBundles,
}

type bundleView struct {
	Name        string       `json:"name"`
	Package     named        `json:"package"`
	Catalog     named        `json:"catalog"`
	Version     string       `json:"version"`
	Image       string       `json:"image"`
	Channels    []named      `json:"channels"`
	Deprecation *deprecation `json:"deprecation,omitempty"`
}

func listBundles(ctx context.Context, s *content.Service, opts getOptions) ([]listed, error) {
	filter := opts.scope()
	if opts.channel != "" {
		filter["channel"] = opts.channel
	}
	if len(opts.names) == 1 {
		filter["name"] = opts.names[0]
	}
	// The image alone has to be read from the bundle itself; all else is in the index.
	const query = `query($filter: BundleFilter, $after: String, $full: Boolean!) { bundles(filter: $filter, first: 100, after: $after) {
		nodes { name package { name } catalog { name } version image @include(if: $full) channels { name } deprecation { message } }
		pageInfo { hasNextPage endCursor } } }`
	found, err := content.All[bundleView](ctx, s, "", "", query, map[string]any{"filter": filter, "full": opts.full})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(found, func(a, b bundleView) int {
		return cmp.Or(cmp.Compare(a.Catalog.Name, b.Catalog.Name), cmp.Compare(a.Package.Name, b.Package.Name), fbc.CompareVersions(b.Version, a.Version))
	})
	return rowsOf(found, "Bundle", func(b bundleView) listed {
		var channels []string
		for _, c := range b.Channels {
			channels = append(channels, c.Name)
		}
		return listed{catalog: b.Catalog.Name, pkg: b.Package.Name, name: b.Name, row: row{cells: []string{
			b.Name, b.Package.Name, b.Catalog.Name, b.Version, strings.Join(channels, ", "), notes(false, b.Deprecation), b.Image,
		}}}
	})
}

var deprecationKind = kind{
	names: []string{"deprecations", "deprecation"},
	columns: []term.Column{
		{Name: "package"}, inCatalog, {Name: "kind", Drop: 5}, {Name: "name"}, {Name: "message", Least: 10, Drop: 1},
	},
	list: listDeprecations,
}

type deprecationView struct {
	Package named  `json:"package"`
	Catalog named  `json:"catalog"`
	Kind    string `json:"deprecates"` // package, channel or bundle
	Name    string `json:"name"`
	Message string `json:"message"`
}

func listDeprecations(ctx context.Context, s *content.Service, opts getOptions) ([]listed, error) {
	const query = `query($filter: DeprecationsFilter, $after: String) { deprecations(filter: $filter, first: 100, after: $after) {
		nodes { package { name catalog { name } } entries { reference { schema name } message } }
		pageInfo { hasNextPage endCursor } } }`
	type blob struct {
		Package struct {
			Name    string
			Catalog named
		}
		Entries []struct {
			Reference struct{ Schema, Name string }
			Message   string
		}
	}
	blobs, err := content.All[blob](ctx, s, "", "", query, map[string]any{"filter": opts.scope()})
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
			if opts.channel == "" || (kind == "channel" && name == opts.channel) {
				found = append(found, deprecationView{named{b.Package.Name}, b.Package.Catalog, kind, name, entry.Message})
			}
		}
	}
	return rowsOf(found, "Deprecation", func(d deprecationView) listed {
		return listed{catalog: d.Catalog.Name, pkg: d.Package.Name, name: d.Name, part: d.Kind, row: row{cells: []string{
			d.Package.Name, d.Catalog.Name, d.Kind, d.Name, d.Message,
		}}}
	})
}
