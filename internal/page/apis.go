package page

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"

	"github.com/operator-catalogs/catalogd/internal/version"
)

// Limits of the pages of APIs.
const (
	coreGroup      = "-"    // in URLs
	maxConnections = 50     // pages of one connection; each takes milliseconds
	maxKinds       = 1000   // in the list of kinds
	maxProvided    = 10_000 // kinds that are searched: the limit of the API
	maxSuggestions = 5
	maxSpellings   = 5  // of a group, by case, that are looked up
	maxKindName    = 63 // characters of a kind that similar ones are found for, as in CustomResourceDefinitions
)

// Name returns Kind.group, or only the kind in the core group.
func (g gvk) Name() string { return strings.TrimSuffix(g.Kind+"."+g.Group, ".") }

// is reports whether two APIs have the same kind and group, ignoring case.
func (g gvk) is(other gvk) bool {
	return strings.EqualFold(g.Kind, other.Kind) && strings.EqualFold(g.Group, other.Group)
}

// apiURL returns the URL of the page of a kind.
func apiURL(root, catalog string, g gvk) string {
	if catalog == "" {
		return root + g.URL()
	}
	return root + g.URL() + stateURL(url.Values{"catalog": {catalog}})
}

// apiView is the data of api.html: the packages that provide or require a kind.
type apiView struct {
	API         gvk
	Catalog     string // empty: all
	All         string // the URL for all catalogs
	Lists       []apiUsers
	Suggestions []kindLink // if there are no packages
	Partial     []string   // errors of catalogs that could not be read
}

// Title implements titled.
func (v apiView) Title() string { return v.API.Kind }

// apiUsers are the packages that provide, or require, a kind.
type apiUsers struct {
	Title, None string
	Users       []apiUser
}

// apiUser is a package whose versions From to To provide or require an API.
type apiUser struct {
	Catalog, Package, URL string
	Version               string // of the API
	version.Range                // the current version is Head
	Head                  string // the version of the head of the default channel
}

// kindLink is a kind with its URL and the number of packages that provide it.
type kindLink struct {
	Kind, Group, URL string
	Packages         int
}

// apiBundle is a bundle with the APIs that it provides or requires.
type apiBundle struct {
	Version string
	Catalog struct{ Name string }
	Package struct{ Name, Version string }
	APIs    []gvk
}

func loadAPI(r *request) (any, error) {
	wanted := gvk{Group: r.PathValue("group"), Kind: r.PathValue("kind")}
	if wanted.Group == coreGroup {
		wanted.Group = ""
	}
	v := apiView{API: wanted, Catalog: r.values.Get("catalog"), All: apiURL(r.root, "", wanted)}
	spellings, partial, err := r.api.spellings(v.Catalog, wanted)
	if err != nil {
		return nil, err
	}
	v.Partial = partial
	filters := map[apiFilter]bool{filterOf(wanted): true, filterOf(gvk{Group: strings.ToLower(wanted.Group), Kind: wanted.Kind}): true}
	for _, api := range spellings {
		if len(filters) < maxSpellings {
			v.API, filters[filterOf(api)] = api, true
		}
	}
	providers := apiUsers{Title: "Provided by", None: "No package provides this kind."}
	for filter := range filters {
		bundles, partial, err := r.api.bundleAPIs(v.Catalog, "provides", map[string]any{"provides": filter})
		if err != nil {
			return nil, err
		}
		v.Partial = append(v.Partial, partial...)
		providers.add(r.root, bundles, func(api gvk) bool { return api.is(wanted) && filterOf(api) == filter })
	}
	requirers := apiUsers{Title: "Required by", None: "No package requires this kind."}
	bundles, partial, err := r.api.bundleAPIs(v.Catalog, "requires", map[string]any{"property": "olm.gvk.required"})
	if err != nil {
		return nil, err
	}
	v.Partial = append(v.Partial, partial...)
	slices.Sort(v.Partial) // each query has the errors of a catalog that could not be read
	v.Partial = slices.Compact(v.Partial)
	requirers.add(r.root, bundles, wanted.is)
	v.Lists = []apiUsers{providers, requirers}
	if len(providers.Users)+len(requirers.Users) == 0 {
		provided, _, err := r.api.providedKinds(v.Catalog)
		if err != nil {
			return nil, err
		}
		v.Suggestions = similarKinds(r.root, v.Catalog, wanted, provided)
	}
	return v, nil
}

// apiFilter is a GVKFilter of the API, which is case-sensitive.
type apiFilter struct {
	Group string `json:"group,omitempty"`
	Kind  string `json:"kind,omitempty"`
}

// filterOf returns a filter for an API: by group, so the kind matches in any case, or by kind in the core group.
func filterOf(api gvk) apiFilter {
	if api.Group != "" {
		return apiFilter{Group: api.Group}
	}
	return apiFilter{Kind: api.Kind}
}

// Packages returns the number of packages. A package with several versions of the API has several users.
func (l apiUsers) Packages() int {
	found := map[[2]string]bool{}
	for _, u := range l.Users {
		found[[2]string{u.Catalog, u.Package}] = true
	}
	return len(found)
}

// add adds the packages whose bundles have a wanted API, sorted by name.
func (l *apiUsers) add(root string, bundles []apiBundle, wanted func(gvk) bool) {
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
				found[at] = &apiUser{
					Catalog: b.Catalog.Name, Package: b.Package.Name, URL: packageURL(root, b.Catalog.Name, "", b.Package.Name),
					Version: api.Version, Head: b.Package.Version,
				}
			}
			found[at].Add(b.Version, b.Package.Version)
		}
	}
	for _, u := range found {
		l.Users = append(l.Users, *u)
	}
	slices.SortFunc(l.Users, func(a, b apiUser) int {
		return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(a.Catalog, b.Catalog), cmp.Compare(a.Version, b.Version))
	})
}

// providedKinds returns the number of packages whose heads provide each kind. Kinds have no versions. The most frequent kinds are
// enough for a catalog with more than maxProvided.
func (a api) providedKinds(catalog string) (map[gvk]int, []string, error) {
	var reply packagesReply
	const query = `query($first: Int) { packages(first: 1) { facets(names: [KIND], first: $first) { values { value count } } } }`
	partial, err := a.query(catalog, "", query, map[string]any{"first": maxProvided}, &reply)
	kinds := map[gvk]int{}
	for _, f := range reply.Packages.Facets {
		for _, v := range f.Values {
			kind, group, _ := strings.Cut(v.Value, ".")
			kinds[gvk{Group: group, Kind: kind}] = v.Count
		}
	}
	return kinds, partial, err
}

// spellings returns the spellings of a kind and its group by the first packages whose heads provide it.
func (a api) spellings(catalog string, wanted gvk) (found []gvk, partial []string, err error) {
	var reply struct {
		Packages struct{ Nodes []struct{ Provides []gvk } }
	}
	const query = `query($kinds: [String!]!) { packages(filter: {facets: [{name: KIND, values: $kinds}]}, first: 100) {
		nodes { provides { group kind } } } }`
	partial, err = a.query(catalog, "", query, map[string]any{"kinds": []string{wanted.Name()}}, &reply)
	for _, p := range reply.Packages.Nodes {
		for _, api := range p.Provides {
			if api.is(wanted) {
				found = append(found, api)
			}
		}
	}
	return found, partial, err
}

// bundleAPIs returns bundles with the APIs of a field: provides or requires.
func (a api) bundleAPIs(catalog, field string, filter map[string]any) ([]apiBundle, []string, error) {
	return listAll[apiBundle](a, catalog, `query($filter: BundleFilter, $after: String) {
		bundles(filter: $filter, first: 100, after: $after) {
		nodes { version catalog { name } package { name version } APIs: `+field+` { group version kind } }
		pageInfo { hasNextPage endCursor } } }`, map[string]any{"filter": filter})
}

// listAll reads the pages of a connection, at most maxConnections: partial says if there are more. The query has one field, the
// connection, and takes the variable $after.
func listAll[T any](a api, catalog, query string, variables map[string]any) (nodes []T, partial []string, err error) {
	for range maxConnections {
		var reply map[string]struct {
			Nodes    []T
			PageInfo struct {
				HasNextPage bool
				EndCursor   string
			}
		}
		if partial, err = a.query(catalog, "", query, variables, &reply); err != nil {
			return nil, nil, err
		}
		more := false
		for _, page := range reply {
			nodes = append(nodes, page.Nodes...)
			variables["after"], more = page.PageInfo.EndCursor, page.PageInfo.HasNextPage
		}
		if !more {
			return nodes, partial, nil
		}
	}
	return nodes, append(partial, fmt.Sprintf("the list is incomplete: only %d versions were searched; choose a single catalog",
		len(nodes))), nil
}

// similarKinds returns provided kinds with similar names. The same kind in other groups is first.
func similarKinds(root, catalog string, wanted gvk, provided map[gvk]int) []kindLink {
	name := strings.ToLower(wanted.Kind)
	if len(name) > maxKindName {
		return nil
	}
	distance := func(api gvk) int {
		other := strings.ToLower(api.Kind)
		if len(name) > 2 && strings.Contains(other, name) || len(other) > 2 && strings.Contains(name, other) {
			return min(1, levenshtein.ComputeDistance(name, other))
		}
		return levenshtein.ComputeDistance(name, other)
	}
	near := slices.DeleteFunc(slices.Collect(maps.Keys(provided)), func(api gvk) bool {
		return len(api.Kind) > maxKindName || distance(api) > max(min(2, len(name)/2), len(name)/4)
	})
	slices.SortFunc(near, func(a, b gvk) int {
		return cmp.Or(cmp.Compare(distance(a), distance(b)), cmp.Compare(a.Name(), b.Name()))
	})
	return kindLinks(root, catalog, near[:min(len(near), maxSuggestions)], provided)
}

func kindLinks(root, catalog string, kinds []gvk, provided map[gvk]int) []kindLink {
	var links []kindLink
	for _, api := range kinds {
		links = append(links, kindLink{api.Kind, cmp.Or(api.Group, "core group"), apiURL(root, catalog, api), provided[api]})
	}
	return links
}

// kindList is the data of kinds.html: the provided kinds.
type kindList struct {
	Search, Catalog string
	Kinds           []kindLink
	Total           int  // matches
	IsSimilar       bool // no kind matches; Kinds have similar names
	Partial         []string
}

// Title implements titled.
func (l kindList) Title() string { return "Kinds" }

func loadKinds(r *request) (any, error) {
	l := kindList{Search: strings.TrimSpace(r.values.Get("kind")), Catalog: r.values.Get("catalog")}
	provided, partial, err := r.api.providedKinds(l.Catalog)
	if err != nil {
		return nil, err
	}
	l.Partial = partial
	var found []gvk
	for api := range provided {
		if strings.Contains(strings.ToLower(api.Name()), strings.ToLower(l.Search)) {
			found = append(found, api)
		}
	}
	slices.SortFunc(found, func(a, b gvk) int {
		return cmp.Or(cmp.Compare(strings.ToLower(a.Name()), strings.ToLower(b.Name())), cmp.Compare(a.Name(), b.Name()))
	})
	l.Total = len(found)
	l.Kinds = kindLinks(r.root, l.Catalog, found[:min(len(found), maxKinds)], provided)
	if len(found) == 0 {
		kind, group, _ := strings.Cut(l.Search, ".")
		l.Kinds, l.IsSimilar = similarKinds(r.root, l.Catalog, gvk{Kind: kind, Group: group}, provided), true
	}
	return l, nil
}
