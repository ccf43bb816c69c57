package cli

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
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/fbc"
)

func newProvidersCmd(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "providers KIND[.GROUP]",
		Short: "List the packages that provide an API, and those that need it",
		Long: `List the packages that provide an API, and those that need it, with the versions of them that do.

The API is named by its kind, KIND.GROUP, KIND.VERSION.GROUP or, as kubectl names resources, by its plural: kafkas.kafka.strimzi.io. The note says
which packages no longer do in their current version.`,
		Example: `  kubectl catalog providers DBaaSInventory
  kubectl catalog providers DBaaSInventory.dbaas.redhat.com -o yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || strings.Trim(args[0], ".") == "" {
				return usagef("say which API, by its kind: kubectl catalog providers KIND[.GROUP]")
			}
			return nil
		},
		ValidArgsFunction: firstArgument(func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return complete(cmd, args, prefix, e.apiNames)
		}),
	}
	out := newOutput(cmd)
	var catalog string
	cmd.Flags().StringVarP(&catalog, "catalog", "c", "", "only of this `catalog`")
	e.completeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return e.providers(cmd.Context(), out, catalog, parseAPI(args[0]))
	}
	return cmd
}

var providerColumns = []term.Column{
	{Name: "package"}, inCatalog, {Name: "does", Least: 5, Style: term.ByValue(map[string]term.Style{provides: term.Green, requires: term.Yellow})},
	{Name: "API"}, {Name: "from", Drop: 1}, {Name: "to", Drop: 2}, note,
}

// What a package does with an API.
const (
	provides = "provides"
	requires = "needs"
)

// apiVersion matches the versions that APIs have.
var apiVersion = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)

// parseAPI reads KIND, KIND.GROUP and KIND.VERSION.GROUP.
func parseAPI(text string) gvk {
	kind, rest, _ := strings.Cut(text, ".")
	api := gvk{Kind: kind, Group: rest}
	if version, group, _ := strings.Cut(rest, "."); apiVersion.MatchString(version) {
		api.Version, api.Group = version, group
	}
	return api
}

// name is how the API was asked for.
func (g gvk) name() string {
	return strings.Join(withoutEmpty([]string{g.Kind, g.Version, g.Group}), ".")
}

// matches tells whether an API is one that was asked for: by its kind in any case, or as a resource.
func (g gvk) matches(asked gvk) bool {
	if (asked.Group != "" && asked.Group != g.Group) || (asked.Version != "" && asked.Version != g.Version) {
		return false
	}
	plural, singular := meta.UnsafeGuessKindToResource(schema.GroupVersionKind(g))
	kind := strings.ToLower(asked.Kind)
	return kind == singular.Resource || kind == plural.Resource
}

// apiUser is a package that provides or needs an API, in the versions from the lowest to the highest that do.
type apiUser struct {
	Package  named  `json:"package"`
	Catalog  named  `json:"catalog"`
	Does     string `json:"does"`
	API      gvk    `json:"api"`
	From     string `json:"from"`
	To       string `json:"to"`
	Versions int    `json:"versions"` // how many
	Current  bool   `json:"current"`  // whether the current version is one of them
}

func (e *env) providers(ctx context.Context, out *output, catalog string, asked gvk) error {
	users, err := fromEach(ctx, e, catalog, func(service *content.Service) ([]apiUser, error) { return apiUsers(ctx, service, catalog, asked) })
	if err != nil {
		return err
	}
	if len(users) == 0 {
		return e.noAPI(ctx, catalog, asked)
	}
	slices.SortFunc(users, func(a, b apiUser) int {
		return cmp.Or(-cmp.Compare(a.Does, b.Does), cmp.Compare(a.API.Kind, b.API.Kind), cmp.Compare(a.API.Group, b.API.Group),
			cmp.Compare(a.Package.Name, b.Package.Name), cmp.Compare(a.Catalog.Name, b.Catalog.Name), cmp.Compare(a.API.Version, b.API.Version))
	})
	var rows []row
	for _, u := range users {
		object, err := view("Provider", u.Package.Name, u)
		if err != nil {
			return err
		}
		no := ""
		if !u.Current {
			no = "no longer"
		}
		rows = append(rows, row{object: object, cells: []string{u.Package.Name, u.Catalog.Name, u.Does, u.API.String(), u.From, u.To, no}})
	}
	return out.print(e.stdout, getOptions{catalog: catalog}.known(providerColumns), rows, false)
}

// noAPI is the error of an API that is in no catalog.
func (e *env) noAPI(ctx context.Context, catalog string, asked gvk) error {
	completions, err := e.apiNames(ctx, completionScope{catalog: catalog})
	if err != nil {
		return err
	}
	var names []string
	for _, c := range completions {
		name, _, _ := strings.Cut(c, "\t")
		if kind, _, _ := strings.Cut(name, "."); asked.Group == "" {
			name = kind
		}
		names = append(names, name)
	}
	slices.Sort(names)
	hint := cmp.Or(e.orPackage(ctx, asked.name(), "kubectl catalog show "+asked.name()+" lists what it provides and needs"),
		didYouMean(asked.name(), slices.Compact(names)), ": kubectl catalog search WORDS finds packages by the kinds that they provide, too")
	return notFoundf("no package%s provides or needs %q%s", getOptions{catalog: catalog}.where(), asked.name(), hint)
}

// apiNames are the APIs that the current versions of the packages provide.
func (e *env) apiNames(ctx context.Context, in completionScope) ([]cobra.Completion, error) {
	services, err := e.servicesFor(ctx, in.catalog)
	if err != nil {
		return nil, err
	}
	var names []cobra.Completion
	for _, service := range services {
		packages, failed := providingPackages(ctx, service, in.catalog)
		err = cmp.Or(err, failed)
		for _, p := range packages {
			for _, api := range p.Provides {
				names = append(names, completion(gvk{Kind: api.Kind, Group: api.Group}.name(), p.DisplayName))
			}
		}
	}
	return names, err
}

// providingPackage is a package with what its head provides.
type providingPackage struct {
	DisplayName string
	Provides    []gvk
}

func providingPackages(ctx context.Context, service *content.Service, catalog string) ([]providingPackage, error) {
	const query = `query($filter: PackageFilter, $after: String) { packages(filter: $filter, first: 100, after: $after) {
		nodes { displayName provides { group version kind } } pageInfo { hasNextPage endCursor } } }`
	return content.All[providingPackage](ctx, service, "", "", query, map[string]any{"filter": given("catalog", catalog)})
}

// apiBundle is a version of a package, with its APIs.
type apiBundle struct {
	Version string
	Catalog named
	Package struct{ Name, Version string }
	APIs    []gvk
}

// apiUsers finds who provides or needs an API.
func apiUsers(ctx context.Context, service *content.Service, catalog string, asked gvk) ([]apiUser, error) {
	kinds, err := kindsOf(ctx, service, catalog, asked)
	if err != nil {
		return nil, err
	}
	var users []apiUser
	for _, kind := range kinds {
		const query = `query($filter: BundleFilter, $after: String) { bundles(filter: $filter, first: 100, after: $after) {
			nodes { version catalog { name } package { name version } APIs: provides { group version kind } } pageInfo { hasNextPage endCursor } } }`
		filter := map[string]any{"provides": given("kind", kind, "group", asked.Group, "version", asked.Version)}
		some, err := usersOf(ctx, service, catalog, query, filter, provides, func(api gvk) bool {
			return api.Kind == kind && (asked.Group == "" || api.Group == asked.Group) && (asked.Version == "" || api.Version == asked.Version)
		})
		if err != nil {
			return nil, err
		}
		users = append(users, some...)
	}
	const query = `query($filter: BundleFilter, $after: String) { bundles(filter: $filter, first: 100, after: $after) {
		nodes { version catalog { name } package { name version } APIs: requires { group version kind } } pageInfo { hasNextPage endCursor } } }`
	some, err := usersOf(ctx, service, catalog, query, map[string]any{"property": "olm.gvk.required"}, requires, func(api gvk) bool { return api.matches(asked) })
	return append(users, some...), err
}

// kindsOf are the kinds that an API may have, as it is written: the one that was asked for, and those that packages provide by such a name.
func kindsOf(ctx context.Context, service *content.Service, catalog string, asked gvk) ([]string, error) {
	packages, err := providingPackages(ctx, service, catalog)
	if err != nil {
		return nil, err
	}
	kinds := []string{asked.Kind}
	for _, p := range packages {
		for _, api := range p.Provides {
			if api.matches(gvk{Kind: asked.Kind, Group: asked.Group}) {
				kinds = append(kinds, api.Kind)
			}
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds), nil
}

// usersOf lists bundles, and puts together those of a package that do the same with the same API.
func usersOf(ctx context.Context, s *content.Service, catalog, query string, filter map[string]any, does string, wanted func(gvk) bool) ([]apiUser, error) {
	if catalog != "" {
		filter["catalog"] = catalog
	}
	bundles, err := content.All[apiBundle](ctx, s, "", "", query, map[string]any{"filter": filter})
	if err != nil {
		return nil, err
	}
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
			u := found[at]
			if u == nil {
				u = &apiUser{Package: named{b.Package.Name}, Catalog: b.Catalog, Does: does, API: api, From: b.Version, To: b.Version}
				found[at] = u
			}
			u.add(b.Version, b.Package.Version)
		}
	}
	var users []apiUser
	for _, u := range found {
		users = append(users, *u)
	}
	return users, nil
}

// add counts a version of the package in; current is its version now.
func (u *apiUser) add(version, current string) {
	if fbc.CompareVersions(version, u.From) < 0 {
		u.From = version
	}
	if fbc.CompareVersions(version, u.To) > 0 {
		u.To = version
	}
	u.Versions++
	u.Current = u.Current || version == current
}
