package content

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// maxURL is how long a query may make a URL; a longer one is posted, for which the API server's proxy wants the right to `create`.
const maxURL = 6 << 10

// A queryError is what GraphQL says of a fault.
type queryError struct{ Message string }

func joined(errs []queryError) string {
	texts := make([]string, len(errs))
	for i, e := range errs {
		texts[i] = e.Message
	}
	return strings.Join(texts, "; ")
}

// Query asks one catalog, or with an empty name all of them, and decodes the data of the answer into out. version, if not empty, is the
// version of the catalog that is asked.
func (s *Service) Query(ctx context.Context, catalog, version, query string, variables map[string]any, out any) error {
	resp, err := s.query(ctx, Path(catalog, version, "graphql"), query, variables)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct {
		Data   json.RawMessage
		Errors []queryError
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("reading what %s answers to a query: %w", s, err)
	}
	if len(answer.Errors) > 0 {
		return &Error{Code: resp.StatusCode, Message: joined(answer.Errors)}
	}
	return json.Unmarshal(answer.Data, out)
}

func (s *Service) query(ctx context.Context, path, query string, variables map[string]any) (*http.Response, error) {
	encoded, err := json.Marshal(variables)
	if err != nil {
		return nil, err
	}
	params := url.Values{"query": {query}}
	if len(variables) > 0 {
		params.Set("variables", string(encoded))
	}
	if len(params.Encode()) <= maxURL {
		return s.Get(ctx, path, params, nil)
	}
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
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

// All asks for all pages of a connection, and returns the nodes. The query has one field at its root, which takes its parameter $after as
// `after` and answers with nodes and pageInfo { hasNextPage endCursor }.
func All[T any](ctx context.Context, s *Service, catalog, version, query string, variables map[string]any) ([]T, error) {
	asked := map[string]any{}
	for name, value := range variables {
		asked[name] = value
	}
	var nodes []T
	for {
		var data map[string]page[T]
		if err := s.Query(ctx, catalog, version, query, asked, &data); err != nil {
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
