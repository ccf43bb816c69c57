package serve

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/serve/search"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// searchTime is how long a search may take. One over all of the largest known catalogs takes a fraction of a second.
const searchTime = 10 * time.Second

// The number of results of a search.
const (
	defaultResults = 20
	maxResults     = 100
)

// searchReply is the reply of GET /api/v1/search.
type searchReply struct {
	Results []*searchResult `json:"results"` // best first
	Total   int             `json:"total"`   // how many packages fit, whether they are among the results or not

	Incomplete []string `json:"incomplete,omitempty"` // catalogs that cannot be read to their end, so packages of theirs may be missing
}

// searchResult is a package that fits.
type searchResult struct {
	Catalog     string   `json:"catalog"`
	Name        string   `json:"name"`
	DisplayName string   `json:"displayName,omitempty"`
	Description string   `json:"description,omitempty"` // the short one
	Provider    string   `json:"provider,omitempty"`
	Keywords    []string `json:"keywords,omitempty"`
	Kinds       []string `json:"kinds,omitempty"` // that the head of the default channel provides, sorted, each once
	Channel     string   `json:"channel"`         // the default one
	Version     string   `json:"version"`         // of its head
	Deprecation string   `json:"deprecation,omitempty"`
	Score       int      `json:"score"` // the more, the better it fits; compares within one reply only
	URL         string   `json:"url"`   // the blobs of the package
	IconURL     string   `json:"iconUrl,omitempty"`

	priority int32
}

// compareResults sorts the better one first. The scores of words are few, so ties are many: the catalog that the admin prefers wins them.
func compareResults(a, b *searchResult) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.priority, a.priority), cmp.Compare(a.Catalog, b.Catalog), cmp.Compare(a.Name, b.Name))
}

// best is a heap with the worst result on top, so that it is known which gives way to a better one.
type best []*searchResult

func (b best) Len() int           { return len(b) }
func (b best) Less(i, j int) bool { return compareResults(b[i], b[j]) > 0 }
func (b best) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b *best) Push(x any)        { *b = append(*b, x.(*searchResult)) }
func (b *best) Pop() any {
	last := (*b)[len(*b)-1]
	*b = (*b)[:len(*b)-1]
	return last
}

// search finds packages in one catalog, or in all, by the words of q.
func (s *server) search(w http.ResponseWriter, r *http.Request) error {
	values, err := parseParams(r, "q", "catalog", "limit")
	if err != nil {
		return err
	}
	query, err := search.Compile(values.Get("q"))
	if err != nil {
		return badRequest("%v; q is the text to search for, as in /api/v1/search?q=database", err)
	}
	limit, err := parseLimit(values)
	if err != nil {
		return err
	}
	catalogs := s.all(w)
	if name := values.Get("catalog"); name != "" {
		c, err := s.catalog(name)
		if err != nil {
			return err
		}
		catalogs = []store.Catalog{c}
	}
	if catalogs, err = validated(catalogs); err != nil {
		return err
	}
	body, err := s.runSearch(r, catalogs, query, limit)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", typeJSON)
	w.Header().Set("Cache-Control", "no-cache")
	return s.serveBytes(w, r, time.Time{}, "", body)
}

func parseLimit(values url.Values) (int, error) {
	text := values.Get("limit")
	if text == "" {
		return defaultResults, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > maxResults {
		return 0, badRequest("limit %q is no number from 1 to %d", text, maxResults)
	}
	return limit, nil
}

// runSearch returns the JSON of the reply. It reads one summary after another and keeps the best. A catalog that cannot be read takes
// nothing from the others; what is missing is not hidden.
func (s *server) runSearch(r *http.Request, catalogs []store.Catalog, query search.Query, limit int) ([]byte, error) {
	release, err := s.queries.take("queries")
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := context.WithTimeoutCause(r.Context(), s.patience, &statusError{
		code:    http.StatusServiceUnavailable,
		text:    fmt.Sprintf("the search took longer than %v; search one catalog, by the parameter catalog, or come again", s.patience),
		headers: map[string]string{"Retry-After": "5"},
	})
	defer cancel()
	found, reply := best{}, searchReply{}
	for _, c := range catalogs {
		priority := s.Priority(c.Name)
		for summary, err := range c.Snapshot.Summaries() {
			if err != nil {
				s.Logger.ErrorContext(ctx, "searching a catalog", slog.String("catalog", c.Name), slog.Any("error", err))
				reply.Incomplete = append(reply.Incomplete, c.Name)
				break
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			score := query.Score(summary)
			if score == 0 {
				continue
			}
			reply.Total++
			found.add(&searchResult{Catalog: c.Name, Name: summary.Name, Score: score, priority: priority}, limit, func(result *searchResult) {
				s.fill(result, summary)
			})
		}
	}
	slices.SortFunc(found, compareResults)
	reply.Results = found
	body, err := json.Marshal(reply)
	if err != nil {
		return nil, fmt.Errorf("encoding the results of a search: %w", err)
	}
	return append(body, '\n'), nil
}

// add keeps a result if it is among the best limit, and then lets it be filled.
func (b *best) add(result *searchResult, limit int, fill func(*searchResult)) {
	if len(*b) == limit {
		if compareResults((*b)[0], result) < 0 {
			return
		}
		heap.Pop(b)
	}
	fill(result)
	heap.Push(b, result)
}

func (s *server) fill(result *searchResult, summary fbc.Summary) {
	result.DisplayName, result.Description, result.Provider = summary.DisplayName, summary.ShortDescription, summary.Provider
	result.Keywords, result.Deprecation = summary.Keywords, summary.Deprecation
	result.Channel, result.Version = summary.DefaultChannel, summary.Version
	for _, gvk := range summary.Provides {
		result.Kinds = append(result.Kinds, gvk.Kind)
	}
	slices.Sort(result.Kinds)
	result.Kinds = slices.Compact(result.Kinds)
	result.URL = s.BaseURL + "/catalogs/" + result.Catalog + "/api/v1/packages/" + url.PathEscape(summary.Name)
	if summary.HasIcon {
		result.IconURL = result.URL + "/icon"
	}
}
