package content

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/operator-catalogs/catalogd/internal/channel"
)

// maxURL limits the encoded query in a URL. A longer one is sent by POST, for which the API server's proxy requires `create`.
const maxURL = 6 << 10

// Codes of errors.
const (
	badInput = "BAD_USER_INPUT" // an invalid argument, such as a cursor of another version
	notFound = "NOT_FOUND"      // a catalog that is not served
)

// A Question is a GraphQL request.
type Question struct {
	Query     string
	Operation string // selects one of several operations in Query
	Variables map[string]any
}

// An Answer is a GraphQL response. It may have both data and errors.
type Answer struct {
	Data   json.RawMessage
	Errors []QueryError
}

// A QueryError is an error of GraphQL.
type QueryError struct {
	Message    string
	Locations  []struct{ Line, Column int } // in the query
	Extensions struct{ Code string }
}

// isCoded reports whether an error has a code. All errors of the content service have one, similar errors of registries do not.
func (e QueryError) isCoded() bool { return e.Extensions.Code != "" }

// messages returns the messages of errors.
func messages(errs []QueryError) string {
	texts := make([]string, len(errs))
	for i, e := range errs {
		texts[i] = e.Message
	}
	return strings.Join(texts, "; ")
}

// Query queries a catalog, or all if the name is empty, and decodes the data into out. version, if not empty, selects a
// version of the catalog.
func (s *Service) Query(ctx context.Context, catalog, version, query string, variables map[string]any, out any) error {
	answer, err := s.Ask(ctx, catalog, version, Question{Query: query, Variables: variables})
	if err != nil {
		return err
	}
	if len(answer.Errors) > 0 {
		return &Error{Code: http.StatusOK, Message: messages(answer.Errors), query: answer.Errors}
	}
	if len(answer.Data) == 0 {
		return fmt.Errorf("%s: its response to a query has no data", noService(s))
	}
	return json.Unmarshal(answer.Data, out)
}

// Ask is Query for a query of the user: its errors are part of the answer.
func (s *Service) Ask(ctx context.Context, catalog, version string, q Question) (*Answer, error) {
	resp, err := s.ask(ctx, Path(catalog, version, "graphql"), q)
	var refused *Error
	if errors.As(err, &refused) && len(refused.query) > 0 {
		return &Answer{Errors: refused.query}, nil
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer Answer
	return &answer, decode(s, resp, &answer)
}

func (s *Service) ask(ctx context.Context, path string, q Question) (*http.Response, error) {
	encoded, err := json.Marshal(q.Variables)
	if err != nil {
		return nil, err
	}
	params := url.Values{"query": {q.Query}}
	if len(q.Variables) > 0 {
		params.Set("variables", string(encoded))
	}
	if q.Operation != "" {
		params.Set("operationName", q.Operation)
	}
	if len(params.Encode()) <= maxURL {
		return s.Get(ctx, path, params, nil)
	}
	body, err := json.Marshal(map[string]any{"query": q.Query, "operationName": q.Operation, "variables": q.Variables})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return s.do(req)
}

// page is a connection of GraphQL.
type page[T any] struct {
	Nodes    []T
	PageInfo struct {
		HasNextPage bool
		EndCursor   string
	}
}

// Limits of restarting a list. Each restart waits longer, because the replicas of the service change one after the other.
const (
	maxListings = 6
	relistAfter = 200 * time.Millisecond
)

// All reads all pages of a connection and returns the nodes. The query has one root field, which takes the variable $after and returns
// nodes and pageInfo { hasNextPage endCursor }. All pages are of one version: if the catalog changes meanwhile, the list restarts.
func All[T any](ctx context.Context, s *Service, catalog, version, query string, variables map[string]any) ([]T, error) {
	for listing := 1; ; listing++ {
		nodes, err := list[T](ctx, s, catalog, version, query, variables)
		if !errors.Is(err, errChanged) {
			return nodes, err
		}
		if listing == maxListings {
			return nil, fmt.Errorf("catalogs changed %d times during the listing; retry, or list a single catalog", listing)
		}
		select {
		case <-time.After(time.Duration(listing-1) * relistAfter):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// errChanged is the error of a list whose pages are of different versions.
var errChanged = errors.New("the catalogs changed during the listing")

func list[T any](ctx context.Context, s *Service, catalog, version, query string, variables map[string]any) ([]T, error) {
	asked := map[string]any{}
	maps.Copy(asked, variables)
	var nodes []T
	for {
		var data map[string]page[T]
		if err := s.Query(ctx, catalog, version, query, asked, &data); err != nil {
			// The first page had valid arguments, so the cursor is invalid.
			if e, ok := errors.AsType[*Error](err); ok && e.hasCode(badInput) && asked["after"] != nil {
				err = errChanged
			}
			return nil, err
		}
		more := false
		for _, p := range data {
			nodes = append(nodes, p.Nodes...)
			asked["after"], more = p.PageInfo.EndCursor, p.PageInfo.HasNextPage
		}
		if !more {
			return nodes, nil
		}
	}
}

// Named is a reference by name.
type Named = channel.Named

// Names returns the names of references.
func Names(all []Named) []string {
	names := make([]string, len(all))
	for i, n := range all {
		names[i] = n.Name
	}
	return names
}

// A Deprecation of a package, a channel or a bundle.
type Deprecation = channel.Deprecation

// Variables returns the variables of a query that have a value, from pairs of name and value.
func Variables(namesAndValues ...string) map[string]any {
	values := map[string]any{}
	for i := 0; i < len(namesAndValues); i += 2 {
		if namesAndValues[i+1] != "" {
			values[namesAndValues[i]] = namesAndValues[i+1]
		}
	}
	return values
}
