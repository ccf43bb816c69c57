package graphql

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

func TestLimitsOnQueries(t *testing.T) {
	url := startServer(t, config(), openStore(t))
	var bomb strings.Builder // 2^40 fields, were fragments counted as they are spread
	bomb.WriteString("{ __schema { ...F0 } }")
	for i := range 40 {
		fmt.Fprintf(&bomb, " fragment F%d on __Schema { ...F%d ...F%[2]d }", i, i+1)
	}
	bomb.WriteString(" fragment F40 on __Schema { types { name } }")
	nested := func(depth int) string { // of odd depth
		return `{ package(name: "etcd") ` + strings.Repeat("{ head { package ", depth/2-1) + "{ head { name } }" + strings.Repeat("} }", depth/2-1) + " }"
	}
	for name, c := range map[string]struct {
		query string
		want  []string
	}{
		"characters": {"#éé" + strings.Repeat(" ", 100_000), []string{"100003 characters, more than 100000"}},
		"repeats":    {"{" + strings.Repeat(" __typename", 501) + "}", []string{"field name __typename 501 times, more than 500"}},
		"repeats, in fragments that are not spread": {"{ __typename }" + strings.Repeat(" fragment A on Query { a: __typename }", 501), []string{"field name a 501 times"}},
		"tokens": {"{" + strings.Repeat("catalogs{name}", 1500) + "}", []string{"more than 5000 tokens", "several requests"}},
		"depth":  {nested(17), []string{"fields 17 deep, more than 15", "request of its own"}},
		"depth, by fragments": {`{ package(name: "etcd") { ...A } } fragment A on Package { head { package { head { package { ...B } } } } }
			fragment B on Package { head { package { head { package { head { package { head { package { head { package { head { name } } } } } } } } } } } }`,
			[]string{"deep, more than 15"}},
		"complexity": {"{ packages(first: 100) { nodes { bundles(first: 100) { nodes { name version } } } } }",
			[]string{"complexity 30250, more than 20000", "smaller first"}},
		"complexity, of a size that is none": {"{ packages(first: -1) { nodes { bundles(first: 2147483647) { nodes { " + aliases("name", 300) + " } } } } }",
			[]string{"complexity", "more than 20000"}},
		"aliases":       {"{" + aliases("packages { totalCount }", 250) + "}", []string{"complexity", "more than 20000"}},
		"fragment bomb": {bomb.String(), []string{"more than 20000 fields, those of a fragment counted wherever it is spread"}},
	} {
		t.Run(name, func(t *testing.T) {
			started := time.Now()
			post(t, url, c.query).wantError(t, "LIMIT_EXCEEDED", c.want...)
			if took := time.Since(started); took > 5*time.Second {
				t.Errorf("refusing it took %v", took)
			}
		})
	}
	got := ask[struct{ Package json.RawMessage }](t, url, nested(15))
	if !strings.Contains(string(got.Package), `"name":"etcd.v3.6.0"`) {
		t.Errorf("a query as deep as allowed gives %s", got.Package)
	}
}

// aliases asks for a field n times.
func aliases(field string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, " a%d: %s", i, field)
	}
	return b.String()
}

// What is as repetitive as allowed is validated in little time.
func TestManyEqualFields(t *testing.T) {
	url := startServer(t, config(), openStore(t))
	var b strings.Builder
	for i := range 9 {
		b.WriteString(strings.Repeat(fmt.Sprintf(" a%d: __typename", i), 500))
	}
	started := time.Now()
	if got := post(t, url, "{"+b.String()+"}"); len(got.Errors) != 1 { // 9 x 500 are more tokens than allowed
		t.Errorf("got %s", got.body)
	}
	ask[any](t, url, "{"+b.String()[:3*500*len(" a0: __typename")]+"}")
	if took := time.Since(started); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestFragmentThatSpreadsItself(t *testing.T) {
	url := startServer(t, config(), openStore(t))
	post(t, url, "{ ...A } fragment A on Query { ...B } fragment B on Query { ...A }").
		wantError(t, "GRAPHQL_VALIDATION_FAILED", "fragment A spreads itself")
}

func TestLimitsOnAnswers(t *testing.T) {
	st := openStore(t)
	big := strings.Repeat("x", 4000)
	commit(t, st, "big", "5", fstest.MapFS{"c.json": {Data: []byte(`{"schema":"example.com.big","t":"` + big + `"}`)}})
	for name, c := range map[string]struct {
		set   func(*Limits)
		query string
		want  []string
	}{
		"read": {func(l *Limits) { l.Read = 1000 }, `{ bundles { nodes { image } } }`,
			[]string{"more than 1000 bytes of the catalogs", "fewer packages, a smaller first"}},
		"read, by searches": {func(l *Limits) { l.Read = 5000 }, "{" + aliases(`packages(search: "etcd") { totalCount }`, 10) + "}",
			[]string{"more than 5000 bytes of the catalogs"}},
		"values": {func(l *Limits) { l.Values = 19 }, `{ bundles { nodes { name version size } } }`,
			[]string{"more than 19 values", "smaller first or fewer fields"}},
		"values, of introspection": {func(l *Limits) { l.Values = 200 }, `{ __schema { types { name fields { name } } } }`, []string{"more than 200 values"}},
		// The blob is read once and given many times.
		"reply": {func(l *Limits) { l.Reply = 50_000 }, `{ blobs(filter: {catalog: "big"}) { nodes {` + aliases("content", 20) + ` } } }`,
			[]string{"the answer has more than 50000 bytes"}},
		"time": {func(l *Limits) { l.Time = 1 }, `{ catalogs { name } }`, []string{"took longer than 1ns"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config()
			c.set(&cfg.Limits)
			got := post(t, startServer(t, cfg, st), c.query)
			got.wantError(t, "LIMIT_EXCEEDED", c.want...)
			if string(got.Data) != "null" {
				t.Errorf("data is %s, want null: the answer was begun", got.Data)
			}
			ask[any](t, startServer(t, config(), st), c.query)
		})
	}
}

func TestLimitOnEdges(t *testing.T) {
	cfg := config()
	cfg.Limits.Edges = 5
	got := post(t, startServer(t, cfg, openStore(t)), `{ package(name: "grafana-operator") { name channels { name upgrades { from } } } }`)
	got.wantError(t, "LIMIT_EXCEEDED", `channel "v5" of package "grafana-operator" has more than 5 edges`, "make it of entries")
	if want := `["package","channels",2,"upgrades"]`; fmt.Sprintf("%q", got.Errors[0].Path) != fmt.Sprintf("%q", decodePath(t, want)) {
		t.Errorf("path is %v, want %s", got.Errors[0].Path, want)
	}
}

func decodePath(tb testing.TB, text string) (path []any) {
	tb.Helper()
	if err := json.Unmarshal([]byte(text), &path); err != nil {
		tb.Fatal(err)
	}
	return path
}

func TestLimitOnBody(t *testing.T) {
	cfg := config()
	cfg.Limits.Body = 100
	url := startServer(t, cfg, openStore(t))
	body := func(n int) string {
		return fmt.Sprintf(`{"query":"{ catalogs { name } }","extensions":{"x":"%s"}}`, strings.Repeat("x", n-55))
	}
	if got := do(t, request(t, http.MethodPost, url, body(100))); got.status != http.StatusOK || len(body(100)) != 100 {
		t.Errorf("status %d for %d bytes: %s", got.status, len(body(100)), got.body)
	}
	got := do(t, request(t, http.MethodPost, url, body(101)))
	if got.wantError(t, "BAD_REQUEST", "more than 100 bytes"); got.status != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", got.status)
	}
}

// introspection.graphql is what graphql-js asks (getIntrospectionQuery, all options on), and with it GraphiQL and most clients.
func TestIntrospection(t *testing.T) {
	query, err := os.ReadFile("testdata/introspection.graphql")
	if err != nil {
		t.Fatal(err)
	}
	type ref struct {
		Kind, Name string
		OfType     *struct{ Name string }
	}
	type input struct {
		Name, Description string
		DefaultValue      *string
		Type              ref
	}
	got := ask[struct {
		Schema struct {
			Types []struct {
				Kind, Name, Description string
				Fields                  []struct {
					Name, Description string
					Args              []input
				}
				InputFields []input
			}
		} `json:"__schema"`
	}](t, startServer(t, config(), openStore(t)), string(query))
	names := map[string]bool{}
	for _, typ := range got.Schema.Types {
		names[typ.Name] = true
		if typ.Name != "Query" {
			continue
		}
		for _, field := range typ.Fields {
			if field.Description == "" {
				t.Errorf("Query.%s has no description", field.Name)
			}
		}
	}
	for _, want := range []string{"Query", "Package", "Channel", "Bundle", "JSON", "BundleFilter", "UpgradeKind"} {
		if !names[want] {
			t.Errorf("there is no type %s", want)
		}
	}
}
