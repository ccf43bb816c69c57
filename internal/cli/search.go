package cli

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
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

// The number of results: what is shown unless another is asked for, and the most that the service gives.
const (
	searchLimit    = 20
	maxSearchLimit = 100
)

type searchOptions struct {
	words   []string
	catalog string
	limit   int
	full    bool // whether the packages are wanted as objects, too
}

func newSearchCmd(e *env) *cobra.Command {
	opts := searchOptions{}
	cmd := &cobra.Command{
		Use:   "search WORDS...",
		Short: "Find packages by words, best first",
		Long: `Find packages by words, in all catalogs, best first. All words have to be in the name, the display name, the keywords, the kinds it provides or
the descriptions of a package, in any case and order.`,
		Example: `  kubectl catalog search database
  kubectl catalog search service network --limit 5
  kubectl catalog search grafana -o name`,
		Args: func(_ *cobra.Command, args []string) error {
			if strings.TrimSpace(strings.Join(args, " ")) == "" {
				return usagef("say what to search for: kubectl catalog search WORDS")
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	out := newOutput(cmd)
	cmd.Flags().StringVarP(&opts.catalog, "catalog", "c", "", "only in this `catalog`")
	cmd.Flags().IntVar(&opts.limit, "limit", searchLimit, fmt.Sprintf("how many to show at most, up to %d", maxSearchLimit))
	e.completeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if opts.limit < 1 || opts.limit > maxSearchLimit {
			return usagef("--limit %d: it can be 1 to %d", opts.limit, maxSearchLimit)
		}
		opts.words = strings.Fields(strings.Join(args, " "))
		return e.search(cmd.Context(), out, opts)
	}
	return cmd
}

// searchReply is what the content service finds.
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

func (e *env) search(ctx context.Context, out *output, opts searchOptions) error {
	opts.full = !out.isTable()
	reply, err := e.searchAll(ctx, opts)
	if err != nil {
		return err
	}
	for _, catalog := range reply.Incomplete {
		fmt.Fprintf(e.stderr, "Catalog %s cannot be read to its end, so packages of it may be missing.\n", term.Line(catalog))
	}
	if len(reply.Results) == 0 && out.isTable() {
		return e.nothingFound(ctx, e.noResults(ctx, opts))
	}
	var rows []row
	for _, r := range reply.Results {
		deprecated := ""
		if r.Deprecation != "" {
			deprecated = "deprecated"
		}
		rows = append(rows, row{object: r.object, cells: []string{
			r.Name, r.Catalog, r.Version, r.DisplayName, r.matched(opts.words), deprecated, r.Channel, r.Provider, r.Description,
		}})
	}
	if err := out.print(e.stdout, getOptions{catalog: opts.catalog}.known(searchColumns(opts.words)), rows, false); err != nil {
		return err
	}
	if out.isTable() && reply.Total > len(rows) {
		fmt.Fprintln(e.stderr, more(len(rows), reply.Total))
	}
	return nil
}

// more says how to see packages that were found and are not shown.
func more(shown, total int) string {
	if shown >= maxSearchLimit {
		return fmt.Sprintf("%d of %d packages, the best; more words find fewer.", shown, total)
	}
	return fmt.Sprintf("%d of %d packages; --limit shows more, up to %d.", shown, total, maxSearchLimit)
}

// noResults says that nothing was found, and what may have been meant.
func (e *env) noResults(ctx context.Context, opts searchOptions) string {
	packages, _ := e.packageNames(ctx, completionScope{catalog: opts.catalog}) // without them nothing can be guessed
	hint := cmp.Or(didYouMean(strings.Join(opts.words, "-"), namesOf(packages)), ": try fewer words, or parts of them.")
	return fmt.Sprintf("No package has %q%s%s", strings.Join(opts.words, " "), getOptions{catalog: opts.catalog}.where(), hint)
}

func searchColumns(words []string) []term.Column {
	return []term.Column{
		{Name: "name", Mark: words}, inCatalog, {Name: "version", Drop: 5}, {Name: "display name", Least: 16, Drop: 2, Mark: words},
		{Name: "matched", Least: 16, Drop: 1, Mark: words}, note,
		{Name: "channel", Wide: true}, {Name: "provider", Wide: true}, {Name: "description", Wide: true, Mark: words},
	}
}

// searchAll asks the services, and puts together what they found. The services score alike, so the scores compare.
func (e *env) searchAll(ctx context.Context, opts searchOptions) (*searchReply, error) {
	query := url.Values{"q": {strings.Join(opts.words, " ")}, "limit": {strconv.Itoa(opts.limit)}}
	if opts.catalog != "" {
		query.Set("catalog", opts.catalog)
	}
	replies, err := fromEach(ctx, e, opts.catalog, func(service *content.Service) ([]*searchReply, error) {
		reply := &searchReply{}
		err := service.JSON(ctx, content.Path("", "", "search"), query, reply)
		if err == nil && opts.full {
			err = reply.complete(ctx, service)
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
	all.Results = all.Results[:min(len(all.Results), opts.limit)]
	return all, nil
}

// complete has the results be packages as lists of them have them, with what was found besides. One that was removed just now is none.
func (r *searchReply) complete(ctx context.Context, service *content.Service) error {
	if len(r.Results) == 0 {
		return nil
	}
	var names []string
	for _, result := range r.Results {
		names = append(names, result.Name)
	}
	packages, err := listPackages(ctx, service, getOptions{names: names, full: true})
	if err != nil {
		return err
	}
	for i := range r.Results {
		result := &r.Results[i]
		at := slices.IndexFunc(packages, func(p listed) bool { return p.name == result.Name && p.catalog == result.Catalog })
		if at < 0 {
			continue
		}
		result.object = packages[at].object
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

// matched says where the words stand: each in the first of these places that has it.
func (r searchResult) matched(words []string) string {
	var all []string
	for _, word := range words {
		all = append(all, r.place(strings.ToLower(word)))
	}
	return strings.Join(distinct(all), ", ")
}

func (r searchResult) place(word string) string {
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
