package content

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Do forwards a request for a path of the service, such as /catalogs/a/api/v1/all. An error status of the service is no error. Do
// converts an error response of another server, such as the API server, to the form of the service, with a remedy.
func (s *Service) Do(r *http.Request) (*http.Response, error) {
	if slices.Contains(strings.Split(r.URL.Path, "/"), "..") { // could request other resources of the API server
		return nil, fmt.Errorf("invalid path %q: it contains '..'", r.URL.Path)
	}
	inner := r.Clone(r.Context())
	target, err := url.Parse(s.base.JoinPath(r.URL.EscapedPath()).String()) // JoinPath alone may return a relative path
	if err != nil {
		return nil, fmt.Errorf("invalid path %q: %w", r.URL.Path, err)
	}
	inner.URL = target
	inner.URL.RawQuery, inner.Host, inner.RequestURI = r.URL.RawQuery, "", ""
	if err := preferGet(inner); err != nil {
		return nil, err
	}
	resp, err := s.do(inner)
	if failed, ok := errors.AsType[*Error](err); ok {
		return failed.response(inner), nil
	}
	return resp, err
}

// preferGet changes a GraphQL request with a short query to GET, because the proxy of the API server then requires only `get`.
func preferGet(r *http.Request) error {
	if r.Method != http.MethodPost {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return fmt.Errorf("reading the query: %w", err)
	}
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(body))), nil }
	var q struct {
		Query, OperationName string
		Variables            json.RawMessage
	}
	if json.Unmarshal(body, &q) != nil { // the service reports it
		return nil
	}
	params := url.Values{"query": {q.Query}}
	if variables := string(q.Variables); variables != "" && variables != "null" {
		params.Set("variables", variables)
	}
	if q.OperationName != "" {
		params.Set("operationName", q.OperationName)
	}
	if encoded := params.Encode(); len(encoded) <= maxURL {
		r.Method, r.URL.RawQuery = http.MethodGet, encoded
		r.Body, r.GetBody, r.ContentLength = nil, nil, 0
		r.Header.Del("Content-Type")
	}
	return nil
}

// response returns the reply of the content service, or one with the message.
func (e *Error) response(r *http.Request) *http.Response {
	if e.reply != nil {
		return e.reply
	}
	code := e.Code
	if code < http.StatusBadRequest { // a redirect, or something that is not catalogd
		code = http.StatusBadGateway
	}
	status := strconv.Itoa(code) + " " + cmp.Or(http.StatusText(code), "Error")
	text := status + "\n" + e.Message + "\n"
	return &http.Response{
		Status: status, StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: int64(len(text)),
		Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "Cache-Control": {"no-store"}},
		Body:   io.NopCloser(strings.NewReader(text)),
	}
}
