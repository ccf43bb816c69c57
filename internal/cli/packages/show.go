package packages

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// A showRequest selects the bundle to show.
type showRequest struct {
	lookup.Scope
	version string
}

func newShowCommand(s *session.Session) *cobra.Command {
	var req showRequest
	cmd := &cobra.Command{
		Use:        "show PACKAGE",
		SuggestFor: []string{"info", "view"},
		Short:      "Show the details of a package",
		Long: `Show the details of a package: description, provider, channels, provided and required APIs, and
images.

The details are those of the head of the default channel, unless --version or --channel select
another bundle. If several catalogs have the package, the catalog with the highest priority is used,
unless --catalog selects another.`,
		Example: `  kubectl catalog show skupper-operator
  kubectl catalog show skupper-operator --channel stable-1.6
  kubectl catalog show skupper-operator --version 1.8.0 -o yaml`,
		Args:              onePackage("show PACKAGE", "version"),
		ValidArgsFunction: lookup.FirstArgument(lookup.CompletePackages(s)),
	}
	format := output.NewFormat(cmd)
	cmd.Flags().StringVarP(&req.Catalog, "catalog", "c", "", "the package of this `catalog`")
	cmd.Flags().StringVar(&req.version, "version", "", "this `version` of it")
	cmd.Flags().StringVar(&req.Channel, "channel", "", "the head of this `channel`, or the version in it")
	lookup.CompleteFlags(s, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req.Package = args[0]
		details, err := show(cmd.Context(), s, req)
		switch {
		case err != nil:
			return err
		case format.IsTable():
			return details.print(s.Stdout, !format.IsPlain())
		}
		return format.PrintObject(s.Stdout, "Package", details.Name, details)
	}
	return cmd
}

// packageDetails are the result of show.
type packageDetails struct {
	packageView
	Description string         `json:"description"`
	Keywords    []string       `json:"keywords"`
	IconURL     string         `json:"iconUrl,omitempty"`
	Channels    []channelHead  `json:"channels"`
	Bundle      bundleDetails  `json:"bundle"`
	Also        []otherCatalog `json:"otherCatalogs,omitempty"`
}

type channelHead struct {
	Name string `json:"name"`
	Head struct {
		Name        string               `json:"name"`
		Version     string               `json:"version"`
		Deprecation *content.Deprecation `json:"deprecation,omitempty"`
	} `json:"head"`
	Deprecation *content.Deprecation `json:"deprecation,omitempty"`
}

// otherCatalog is a package of the same name in another catalog.
type otherCatalog struct {
	Catalog content.Named `json:"catalog"`
	Version string        `json:"version"`
}

type gvk struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

func (g gvk) String() string {
	return strings.Join(output.WithoutEmpty(g.Kind+"."+g.Version, g.Group), ".")
}

type bundleDetails struct {
	Name             string               `json:"name"`
	Version          string               `json:"version"`
	Image            string               `json:"image"`
	Channels         []content.Named      `json:"channels"`
	Deprecation      *content.Deprecation `json:"deprecation,omitempty"`
	Provides         []gvk                `json:"provides"`
	Requires         []gvk                `json:"requires"`
	RequiredPackages []struct {
		Name  string `json:"packageName"`
		Range string `json:"versionRange"`
	} `json:"requiredPackages"`
	Images []struct {
		Name  string `json:"name"`
		Image string `json:"image"`
	} `json:"relatedImages"`
	CSV *csvDetails `json:"csvMetadata,omitempty"`
}

type csvDetails struct {
	DisplayName    string `json:"displayName"`
	Description    string `json:"description,omitempty"` // moved to packageDetails
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

const packageQuery = `query($name: String!, $catalog: String!) { package(name: $name, catalog: $catalog) {
	name catalog { name } displayName shortDescription description provider keywords categories capabilities version iconUrl
	defaultChannel { name } deprecation { message }
	channels { name deprecation { message } head { name version deprecation { message } } } } }`

// show reads a package and one of its bundles.
func show(ctx context.Context, s *session.Session, req showRequest) (*packageDetails, error) {
	p, found, err := queryPackage[packageDetails](ctx, s, &req.Scope, packageQuery)
	if err != nil {
		return nil, err
	}
	service := found[0].Service
	slices.SortStableFunc(p.Channels, func(a, b channelHead) int { return compareNames(a.Name, b.Name) })
	for _, other := range found[1:] {
		p.Also = append(p.Also, otherCatalog{content.Named{Name: other.Catalog.Name}, other.Version})
	}
	name, err := bundleName(ctx, service, p, req)
	if err != nil {
		return nil, err
	}
	if p.Bundle, err = readBundle(ctx, service, req.Scope, name); err != nil {
		return nil, err
	}
	if csv := p.Bundle.CSV; csv != nil { // the package's fields are those of the default channel's head
		p.DisplayName = cmp.Or(csv.DisplayName, p.DisplayName)
		p.Description = cmp.Or(csv.Description, p.Description)
		csv.Description = ""
		p.Provider = cmp.Or(csv.Provider.Name, p.Provider)
	}
	return p, nil
}

// bundleName returns the name of the requested bundle.
func bundleName(ctx context.Context, service *content.Service, p *packageDetails, req showRequest) (string, error) {
	channel := cmp.Or(req.Channel, p.DefaultChannel.Name)
	at := slices.IndexFunc(p.Channels, func(c channelHead) bool { return c.Name == channel })
	if at < 0 {
		var channels []string
		for _, c := range p.Channels {
			channels = append(channels, c.Name)
		}
		return "", noChannel(channel, channels, req.Scope)
	}
	if req.version == "" {
		return p.Channels[at].Head.Name, nil
	}
	bundles, err := lookup.Bundles(ctx, service, req.Scope)
	if err != nil {
		return "", err
	}
	var versions []string
	for _, b := range bundles {
		if b.Version == strings.TrimPrefix(req.version, "v") || b.Name == req.version {
			return b.Name, nil
		}
		versions = append(versions, b.Version)
	}
	slices.SortStableFunc(versions, func(a, b string) int { return fbc.CompareVersions(b, a) })
	return "", exit.NotFoundf("version %q not found%s%s", req.version, req.Scope, lookup.OrListed(req.version, versions))
}

const bundleQuery = `query($filter: BundleFilter) { bundles(filter: $filter, first: 1) { nodes {
	name version image channels { name } deprecation { message }
	provides { group version kind } requires { group version kind } requiredPackages { packageName versionRange }
	relatedImages { name image }
	csvMetadata { displayName description maturity minKubeVersion provider { name url } maintainers { name email } links { name url }
		installModes { type supported } customResourceDefinitions { owned { name version kind displayName description } } } } } }`

func readBundle(ctx context.Context, service *content.Service, in lookup.Scope, name string) (bundleDetails, error) {
	var answer struct {
		Bundles struct{ Nodes []bundleDetails }
	}
	variables := map[string]any{"filter": content.Variables("catalog", in.Catalog, "package", in.Package, "name", name)}
	if err := service.Query(ctx, "", "", bundleQuery, variables, &answer); err != nil {
		return bundleDetails{}, err
	}
	if len(answer.Bundles.Nodes) == 0 {
		return bundleDetails{}, exit.NotFoundf("bundle %q of package %q not found: catalog %q changed during the request; retry",
			name, in.Package, in.Catalog)
	}
	return answer.Bundles.Nodes[0], nil
}
