package packages

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/version"
)

func newProvidersCommand(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "providers KIND[.GROUP]",
		Short: "List the packages that provide or require an API",
		Long: `List the packages that provide or require an API, with the range of their versions that do.

Name the API by KIND, KIND.GROUP, KIND.VERSION.GROUP or, as kubectl names resources, by its plural:
kafkas.kafka.strimzi.io. The note marks packages whose current version no longer provides or
requires it.`,
		Example: `  kubectl catalog providers DBaaSInventory
  kubectl catalog providers DBaaSInventory.dbaas.redhat.com -o yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || strings.Trim(args[0], ".") == "" {
				return exit.Usagef("specify an API: kubectl catalog providers KIND[.GROUP]")
			}
			return nil
		},
		ValidArgsFunction: lookup.FirstArgument(lookup.Complete(s, apiNames)),
	}
	format := output.NewFormat(cmd)
	var catalog string
	cmd.Flags().StringVarP(&catalog, "catalog", "c", "", "only of this `catalog`")
	lookup.CompleteFlags(s, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		users, err := providers(cmd.Context(), s, catalog, parseAPI(args[0]))
		if err != nil {
			return err
		}
		var rows []output.Row
		for _, u := range users {
			outdated := ""
			if !u.Current {
				outdated = "no longer"
			}
			row, err := output.NewRow("Provider", u.Package.Name, u,
				u.Package.Name, u.Catalog.Name, u.Does, u.API.String(), u.From, u.To, outdated)
			if err != nil {
				return err
			}
			rows = append(rows, row)
		}
		return format.Print(s.Stdout, known(providerColumns, lookup.Scope{Catalog: catalog}), rows, false)
	}
	return cmd
}

var providerColumns = []output.Column{
	{Name: "package"}, catalogColumn,
	{Name: "does", Least: 5, Style: output.ByValue(map[string]output.Style{provides: output.Green, requires: output.Yellow})},
	{Name: "API"}, {Name: "from", Drop: 1}, {Name: "to", Drop: 2}, note,
}

// Values of apiUser.Does.
const (
	provides = "provides"
	requires = "needs"
)

// apiVersion matches versions of APIs.
var apiVersion = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)

// parseAPI parses KIND, KIND.GROUP and KIND.VERSION.GROUP.
func parseAPI(text string) gvk {
	kind, rest, _ := strings.Cut(text, ".")
	api := gvk{Kind: kind, Group: rest}
	if version, group, _ := strings.Cut(rest, "."); apiVersion.MatchString(version) {
		api.Version, api.Group = version, group
	}
	return api
}

// name returns the API as parseAPI reads it.
func (g gvk) name() string { return strings.Join(output.WithoutEmpty(g.Kind, g.Version, g.Group), ".") }

// matches reports whether an API is the requested one, by its kind in any case or by its resource.
func (g gvk) matches(wanted gvk) bool {
	if (wanted.Group != "" && wanted.Group != g.Group) || (wanted.Version != "" && wanted.Version != g.Version) {
		return false
	}
	plural, singular := meta.UnsafeGuessKindToResource(schema.GroupVersionKind(g))
	kind := strings.ToLower(wanted.Kind)
	return kind == singular.Resource || kind == plural.Resource
}

// An apiUser is a package that provides or requires an API in a range of its versions.
type apiUser struct {
	Package content.Named `json:"package"`
	Catalog content.Named `json:"catalog"`
	Does    string        `json:"does"`
	API     gvk           `json:"api"`
	version.Range
}

// providers returns the packages that provide or require an API, sorted. None is an error.
func providers(ctx context.Context, s *session.Session, catalog string, wanted gvk) ([]apiUser, error) {
	users, err := lookup.FromEach(ctx, s, catalog, func(service *content.Service) ([]apiUser, error) {
		return apiUsers(ctx, service, catalog, wanted)
	})
	if err == nil && len(users) == 0 {
		err = noAPI(ctx, s, catalog, wanted)
	}
	slices.SortFunc(users, func(a, b apiUser) int {
		return cmp.Or(-cmp.Compare(a.Does, b.Does), cmp.Compare(a.API.Kind, b.API.Kind), cmp.Compare(a.API.Group, b.API.Group),
			cmp.Compare(a.Package.Name, b.Package.Name), cmp.Compare(a.Catalog.Name, b.Catalog.Name),
			cmp.Compare(a.API.Version, b.API.Version))
	})
	return users, err
}

// noAPI returns the error of an API that no package provides or requires.
func noAPI(ctx context.Context, s *session.Session, catalog string, wanted gvk) error {
	completions, err := apiNames(ctx, s, lookup.Scope{Catalog: catalog})
	if err != nil {
		return err
	}
	var names []string
	for _, c := range completions {
		name, _, _ := strings.Cut(c, "\t")
		if kind, _, _ := strings.Cut(name, "."); wanted.Group == "" {
			name = kind
		}
		names = append(names, name)
	}
	slices.Sort(names)
	show := "kubectl catalog show " + wanted.name() + " lists its APIs"
	hint := cmp.Or(lookup.IfPackage(ctx, s, wanted.name(), show), lookup.DidYouMean(wanted.name(), slices.Compact(names)),
		"; kubectl catalog search WORDS also finds packages by their APIs")
	return exit.NotFoundf("no package%s provides or requires %q%s", lookup.Scope{Catalog: catalog}, wanted.name(), hint)
}

// apiNames returns the APIs that the current versions of the packages provide.
func apiNames(ctx context.Context, s *session.Session, in lookup.Scope) ([]cobra.Completion, error) {
	return lookup.NamesFrom(ctx, s, in.Catalog, func(service *content.Service) ([]cobra.Completion, error) {
		packages, err := providedAPIs(ctx, service, in.Catalog)
		var names []cobra.Completion
		for _, p := range packages {
			for _, api := range p.Provides {
				names = append(names, lookup.Completion(gvk{Kind: api.Kind, Group: api.Group}.name(), p.DisplayName))
			}
		}
		return names, err
	})
}

// A provider is a package with the APIs of its default head.
type provider struct {
	DisplayName string
	Provides    []gvk
}

func providedAPIs(ctx context.Context, service *content.Service, catalog string) ([]provider, error) {
	const query = `query($filter: PackageFilter, $after: String) { packages(filter: $filter, first: 100, after: $after) {
		nodes { displayName provides { group version kind } } pageInfo { hasNextPage endCursor } } }`
	return content.All[provider](ctx, service, "", "", query, map[string]any{"filter": content.Variables("catalog", catalog)})
}

// apiUsers returns the packages of a service that provide or require an API.
func apiUsers(ctx context.Context, service *content.Service, catalog string, wanted gvk) ([]apiUser, error) {
	kinds, err := matchingKinds(ctx, service, catalog, wanted)
	if err != nil {
		return nil, err
	}
	var users []apiUser
	for _, kind := range kinds {
		filter := content.Variables("catalog", catalog)
		filter["provides"] = content.Variables("kind", kind, "group", wanted.Group, "version", wanted.Version)
		bundles, err := bundleAPIs(ctx, service, "provides", filter)
		if err != nil {
			return nil, err
		}
		users = append(users, mergeUsers(bundles, provides, func(api gvk) bool {
			return api.Kind == kind && (wanted.Group == "" || api.Group == wanted.Group) &&
				(wanted.Version == "" || api.Version == wanted.Version)
		})...)
	}
	bundles, err := bundleAPIs(ctx, service, "requires", content.Variables("catalog", catalog, "property", "olm.gvk.required"))
	return append(users, mergeUsers(bundles, requires, func(api gvk) bool { return api.matches(wanted) })...), err
}

// matchingKinds returns the spellings of a kind: the requested one, and the matching ones that packages provide.
func matchingKinds(ctx context.Context, service *content.Service, catalog string, wanted gvk) ([]string, error) {
	packages, err := providedAPIs(ctx, service, catalog)
	if err != nil {
		return nil, err
	}
	kinds := []string{wanted.Kind}
	for _, p := range packages {
		for _, api := range p.Provides {
			if api.matches(gvk{Kind: wanted.Kind, Group: wanted.Group}) {
				kinds = append(kinds, api.Kind)
			}
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds), nil
}

// An apiBundle is a version of a package with its APIs.
type apiBundle struct {
	Version string
	Catalog content.Named
	Package struct{ Name, Version string }
	APIs    []gvk
}

// bundleAPIs returns bundles with the APIs of a field: provides or requires.
func bundleAPIs(ctx context.Context, s *content.Service, field string, filter map[string]any) ([]apiBundle, error) {
	query := `query($filter: BundleFilter, $after: String) { bundles(filter: $filter, first: 100, after: $after) {
		nodes { version catalog { name } package { name version } APIs: ` + field + ` { group version kind } }
		pageInfo { hasNextPage endCursor } } }`
	return content.All[apiBundle](ctx, s, "", "", query, map[string]any{"filter": filter})
}

// mergeUsers merges the bundles of a package that use the same API.
func mergeUsers(bundles []apiBundle, does string, wanted func(gvk) bool) []apiUser {
	type key struct {
		catalog, pkg string
		api          gvk
	}
	found := map[key]*apiUser{}
	for _, b := range bundles {
		for _, api := range b.APIs {
			if !wanted(api) {
				continue
			}
			at := key{b.Catalog.Name, b.Package.Name, api}
			if found[at] == nil {
				found[at] = &apiUser{Package: content.Named{Name: b.Package.Name}, Catalog: b.Catalog, Does: does, API: api}
			}
			found[at].Add(b.Version, b.Package.Version)
		}
	}
	var users []apiUser
	for _, u := range found {
		users = append(users, *u)
	}
	return users
}
