package serve

import (
	"cmp"
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
	"github.com/operator-catalogs/catalogd/internal/limit"
	"github.com/operator-catalogs/catalogd/internal/serve/search"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// The limits of a search. One over all of the largest known catalogs takes a fraction of a second.
const (
	searchTimeout  = 10 * time.Second
	defaultResults = 20
	maxResults     = 100
)

// searchReply is the response of GET /api/v1/search.
type searchReply struct {
	Results []*searchResult `json:"results"` // best first
	Total   int             `json:"total"`   // of all matching packages, beyond the limit too

	Incomplete []string `json:"incomplete,omitempty"` // catalogs that could not be read completely; their packages may be missing
}

// searchResult is a matching package.
type searchResult struct {
	Catalog     string   `json:"catalog"`
	Name        string   `json:"name"`
	DisplayName string   `json:"displayName,omitempty"`
	Description string   `json:"description,omitempty"` // the short one
	Provider    string   `json:"provider,omitempty"`
	Keywords    []string `json:"keywords,omitempty"`
	Kinds       []string `json:"kinds,omitempty"` // that the head of the default channel provides; sorted, without duplicates
	Channel     string   `json:"channel"`         // the default one
	Version     string   `json:"version"`         // of its head
	Deprecation string   `json:"deprecation,omitempty"`
	Score       int      `json:"score"` // higher is better; comparable within one response only
	URL         string   `json:"url"`   // the blobs of the package
	IconURL     string   `json:"iconUrl,omitempty"`

	priority int32
}

// compareResults sorts the better result first. Scores often tie; the catalog with the higher priority wins then.
func compareResults(a, b *searchResult) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.priority, a.priority),
		cmp.Compare(a.Catalog, b.Catalog), cmp.Compare(a.Name, b.Name))
}

// best are the best results, sorted.
type best []*searchResult

// add calls fill and inserts the result if it is among the best limit ones.
func (b *best) add(result *searchResult, limit int, fill func()) {
	at, _ := slices.BinarySearchFunc(*b, result, compareResults)
	if at == limit {
		return
	}
	fill()
	*b = slices.Insert((*b)[:min(len(*b), limit-1)], at, result)
}

// searcher searches packages by words.
type searcher struct {
	*lookup
	*sender
	slots    limit.Slots
	priority func(catalog string) int32
	logger   *slog.Logger
	timeout  time.Duration
}

// search serves the packages of one catalog, or of all, that match the words of q.
func (s *searcher) search(w http.ResponseWriter, r *http.Request) error {
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
	reply, err := s.run(r, catalogs, query, limit)
	if err != nil {
		return err
	}
	body, err := json.Marshal(reply)
	if err != nil {
		return fmt.Errorf("encoding search results: %w", err)
	}
	w.Header().Set("Content-Type", typeJSON)
	w.Header().Set("Cache-Control", "no-cache")
	return s.sendContent(w, r, time.Time{}, "", append(body, '\n'))
}

func parseLimit(values url.Values) (int, error) {
	text := values.Get("limit")
	if text == "" {
		return defaultResults, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > maxResults {
		return 0, badRequest("invalid limit %q: must be a number from 1 to %d", text, maxResults)
	}
	return limit, nil
}

// run reads one summary after another and keeps the best results. A catalog that cannot be read does not affect the others;
// the response names it.
func (s *searcher) run(r *http.Request, catalogs []store.Catalog, query search.Query, limit int) (*searchReply, error) {
	release, err := s.slots.Acquire()
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := context.WithTimeoutCause(r.Context(), s.timeout,
		unavailable(5, "the search timed out after %v; search a single catalog with the parameter catalog, or retry later", s.timeout))
	defer cancel()
	found, reply := best{}, &searchReply{}
	for _, c := range catalogs {
		priority := s.priority(c.Name)
		for summary, err := range c.Snapshot.SummariesIf(query.May) {
			if err != nil {
				s.logger.ErrorContext(ctx, "searching a catalog", slog.String("catalog", c.Name), slog.Any("error", err))
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
			result := &searchResult{Catalog: c.Name, Name: summary.Name, Score: score, priority: priority}
			found.add(result, limit, func() { s.fill(result, summary) })
		}
	}
	reply.Results = found
	return reply, nil
}

func (s *searcher) fill(result *searchResult, summary fbc.Summary) {
	result.DisplayName, result.Description, result.Provider = summary.DisplayName, summary.ShortDescription, summary.Provider
	result.Keywords, result.Deprecation = summary.Keywords, summary.Deprecation
	result.Channel, result.Version = summary.DefaultChannel, summary.Version
	for _, gvk := range summary.Provides {
		result.Kinds = append(result.Kinds, gvk.Kind)
	}
	slices.Sort(result.Kinds)
	result.Kinds = slices.Compact(result.Kinds)
	result.URL = s.baseURL + "/catalogs/" + result.Catalog + "/api/v1/packages/" + url.PathEscape(summary.Name)
	if summary.HasIcon {
		result.IconURL = result.URL + "/icon"
	}
}
