package graphql

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestVariables follows section 3.5 of the GraphQL specification and graphql-js.
func TestVariables(t *testing.T) {
	url := startServer(t, config(), openStore(t))
	const query = `query($n: Int, $s: String, $b: BlobFilter, $l: [String!]) {
		packages(first: $n, search: $s, filter: {names: $l}) { totalCount } blobs(filter: $b) { totalCount } }`
	for variables, want := range map[string]string{ // an empty string: accepted
		`{}`:                          "",
		`{"n": 1}`:                    "",
		`{"n": 1.0}`:                  "",
		`{"n": 1e1}`:                  "",
		`{"n": null}`:                 "",
		`{"n": 1.5}`:                  "variable $n: 1.5 is not an Int",
		`{"n": "1"}`:                  `variable $n: "1" is not an Int`,
		`{"n": true}`:                 "variable $n: true is not an Int",
		`{"n": 2147483648}`:           "variable $n: 2147483648 does not fit into an Int of 32 bits",
		`{"n": -2147483649}`:          "variable $n: -2147483649 does not fit into an Int of 32 bits",
		`{"n": 1e999999999}`:          "variable $n: 1e999999999 does not fit into an Int of 32 bits",
		`{"n": 18446744073709551617}`: "does not fit into an Int of 32 bits",
		`{"s": "etcd"}`:               "",
		`{"s": 1}`:                    "variable $s: 1 is not a String",
		`{"s": false}`:                "variable $s: false is not a String",
		`{"s": ["etcd"]}`:             `variable $s: ["etcd"] is not a String`,
		`{"l": "etcd"}`:               "",
		`{"l": ["etcd", 2]}`:          "variable $l: element 1: 2 is not a String",
		`{"b": {"name": 3}}`:          "variable $b: name: 3 is not a String",
		`{"b": {"custom": "true"}}`:   `variable $b: custom: "true" is not a Boolean`,
		`{"b": {"custom": true}}`:     "",
		`{"b": {"nope": 1}}`:          "variable $b unknown field",
	} {
		for range 2 { // parsed, then from the cache
			body, err := json.Marshal(map[string]any{"query": query, "variables": json.RawMessage(variables)})
			if err != nil {
				t.Fatal(err)
			}
			got := do(t, request(t, http.MethodPost, url, string(body)))
			if want != "" {
				got.wantError(t, "GRAPHQL_VALIDATION_FAILED", want)
			} else if len(got.Errors) > 0 {
				t.Errorf("%s: %s", variables, got.body)
			}
		}
	}
}

func TestOperationName(t *testing.T) {
	url := startServer(t, config(), openStore(t))
	for body, want := range map[string]string{
		`{"query": "query A { __typename } query B { __typename }"}`:                       `several operations: "A", "B"`,
		`{"query": "query A { __typename } query B { __typename }", "operationName": "C"}`: `unknown operation "C"; the query has "A", "B"`,
		`{"query": "query A { __typename } query B { __typename }", "operationName": "B"}`: "",
	} {
		got := do(t, request(t, http.MethodPost, url, body))
		if want != "" {
			got.wantError(t, "GRAPHQL_VALIDATION_FAILED", want)
		} else if len(got.Errors) > 0 {
			t.Errorf("%s: %s", body, got.body)
		}
	}
}

// TestConflictingArguments follows section 5.3.2 of the GraphQL specification.
func TestConflictingArguments(t *testing.T) {
	url := startServer(t, config(), openStore(t))
	for _, query := range []string{
		`{ packages(filter: {catalog: "main"}) { totalCount } packages(filter: {catalog: "other"}) { totalCount } }`,
		`{ catalogs(names: ["main"]) { name } catalogs(names: ["other"]) { name } }`,
	} {
		got := post(t, url, query)
		if got.wantError(t, "GRAPHQL_VALIDATION_FAILED"); !strings.Contains(got.body, "conflict") {
			t.Errorf("got %s", got.body)
		}
	}
	ask[any](t, url, `{ packages(filter: {catalog: "main"}) { totalCount } packages(filter: {catalog: "main"}) { totalCount } }`)
}
