package page

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Sizes of the list of packages.
const (
	pageSize     = 60
	shownValues  = 8  // of a facet; "more" has the others
	maxMissing   = 5  // invalid packages that match a search
	fewResults   = 10 // below, invalid packages are shown
	maxPageIndex = 10_000
)

// facetParams lists the facets in the order of the page: the name in GraphQL, the parameter in URLs and the title.
var facetParams = []struct{ name, param, title string }{
	{"CATALOG", "catalog", "Catalog"},
	{"CATEGORY", "category", "Category"},
	{"PROVIDER", "provider", "Provider"},
	{"CAPABILITY", "capability", "Capability level"},
	{"FEATURE", "feature", "Infrastructure feature"},
	{"ARCHITECTURE", "arch", "Architecture"},
	{"OPERATING_SYSTEM", "os", "Operating system"},
	{"INSTALL_MODE", "mode", "Install mode"},
	{"KIND", "kind", "Provided kind"},
	{"DEPRECATED", "deprecated", "Deprecated"},
}

// packageList is the data of packages.html.
type packageList struct {
	Search   string
	Chosen   []chosenValue
	Clear    string // the URL without filters
	Facets   []facet
	Sorts    []choice
	Packages []card
	Missing  []missingPackage
	Partial  []string // errors of catalogs that could not be read

	Total          int
	Range          string // "61–120 of 319"
	HasPages       bool
	Previous, Next string // URLs; empty if there is none
}

// chosenValue is a value of a filter with the URL that removes it.
type chosenValue struct{ Facet, Value, URL string }

// facet is a filter with its values. More has the less frequent ones.
type facet struct {
	Title        string
	Values, More []facetValue
}

// facetValue is a value with the URL that adds or removes it.
type facetValue struct {
	Label  string
	Count  int
	Chosen bool
	URL    string
}

// choice is a link to another state of a page.
type choice struct {
	Label, URL string
	Current    bool
}

// card is a package in a list.
type card struct {
	packageFacts
	Root, URL string
	Catalog   string
	InCatalog bool // the card shows the catalog
}

// packageFacts has the facts of a package that lists show.
type packageFacts struct {
	Name             string
	DisplayName      string
	ShortDescription string
	Provider         string
	Version          string
	IconHash         string
	Deprecation      *deprecation
}

// Label returns the display name, or the name if there is none.
func (p packageFacts) Label() string { return cmp.Or(strings.TrimSpace(p.DisplayName), p.Name) }

// deprecation is the deprecation of a package, a channel or a bundle.
type deprecation struct{ Message string }

// missingPackage is an invalid package.
type missingPackage struct{ Catalog, Name, Reason string }

// Title implements titled.
func (l packageList) Title() string {
	what := counted(l.Total, "package")
	if l.Search != "" {
		return fmt.Sprintf("%s for “%s”", what, shorten(60, l.Search))
	}
	return what
}

const packagesQuery = `query($filter: PackageFilter, $search: String, $sort: PackageSort, $offset: Int) {
packages(filter: $filter, search: $search, sort: $sort, first: 60, offset: $offset) { totalCount
facets { name values { value count } }
nodes { name displayName shortDescription provider version iconHash deprecation { message } catalog { name } } } }`

// packagesReply is the reply to packagesQuery.
type packagesReply struct {
	Packages struct {
		TotalCount int
		Facets     []struct {
			Name   string
			Values []struct {
				Value string
				Count int
			}
		}
		Nodes []struct {
			packageFacts
			Catalog struct{ Name string }
		}
	}
}

func loadPackages(r *request) (any, error) {
	at, err := pageIndex(r.values.Get("page"))
	if err != nil {
		return nil, err
	}
	search := strings.TrimSpace(r.values.Get("q"))
	filters := chosenFacets(r.values)
	variables := map[string]any{"offset": at * pageSize, "sort": sortOf(r.values.Get("sort"), search)}
	if search != "" {
		variables["search"] = search
	}
	if len(filters) > 0 {
		variables["filter"] = map[string]any{"facets": filters}
	}
	var reply packagesReply
	partial, err := r.api.query("", "", packagesQuery, variables, &reply)
	if only := r.values["catalog"]; isForbidden(err) && len(only) == 1 { // readers of one catalog may not query all
		partial, err = r.api.query(only[0], "", packagesQuery, variables, &reply)
	}
	if err != nil {
		return nil, err
	}
	l := packageList{Search: search, Total: reply.Packages.TotalCount, Partial: partial, Clear: stateURL(url.Values{"q": nonEmpty(search)})}
	l.addFacets(r.values, reply)
	l.addCards(r, reply)
	l.addPages(r.values, at)
	l.Sorts = sortChoices(r.values, search)
	if search != "" && l.Total < fewResults {
		l.Missing = r.api.missing(search)
	}
	return l, nil
}

func isForbidden(err error) bool {
	e, ok := errors.AsType[*apiError](err)
	return ok && e.Status == http.StatusForbidden
}

// pageIndex returns the index of a page from its number, which counts from 1.
func pageIndex(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxPageIndex {
		return 0, &apiError{Status: http.StatusBadRequest, Text: fmt.Sprintf("invalid page %q: must be a number from 1", shorten(40, text))}
	}
	return n - 1, nil
}

// sortOf returns the order in GraphQL; nil for the best match first.
func sortOf(param, search string) any {
	switch {
	case param == "provider":
		return "PROVIDER"
	case search != "" && param != "name":
		return nil
	}
	return "DISPLAY_NAME"
}

func sortChoices(values url.Values, search string) []choice {
	current := values.Get("sort")
	choices := []choice{}
	add := func(param, label string) {
		choices = append(choices, choice{label, stateURL(with(values, "sort", nonEmpty(param))), current == param})
	}
	if search != "" {
		add("", "Best match")
		add("name", "Name")
	} else {
		add("", "Name")
	}
	add("provider", "Provider")
	return choices
}

// chosenFacets returns the filters of a URL for GraphQL.
func chosenFacets(values url.Values) []map[string]any {
	var filters []map[string]any
	for _, f := range facetParams {
		if chosen := values[f.param]; len(chosen) > 0 {
			filters = append(filters, map[string]any{"name": f.name, "values": chosen})
		}
	}
	return filters
}

func (l *packageList) addFacets(values url.Values, reply packagesReply) {
	counts := map[string][]facetValue{}
	for _, f := range reply.Packages.Facets {
		for _, v := range f.Values {
			counts[f.Name] = append(counts[f.Name], facetValue{Label: v.Value, Count: v.Count})
		}
	}
	for _, p := range facetParams {
		chosen, all := values[p.param], counts[p.name]
		for _, value := range chosen {
			l.Chosen = append(l.Chosen, chosenValue{p.title, value, stateURL(without(values, p.param, value))})
			if !slices.ContainsFunc(all, func(v facetValue) bool { return strings.EqualFold(v.Label, value) }) {
				all = append(all, facetValue{Label: value}) // no package has it
			}
		}
		if p.name == "DEPRECATED" {
			all = deprecatedOnly(all)
		}
		if len(all) == 0 || len(all) == 1 && len(chosen) == 0 && p.name != "DEPRECATED" {
			continue
		}
		l.Facets = append(l.Facets, newFacet(p.title, p.param, all, values))
	}
}

// deprecatedOnly removes the value "false", which nearly all packages have.
func deprecatedOnly(all []facetValue) []facetValue {
	return slices.DeleteFunc(slices.Clone(all), func(v facetValue) bool { return v.Label == "false" })
}

// newFacet returns a facet. Chosen values are never in More.
func newFacet(title, param string, all []facetValue, values url.Values) facet {
	f := facet{Title: title}
	for i, v := range all {
		v.Chosen = slices.ContainsFunc(values[param], func(c string) bool { return strings.EqualFold(c, v.Label) })
		v.URL = stateURL(with(values, param, append(slices.Clone(values[param]), v.Label)))
		if v.Chosen {
			v.URL = stateURL(without(values, param, v.Label))
		}
		if param == "deprecated" {
			v.Label = map[string]string{"true": "Deprecated", "false": "Not deprecated"}[v.Label]
		}
		if i < shownValues || v.Chosen {
			f.Values = append(f.Values, v)
		} else {
			f.More = append(f.More, v)
		}
	}
	return f
}

func (l *packageList) addCards(r *request, reply packagesReply) {
	several := false
	for _, f := range reply.Packages.Facets {
		several = several || f.Name == "CATALOG" && len(f.Values) > 1
	}
	for _, n := range reply.Packages.Nodes {
		l.Packages = append(l.Packages, card{
			packageFacts: n.packageFacts, Root: r.root, URL: packageURL(r.root, n.Catalog.Name, "", n.Name),
			Catalog: n.Catalog.Name, InCatalog: several,
		})
	}
}

func (l *packageList) addPages(values url.Values, at int) {
	first, last := at*pageSize+1, at*pageSize+len(l.Packages)
	l.HasPages = l.Total > pageSize || at > 0
	l.Range = fmt.Sprintf("%d–%d of %d", first, last, l.Total)
	if len(l.Packages) == 0 {
		l.Range = fmt.Sprintf("0 of %d", l.Total)
	}
	pageURL := func(index int) string {
		if index == 0 {
			return stateURL(with(values, "page", nil))
		}
		return stateURL(with(values, "page", []string{strconv.Itoa(index + 1)}))
	}
	if at > 0 {
		l.Previous = pageURL(at - 1)
	}
	if last < l.Total && len(l.Packages) > 0 {
		l.Next = pageURL(at + 1)
	}
}

// invalidPackages returns the invalid packages of all catalogs, of one catalog, or of one version.
func (a api) invalidPackages(catalog, version string) ([]missingPackage, error) {
	var reply struct {
		Catalogs []struct {
			Name            string
			InvalidPackages []struct{ Name, Reason string }
		}
	}
	_, err := a.query(catalog, version, `{ catalogs { name invalidPackages { name reason } } }`, nil, &reply)
	var invalid []missingPackage
	for _, c := range reply.Catalogs {
		for _, p := range c.InvalidPackages {
			invalid = append(invalid, missingPackage{c.Name, p.Name, p.Reason})
		}
	}
	return invalid, err
}

// missing returns the first invalid packages whose names contain a text. Without them, the list of valid packages is still complete.
func (a api) missing(text string) []missingPackage {
	invalid, _ := a.invalidPackages("", "") // none after an error
	text = strings.ToLower(text)
	found := slices.DeleteFunc(invalid, func(p missingPackage) bool { return !strings.Contains(strings.ToLower(p.Name), text) })
	return found[:min(maxMissing, len(found))]
}
