package serve

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/google/go-cmp/cmp"
)

// description is openapi.json, with which responses are compared.
type description struct {
	doc *openapi3.T
	mux *http.ServeMux // whose patterns are the paths of doc
}

func newDescription(t *testing.T) *description {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(openAPI)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, schema := range doc.Components.Schemas { // clients are to take fields that are not described; the test is not
		if schema.Value.AdditionalProperties.Has == nil && schema.Value.AdditionalProperties.Schema == nil {
			none := false
			schema.Value.AdditionalProperties.Has = &none
		}
	}
	text := func(body io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn) (any, error) {
		data, err := io.ReadAll(body)
		return string(data), err
	}
	for _, mediaType := range []string{"application/jsonl", "text/event-stream", "image/svg+xml", "text/vnd.graphviz"} {
		openapi3filter.RegisterBodyDecoder(mediaType, text)
		t.Cleanup(func() { openapi3filter.UnregisterBodyDecoder(mediaType) })
	}
	openapi3filter.RegisterBodyDecoder("application/graphql-response+json", openapi3filter.RegisteredBodyDecoder("application/json"))
	t.Cleanup(func() { openapi3filter.UnregisterBodyDecoder("application/graphql-response+json") })
	return &description{doc, newServer(testConfig(openStore(t))).mux}
}

// TestDescriptionHasTheRoutes compares the paths and methods of openapi.json with the routes.
func TestDescriptionHasTheRoutes(t *testing.T) {
	var described, routed []string
	for path, item := range newDescription(t).doc.Paths.Map() {
		for method := range item.Operations() {
			described = append(described, method+" "+path)
		}
	}
	for _, route := range newServer(testConfig(openStore(t))).routes() {
		for _, method := range route.methods {
			routed = append(routed, method+" "+strings.ReplaceAll(route.path, "...}", "}"))
		}
	}
	slices.Sort(described)
	slices.Sort(routed)
	if diff := cmp.Diff(routed, described); diff != "" {
		t.Errorf("paths (-routed +described):\n%s", diff)
	}
}

// uncovered returns the documented paths and methods without a request.
func (d *description) uncovered(seen map[string]bool) []string {
	var missing []string
	for path, item := range d.doc.Paths.Map() {
		for method := range item.Operations() {
			if !seen[method+" "+path] {
				missing = append(missing, method+" "+path)
			}
		}
	}
	slices.Sort(missing)
	return missing
}

// route returns the operation of a request and the parameters of its path; ok is false if no path matches.
func (d *description) route(t *testing.T, req *http.Request) (route *routers.Route, params map[string]string, ok bool) {
	t.Helper()
	_, pattern := d.mux.Handler(req)
	method, path, ok := strings.Cut(strings.ReplaceAll(pattern, "...}", "}"), " ")
	if !ok {
		return nil, nil, false
	}
	item := d.doc.Paths.Value(path)
	if item == nil {
		t.Fatalf("openapi.json has no path %s", path)
	}
	params = map[string]string{}
	segments := strings.Split(req.URL.EscapedPath(), "/")
	for i, segment := range strings.Split(path, "/") {
		if name, isParam := strings.CutPrefix(segment, "{"); isParam && i < len(segments) {
			params[strings.TrimSuffix(name, "}")] = segments[i]
		}
	}
	return &routers.Route{Spec: d.doc, Path: path, PathItem: item, Method: method, Operation: item.GetOperation(method)}, params, true
}

// check compares a request and its response with openapi.json. A rejected request may violate it.
func (d *description) check(t *testing.T, req *http.Request, resp *http.Response, body []byte) {
	t.Helper()
	route, params, ok := d.route(t, req)
	if !ok {
		if !slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed}, resp.StatusCode) {
			t.Errorf("status %d for a request that openapi.json does not describe", resp.StatusCode)
		}
		return
	}
	if resp.StatusCode == http.StatusTemporaryRedirect {
		return // to the path without the dots
	}
	options := &openapi3filter.Options{
		IncludeResponseStatus: true, MultiError: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
		ExcludeResponseBody: req.Method == http.MethodHead || resp.StatusCode == http.StatusPartialContent,
	}
	input := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route, Options: options}
	if resp.StatusCode < http.StatusBadRequest {
		if err := openapi3filter.ValidateRequest(t.Context(), input); err != nil {
			t.Errorf("the request is not as openapi.json has it: %v", err)
		}
	}
	reply := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: resp.StatusCode, Header: resp.Header, Options: options,
	}
	reply.SetBodyBytes(body)
	if err := openapi3filter.ValidateResponse(t.Context(), reply); err != nil {
		t.Errorf("the reply is not as openapi.json has it: %v", err)
	}
}
