package packages

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

// The default and the maximum number of results. The maximum is the service's.
const (
	searchLimit    = 20
	maxSearchLimit = 100
)

// A searchRequest is what to search for.
type searchRequest struct {
	words   []string
	catalog string
	limit   int
	objects bool // whether results need the packages as objects
}

func newSearchCommand(s *session.Session) *cobra.Command {
	var req searchRequest
	cmd := &cobra.Command{
		Use:   "search WORDS...",
		Short: "Search for packages",
		Long: `Search for packages in all catalogs. The best matches come first. A package matches if its name,
display name, keywords, provided kinds or descriptions contain all words, in any case and order.`,
		Example: `  kubectl catalog search database
  kubectl catalog search service network --limit 5
  kubectl catalog search grafana -o name`,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := output.NewFormat(cmd)
	cmd.Flags().StringVarP(&req.catalog, "catalog", "c", "", "search only this `catalog`")
	cmd.Flags().IntVar(&req.limit, "limit", searchLimit, fmt.Sprintf("maximum number of results, up to %d", maxSearchLimit))
	lookup.CompleteFlags(s, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req.words, req.objects = strings.Fields(strings.Join(args, " ")), !format.IsTable()
		if err := req.validate(); err != nil {
			return err
		}
		reply, err := search(cmd.Context(), s, req)
		if err != nil {
			return err
		}
		for _, catalog := range reply.Incomplete {
			fmt.Fprintf(s.Stderr, "Catalog %s could not be read completely; some of its packages may be missing.\n", output.Line(catalog))
		}
		if len(reply.Results) == 0 && format.IsTable() {
			return lookup.Nothing(cmd.Context(), s, noResults(cmd.Context(), s, req))
		}
		return printResults(s, reply, req, format)
	}
	return cmd
}

func (r searchRequest) validate() error {
	switch {
	case len(r.words) == 0:
		return exit.Usagef("specify words: kubectl catalog search WORDS")
	case r.limit < 1 || r.limit > maxSearchLimit:
		return exit.Usagef("--limit %d: must be between 1 and %d", r.limit, maxSearchLimit)
	}
	return nil
}

// A searchReply is the response of the content service.
type searchReply struct {
	Results    []searchResult
	Total      int
	Incomplete []string
}

type searchResult struct {
	Name, Catalog, DisplayName, Description, Provider string
	Keywords, Kinds                                   []string
	Channel, Version, Deprecation                     string
	Score                                             int
	object                                            *unstructured.Unstructured
}

func printResults(s *session.Session, reply *searchReply, req searchRequest, format *output.Format) error {
	var rows []output.Row
	for _, r := range reply.Results {
		deprecated := ""
		if r.Deprecation != "" {
			deprecated = "deprecated"
		}
		rows = append(rows, output.Row{Object: r.object, Cells: []string{
			r.Name, r.Catalog, r.Version, r.DisplayName, r.matches(req.words), deprecated, r.Channel, r.Provider, r.Description,
		}})
	}
	columns := known(searchColumns(req.words), lookup.Scope{Catalog: req.catalog})
	if err := format.Print(s.Stdout, columns, rows, false); err != nil {
		return err
	}
	if format.IsTable() && reply.Total > len(rows) {
		fmt.Fprintln(s.Stderr, moreHint(len(rows), reply.Total))
	}
	return nil
}

// moreHint returns how to see the other packages.
func moreHint(shown, total int) string {
	if shown >= maxSearchLimit {
		return fmt.Sprintf("Showing the best %d of %d packages; add words to narrow the search.", shown, total)
	}
	return fmt.Sprintf("Showing %d of %d packages; increase --limit (up to %d) to see more.", shown, total, maxSearchLimit)
}

// noResults returns the sentence on an empty result, with suggestions.
func noResults(ctx context.Context, s *session.Session, req searchRequest) string {
	names, _ := lookup.PackageNames(ctx, s, req.catalog) // without them, there are no suggestions
	hint := cmp.Or(lookup.DidYouMean(strings.Join(req.words, "-"), names), "; try fewer words, or parts of words")
	return fmt.Sprintf("No package matches %q%s%s", strings.Join(req.words, " "), lookup.Scope{Catalog: req.catalog}, hint)
}

func searchColumns(words []string) []output.Column {
	return []output.Column{
		{Name: "name", Mark: words}, catalogColumn, {Name: "version", Drop: 5},
		{Name: "display name", Least: 16, Drop: 2, Mark: words}, {Name: "matched", Least: 16, Drop: 1, Mark: words}, note,
		{Name: "channel", Wide: true}, {Name: "provider", Wide: true}, {Name: "description", Wide: true, Mark: words},
	}
}

// search merges the results of all services, whose scores are comparable.
func search(ctx context.Context, s *session.Session, req searchRequest) (*searchReply, error) {
	query := url.Values{"q": {strings.Join(req.words, " ")}, "limit": {strconv.Itoa(req.limit)}}
	if req.catalog != "" {
		query.Set("catalog", req.catalog)
	}
	replies, err := lookup.FromEach(ctx, s, req.catalog, func(service *content.Service) ([]*searchReply, error) {
		reply := &searchReply{}
		err := service.JSON(ctx, content.Path("", "", "search"), query, reply)
		if err == nil && req.objects {
			err = reply.addObjects(ctx, service)
		}
		return []*searchReply{reply}, err
	})
	if err != nil {
		return nil, err
	}
	all := &searchReply{}
	for _, reply := range replies {
		all.Results = append(all.Results, reply.Results...)
		all.Incomplete = append(all.Incomplete, reply.Incomplete...)
		all.Total += reply.Total
	}
	slices.SortStableFunc(all.Results, func(a, b searchResult) int { return cmp.Compare(b.Score, a.Score) })
	all.Results = all.Results[:min(len(all.Results), req.limit)]
	return all, nil
}

// addObjects reads the results as get does and adds the search's fields. A package that was removed just now is dropped.
func (r *searchReply) addObjects(ctx context.Context, service *content.Service) error {
	if len(r.Results) == 0 {
		return nil
	}
	var names []string
	for _, result := range r.Results {
		names = append(names, result.Name)
	}
	packages, err := listPackages(ctx, service, getRequest{names: names, full: true})
	if err != nil {
		return err
	}
	for i := range r.Results {
		result := &r.Results[i]
		at := slices.IndexFunc(packages, func(p item) bool { return p.name == result.Name && p.catalog == result.Catalog })
		if at < 0 {
			continue
		}
		result.object = packages[at].Object
		result.object.Object["score"] = int64(result.Score)
		for field, values := range map[string][]string{"keywords": result.Keywords, "kinds": result.Kinds} {
			if err := unstructured.SetNestedStringSlice(result.object.Object, values, field); err != nil {
				return err
			}
		}
	}
	r.Results = slices.DeleteFunc(r.Results, func(result searchResult) bool { return result.object == nil })
	return nil
}

// matches returns where the words were found: each in the first field that has it.
func (r searchResult) matches(words []string) string {
	var all []string
	for _, word := range words {
		if field := r.field(strings.ToLower(word)); !slices.Contains(all, field) {
			all = append(all, field)
		}
	}
	return strings.Join(all, ", ")
}

func (r searchResult) field(word string) string {
	has := func(text string) bool { return strings.Contains(strings.ToLower(text), word) }
	if has(r.Name) {
		return "name"
	}
	if has(r.DisplayName) {
		return "display name"
	}
	if i := slices.IndexFunc(r.Keywords, has); i >= 0 {
		return "keyword " + r.Keywords[i]
	}
	if i := slices.IndexFunc(r.Kinds, has); i >= 0 {
		return "kind " + r.Kinds[i]
	}
	return "description"
}
