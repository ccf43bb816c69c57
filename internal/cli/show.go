package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// showOptions say of what to show a page.
type showOptions struct {
	pkg, catalog, version, channel string
}

func newShowCmd(e *env) *cobra.Command {
	var opts showOptions
	cmd := &cobra.Command{
		Use:        "show PACKAGE",
		SuggestFor: []string{"info", "view"},
		Short:      "Show a page about a package",
		Long: `Show a page about a package: what it is and who provides it, its channels, the APIs it provides and needs, its images.

It is of the head of the default channel, unless --version or --channel say another. A package that several catalogs have is shown as the one with
the highest priority has it, unless --catalog says which.`,
		Example: `  kubectl catalog show skupper-operator
  kubectl catalog show skupper-operator --channel stable-1.6
  kubectl catalog show skupper-operator --version 1.8.0 -o yaml`,
		Args:              onePackage("show PACKAGE", "version"),
		ValidArgsFunction: firstArgument(e.completePackages),
	}
	out := newOutput(cmd)
	cmd.Flags().StringVarP(&opts.catalog, "catalog", "c", "", "the package of this `catalog`")
	cmd.Flags().StringVar(&opts.version, "version", "", "this `version` of it")
	cmd.Flags().StringVar(&opts.channel, "channel", "", "the head of this `channel`, or the version in it")
	e.completeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		opts.pkg = args[0]
		return e.show(cmd.Context(), out, opts)
	}
	return cmd
}

func (e *env) show(ctx context.Context, out *output, opts showOptions) error {
	p, err := e.page(ctx, opts)
	if err != nil {
		return err
	}
	if out.isTable() {
		p.wide = !out.isPlain()
		return e.printPage(p)
	}
	object, err := view("Package", p.Name, p)
	if err != nil {
		return err
	}
	return out.print(e.stdout, nil, []row{{object: object}}, true)
}

// A packagePage is all that is shown of a package.
type packagePage struct {
	packageView
	Description string        `json:"description"`
	Keywords    []string      `json:"keywords"`
	IconURL     string        `json:"iconUrl,omitempty"`
	Channels    []pageChannel `json:"channels"`
	Bundle      pageBundle    `json:"bundle"`
	Also        []pageOther   `json:"otherCatalogs,omitempty"`

	wide bool // whether nothing is cut
}

type pageChannel struct {
	Name string `json:"name"`
	Head struct {
		Name        string       `json:"name"`
		Version     string       `json:"version"`
		Deprecation *deprecation `json:"deprecation,omitempty"`
	} `json:"head"`
	Deprecation *deprecation `json:"deprecation,omitempty"`
}

// pageOther is a package of the same name elsewhere.
type pageOther struct {
	Catalog named  `json:"catalog"`
	Version string `json:"version"`
}

type gvk struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

func (g gvk) String() string {
	if g.Group == "" {
		return g.Kind + "." + g.Version
	}
	return g.Kind + "." + g.Version + "." + g.Group
}

type pageBundle struct {
	Name             string       `json:"name"`
	Version          string       `json:"version"`
	Image            string       `json:"image"`
	Channels         []named      `json:"channels"`
	Deprecation      *deprecation `json:"deprecation,omitempty"`
	Provides         []gvk        `json:"provides"`
	Requires         []gvk        `json:"requires"`
	RequiredPackages []struct {
		Name  string `json:"packageName"`
		Range string `json:"versionRange"`
	} `json:"requiredPackages"`
	Images []struct {
		Name  string `json:"name"`
		Image string `json:"image"`
	} `json:"relatedImages"`
	CSV *pageCSV `json:"csvMetadata,omitempty"`
}

type pageCSV struct {
	DisplayName    string `json:"displayName"`
	Description    string `json:"description,omitempty"` // moves to the page
	Maturity       string `json:"maturity"`
	MinKubeVersion string `json:"minKubeVersion"`
	Provider       struct {
		Name string `json:"name"`
		URL  string `json:"url"`
	} `json:"provider"`
	Maintainers []struct {
		Name  string `json:"name"`
		Email string `json:"email"`
	} `json:"maintainers"`
	Links []struct {
		Name string `json:"name"`
		URL  string `json:"url"`
	} `json:"links"`
	InstallModes []struct {
		Type      string `json:"type"`
		Supported bool   `json:"supported"`
	} `json:"installModes"`
	CRDs struct {
		Owned []struct {
			Name        string `json:"name"`
			Version     string `json:"version"`
			Kind        string `json:"kind"`
			DisplayName string `json:"displayName"`
			Description string `json:"description"`
		} `json:"owned"`
	} `json:"customResourceDefinitions"`
}

const pageQuery = `query($name: String!, $catalog: String!) { package(name: $name, catalog: $catalog) {
	name catalog { name } displayName shortDescription description provider keywords categories capabilities version iconUrl
	defaultChannel { name } deprecation { message }
	channels { name deprecation { message } head { name version deprecation { message } } } } }`

// page reads what is to be shown.
func (e *env) page(ctx context.Context, opts showOptions) (*packagePage, error) {
	places, err := e.place(ctx, opts.pkg, opts.catalog)
	if err != nil {
		return nil, err
	}
	at := places[0]
	opts.pkg, opts.catalog = at.Name, at.Catalog.Name
	var answer struct{ Package *packagePage }
	if err := at.service.Query(ctx, "", "", pageQuery, map[string]any{"name": opts.pkg, "catalog": opts.catalog}, &answer); err != nil {
		return nil, err
	}
	p := answer.Package
	if p == nil {
		return nil, e.noPackage(ctx, opts.pkg, opts.catalog) // it has just been removed
	}
	slices.SortStableFunc(p.Channels, func(a, b pageChannel) int { return compareNames(a.Name, b.Name) })
	for _, other := range places[1:] {
		p.Also = append(p.Also, pageOther{named{other.Catalog.Name}, other.Version})
	}
	name, err := e.pageBundleName(ctx, at.service, p, opts)
	if err != nil {
		return nil, err
	}
	if p.Bundle, err = readBundle(ctx, at.service, opts.catalog, opts.pkg, name); err != nil {
		return nil, err
	}
	if csv := p.Bundle.CSV; csv != nil { // the package has these of the head of its default channel
		p.DisplayName = cmp.Or(csv.DisplayName, p.DisplayName)
		p.Description = cmp.Or(csv.Description, p.Description)
		csv.Description = ""
		p.Provider = cmp.Or(csv.Provider.Name, p.Provider)
	}
	return p, nil
}

// pageBundleName returns the name of the bundle that is to be shown.
func (e *env) pageBundleName(ctx context.Context, service *content.Service, p *packagePage, opts showOptions) (string, error) {
	channel := cmp.Or(opts.channel, p.DefaultChannel.Name)
	var channels []named
	head := ""
	for _, c := range p.Channels {
		channels = append(channels, named{c.Name})
		if c.Name == channel {
			head = c.Head.Name
		}
	}
	if head == "" {
		return "", noChannel(channel, channels, p.Name, p.Catalog.Name)
	}
	if opts.version == "" {
		return head, nil
	}
	bundles, err := content.All[completedBundle](ctx, service, "", "", completedBundles,
		given("catalog", p.Catalog.Name, "package", p.Name, "channel", opts.channel))
	if err != nil {
		return "", err
	}
	var versions []string
	for _, b := range bundles {
		if b.Version == strings.TrimPrefix(opts.version, "v") || b.Name == opts.version {
			return b.Name, nil
		}
		versions = append(versions, b.Version)
	}
	slices.SortStableFunc(versions, func(a, b string) int { return fbc.CompareVersions(b, a) })
	in := getOptions{channel: opts.channel, pkg: p.Name, catalog: p.Catalog.Name}.where()
	return "", notFoundf("there is no version %q%s%s", opts.version, in, orListed(opts.version, versions))
}

const bundleQuery = `query($filter: BundleFilter) { bundles(filter: $filter, first: 1) { nodes {
	name version image channels { name } deprecation { message }
	provides { group version kind } requires { group version kind } requiredPackages { packageName versionRange }
	relatedImages { name image }
	csvMetadata { displayName description maturity minKubeVersion provider { name url } maintainers { name email } links { name url }
		installModes { type supported } customResourceDefinitions { owned { name version kind displayName description } } } } } }`

func readBundle(ctx context.Context, service *content.Service, catalog, pkg, name string) (pageBundle, error) {
	var answer struct{ Bundles struct{ Nodes []pageBundle } }
	variables := map[string]any{"filter": given("catalog", catalog, "package", pkg, "name", name)}
	if err := service.Query(ctx, "", "", bundleQuery, variables, &answer); err != nil {
		return pageBundle{}, err
	}
	if len(answer.Bundles.Nodes) == 0 {
		return pageBundle{}, notFoundf("the bundle %q of package %q is no longer in catalog %q, which has just changed: try again", name, pkg, catalog)
	}
	return answer.Bundles.Nodes[0], nil
}
