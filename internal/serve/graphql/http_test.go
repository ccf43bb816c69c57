package graphql

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/store"
)

const (
	oneQuery  = `query($c: [String!]) { catalogs(names: $c) { name } }`
	oneAnswer = `{"data":{"catalogs":[{"name":"main"}]}}` + "\n"
)

func TestHTTP(t *testing.T) {
	base := startServer(t, config(), openStore(t))
	escaped := base + "?query=" + url.QueryEscape(oneQuery)
	const asked = `{"query":"` + oneQuery + `","variables":{"c":["main"]}}`
	const two = `{"query":"query A { catalogs(names: [\"main\"]) { name } } query B { __typename }","operationName":"A"}`
	for name, c := range map[string]struct {
		method, url, body string
		header            http.Header
		status            int
		want              string // the body, or a part of it where the status is not 200
	}{
		"POST": {http.MethodPost, base, asked, nil, 200, oneAnswer},
		"POST, with a charset": {
			http.MethodPost, base, asked, http.Header{"Content-Type": {"application/json; charset=UTF-8"}}, 200, oneAnswer,
		},
		"POST, one of two": {http.MethodPost, base, two, nil, 200, oneAnswer},
		"POST, more members": {
			http.MethodPost,
			base,
			`{"query":"{catalogs(names:[\"main\"]){name}}","variables":null,"extensions":{"a":1},"x":2}`,
			nil,
			200,
			oneAnswer,
		},
		"GET": {http.MethodGet, escaped + "&variables=" + url.QueryEscape(`{"c":["main"]}`), "", nil, 200, oneAnswer},
		"GET, one of two": {
			http.MethodGet,
			base + "?operationName=A&query=" + url.QueryEscape(`query A { catalogs(names: ["main"]) { name } } query B { __typename }`),
			"",
			nil,
			200,
			oneAnswer,
		},
		"GET, without variables": {http.MethodGet, escaped, "", nil, 200, `{"data":{"catalogs":[{"name":"main"},{"name":"other"}]}}` + "\n"},
		"HEAD":                   {http.MethodHead, escaped, "", nil, 200, ""},
		"no such operation": {http.MethodPost, base, strings.Replace(two, `"A"`, `"C"`, 1), nil, 200,
			`{"errors":[{"message":"unknown operation \"C\"; the query has \"A\", ` +
				`\"B\"","extensions":{"code":"GRAPHQL_VALIDATION_FAILED"}}]}` + "\n"},

		"PUT":                        {http.MethodPut, base, asked, nil, 405, "GET, HEAD or POST, not PUT"},
		"no query":                   {http.MethodGet, base, "", nil, 400, "no query: set the parameter query"},
		"empty object":               {http.MethodPost, base, "{}", nil, 400, "no query"},
		"empty body":                 {http.MethodPost, base, "", nil, 400, "the body is not a JSON object"},
		"a batch":                    {http.MethodPost, base, "[" + asked + "]", nil, 400, "the body is not a JSON object"},
		"two objects":                {http.MethodPost, base, asked + asked, nil, 400, "something follows it"},
		"cut short":                  {http.MethodPost, base, asked[:20], nil, 400, "unexpected EOF"},
		"query is a number":          {http.MethodPost, base, `{"query":1}`, nil, 400, "the body is not a JSON object"},
		"variables are a list":       {http.MethodPost, base, `{"query":"{a}","variables":[]}`, nil, 400, "the body is not a JSON object"},
		"variables are no JSON":      {http.MethodGet, escaped + "&variables=x", "", nil, 400, "the parameter variables is not a JSON object"},
		"the query string is broken": {http.MethodGet, base + "?query=%zz", "", nil, 400, "parsing the query string"},
		"a form": {
			http.MethodPost,
			base,
			"query=x",
			http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
			415,
			"Content-Type: application/json",
		},
		"a multipart": {
			http.MethodPost,
			base,
			"--x--",
			http.Header{"Content-Type": {"multipart/form-data; boundary=x"}},
			415,
			"Content-Type: application/json",
		},
		"no Content-Type":    {http.MethodPost, base, asked, http.Header{"Content-Type": {""}}, 415, "Content-Type: application/json"},
		"another charset":    {http.MethodPost, base, asked, http.Header{"Content-Type": {"application/json; charset=utf-16"}}, 415, "in UTF-8"},
		"Accept has neither": {http.MethodPost, base, asked, http.Header{"Accept": {"text/html"}}, 406, "Accept has neither"},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, c.method, c.url, c.body)
			for name, values := range c.header {
				r.Header[name] = values
			}
			got := do(t, r)
			if got.status != c.status {
				t.Errorf("status %d, want %d", got.status, c.status)
			}
			if c.status != http.StatusOK {
				got.wantError(t, "BAD_REQUEST", c.want)
			} else if got.body != c.want {
				t.Errorf("got %s\nwant %s", got.body, c.want)
			}
			if allow := got.header.Get("Allow"); (allow == "GET, HEAD, POST") != (c.status == http.StatusMethodNotAllowed) {
				t.Errorf("Allow: %q", allow)
			}
		})
	}
}

// The new media type and its error status are sent only on request.
func TestMediaTypes(t *testing.T) {
	base := startServer(t, config(), openStore(t))
	const jsonType, newType = "application/json; charset=utf-8", "application/graphql-response+json; charset=utf-8"
	for accept, want := range map[string]string{
		"":                                  jsonType,
		"*/*":                               jsonType,
		"application/*":                     jsonType,
		"application/json":                  jsonType,
		"application/graphql-response+json": newType,
		"application/graphql-response+json, application/json":                               newType,
		"application/json;q=0.9, application/graphql-response+json":                         newType,
		"application/graphql-response+json;q=0.5, application/json":                         jsonType,
		"application/graphql-response+json;q=0, application/json":                           jsonType,
		"text/html, application/graphql-response+json; charset=utf-8; q=0.8, */*;q=0.1, ;;": newType,
	} {
		for query, newStatus := range map[string]int{
			"{ catalogs { name } }":            200,
			"{":                                400, // does not parse
			"{ nothing }":                      400, // does not fit
			"mutation { catalogs }":            400, // there are none
			"subscription { catalogs }":        400,
			"{ packages(first: 0) { nodes } }": 400, // does not fit: nodes have fields
			"{ packages(first: 0) { totalCount } catalogs { name } }": 200, // is begun
			"{" + aliases("packages { totalCount }", 250) + "}":       400, // is refused before
		} {
			r := request(t, http.MethodGet, base+"?query="+url.QueryEscape(query), "")
			if r.Header["Accept"] = nil; accept != "" {
				r.Header.Set("Accept", accept)
			}
			wantStatus := 200
			if want == newType {
				wantStatus = newStatus
			}
			got := do(t, r)
			if got.header.Get("Content-Type") != want || got.status != wantStatus {
				t.Errorf("Accept: %s: %.40s: got %d %s, want %d %s", accept, query, got.status, got.header.Get("Content-Type"), wantStatus, want)
			}
			if hasData := strings.Contains(got.body, `"data"`); hasData != (newStatus == 200) {
				t.Errorf("%.40s: got %s", query, got.body)
			}
		}
	}
}

// The caller decides about caches, except for a reply with errors.
func TestErrorsAreNotCached(t *testing.T) {
	base := startServer(t, config(), openStore(t))
	for query, want := range map[string]string{
		"{ catalogs { name } }":                  "no-cache",
		"{ packages(first: 0) { totalCount } }":  "no-store",
		"{ packages(first: 0) { totalNumber } }": "no-store",
	} {
		got := post(t, base, query)
		if control := got.header.Get("Cache-Control"); control != want {
			t.Errorf("%s: Cache-Control: %q, want %q", query, control, want)
		}
	}
}

func TestInputErrors(t *testing.T) {
	base := startServer(t, config(), openStore(t))
	for query, want := range map[string][2]string{
		`{ packages(search: "a b c d e f g h i j k") { totalCount } }`: {"BAD_USER_INPUT", "search: the search text has 11 words, more than 10"},
		`{ bundles(filter: {versionRange: "latest"}) { totalCount } }`: {"BAD_USER_INPUT", `versionRange "latest": invalid version range`},
		// blang/semver reads these, and panics when it is asked.
		`{ bundles(filter: {versionRange: "9.0.0 || || 2.0.0"}) { totalCount } }`: {
			"BAD_USER_INPUT", `versionRange "9.0.0 || || 2.0.0": invalid version range`,
		},
		`{ bundles(filter: {versionRange: "9.0.0||||2.0.0"}) { totalCount } }`: {
			"BAD_USER_INPUT", `invalid version range`,
		},
		`{ bundles(filter: {versionRange: ">1.0.0` + strings.Repeat(" ", 300) + `"}) { totalCount } }`: {
			"BAD_USER_INPUT", "versionRange has 306 bytes, more than 256",
		},
		`{ bundles(filter: {provides: {}}) { totalCount } }`: {
			"BAD_USER_INPUT", "provides is empty: set at least one of group, version and kind",
		},
		`{ packages(first: 3000000000) { totalCount } }`: {"BAD_USER_INPUT", "first is 3000000000"},
		`{ packages(first: "ten") { totalCount } }`: {
			"GRAPHQL_VALIDATION_FAILED", "Int cannot represent non-integer value",
		},
		`{ packages(filter: {color: "red"}) { totalCount } }`:       {"GRAPHQL_VALIDATION_FAILED", "color"},
		`query($x: String!) { package(name: $x) { name } }`:         {"GRAPHQL_VALIDATION_FAILED", "variable $x must be defined"},
		`{ packages(filter: {catalog: "nowhere"}) { totalCount } }`: {"NOT_FOUND", `catalog "nowhere" is not served`},
		`{ bundles(filter: {catalog: "nowhere"}) { totalCount } }`:  {"NOT_FOUND", `catalog "nowhere" is not served`},
		`{ package(name: "etcd", catalog: "nowhere") { name } }`:    {"NOT_FOUND", `catalog "nowhere" is not served`},
		`mutation { remove }`: {"GRAPHQL_VALIDATION_FAILED", "mutation"},
		`{ catalogs { name }`: {"GRAPHQL_PARSE_FAILED", "Expected"},
		`{ packages(first: 99999999999999999999) { totalCount } }`: {"GRAPHQL_VALIDATION_FAILED", "32-bit"},
		`{ blobs(filter: {schema: "olm.bundle", custom: "yes"}) { totalCount } ` +
			`}`: {"GRAPHQL_VALIDATION_FAILED", "Boolean"},
		`{ package(name: "etcd") { bundles(first: 1, after: "x") { totalCount } } }`: {
			"BAD_USER_INPUT", "after is not a cursor",
		},
		`{ __schema { types { fields { type { fields { type { fields { type { fields { name } } } } } } } } } }`: {
			"GRAPHQL_VALIDATION_FAILED", "introspection depth",
		},
	} {
		t.Run(query, func(t *testing.T) { post(t, base, query).wantError(t, want[0], want[1]) })
	}
}

// An internal error is logged once and not shown; other fields have values.
func TestInternalErrorsAreLoggedNotShown(t *testing.T) {
	var log bytes.Buffer
	cfg := config()
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	h := New(cfg)
	t.Run("of a resolver", func(t *testing.T) {
		url := serveAll(t, h, func() []store.Catalog { return []store.Catalog{{Name: "hollow"}} }) // without a snapshot
		got := post(t, url, "{ catalogs { name digest } }")
		got.wantError(t, "INTERNAL_SERVER_ERROR", "catalogd could not read the content; see its log")
		if strings.Contains(got.body, "nil pointer") || !strings.Contains(log.String(), "nil pointer") {
			t.Errorf("the cause is shown or not logged: %s\n%s", got.body, log.String())
		}
	})
	t.Run("before any", func(t *testing.T) {
		log.Reset()
		cfg.Priority = func(string) int32 { panic("no priority") }
		got := post(t, startServer(t, cfg, openStore(t)), "{ catalogs { name } }")
		got.wantError(t, "INTERNAL_SERVER_ERROR", "see its log")
		if strings.Contains(got.body, "no priority") || !strings.Contains(log.String(), "no priority") {
			t.Errorf("the cause is shown or not logged: %s\n%s", got.body, log.String())
		}
	})
}
