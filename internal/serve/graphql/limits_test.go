package graphql

import (
	"encoding/base64"
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
		"repeats, in fragments that are not spread": {
			"{ __typename }" + strings.Repeat(" fragment A on Query { a: __typename }", 501), []string{"field name a 501 times"},
		},
		"tokens": {"{" + strings.Repeat("catalogs{name}", 1500) + "}", []string{"more than 5000 tokens", "split the request"}},
		"depth":  {nested(17), []string{"fields 17 deep, more than 15", "separate request"}},
		"depth, by fragments": {`{ package(name: "etcd") { ...A } } fragment A on Package { head { package { head { package { ...B } } } } }
			fragment B on Package { head { package { head { package { head { package { head { package { head { package { head { name } } } } } } } } } } } }`,
			[]string{"deep, more than 15"}},
		"complexity": {"{ packages(first: 100) { nodes { bundles(first: 100) { nodes { name version } } } } }",
			[]string{"complexity 30250, more than 20000", "smaller first"}},
		"complexity, of a size that is none": {"{ packages(first: -1) { nodes { bundles(first: 2147483647) { nodes " +
			"{ " + aliases("name", 300) + " } } } } }",
			[]string{"complexity", "more than 20000"}},
		"aliases":       {"{" + aliases("packages { totalCount }", 250) + "}", []string{"complexity", "more than 20000"}},
		"fragment bomb": {bomb.String(), []string{"more than 20000 fields, counting those of a fragment at each spread"}},
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

// A variable for first counts as the literal does; without a valid one, the default or the nearest bound counts.
func TestComplexityByVariables(t *testing.T) {
	cfg := config()
	cfg.Limits.Complexity = 3 // the number of fields
	url := startServer(t, cfg, openStore(t))
	for _, c := range []struct {
		query, variables string
		want             int
	}{
		{`query($n: Int) { packages(first: $n) { nodes { name } } }`, `{"n": 10}`, 70},
		{`query($n: Int) { packages(first: $n) { nodes { name } } }`, `{"n": 1e1}`, 70},
		{`query($n: Int) { packages(first: $n) { nodes { name } } }`, `{"n": -1}`, 52},
		{`query($n: Int) { packages(first: $n) { nodes { name } } }`, `{"n": 2147483647}`, 250},
		{`query($n: Int) { packages(first: $n) { nodes { name } } }`, `{"n": null}`, 150},
		{`query($n: Int) { packages(first: $n) { nodes { name } } }`, `{}`, 150},
		{`query($n: Int = 10) { packages(first: $n) { nodes { name } } }`, `{}`, 70},
		{`{ packages(first: 10) { nodes { name } } }`, `{}`, 70},
		{`{ packages(first: null) { nodes { name } } }`, `{}`, 150},
		{`{ packages { nodes { name } } }`, `{}`, 150},
	} {
		t.Run(c.query+c.variables, func(t *testing.T) {
			body, err := json.Marshal(map[string]any{"query": c.query, "variables": json.RawMessage(c.variables)})
			if err != nil {
				t.Fatal(err)
			}
			do(t, request(t, http.MethodPost, url, string(body))).
				wantError(t, "LIMIT_EXCEEDED", fmt.Sprintf("the query has complexity %d, more than 3", c.want))
		})
	}
}

// aliases selects a field n times.
func aliases(field string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, " a%d: %s", i, field)
	}
	return b.String()
}

// Validation of the most repetitive allowed query is fast.
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

func TestLimitsOnReplies(t *testing.T) {
	st := openStore(t)
	big := strings.Repeat("x", 4000)
	commit(t, st, "big", "5", fstest.MapFS{"c.json": {Data: []byte(`{"schema":"example.com.big","t":"` + big + `"}`)}})
	for name, c := range map[string]struct {
		set   func(*Limits)
		query string
		want  []string
	}{
		"read": {func(l *Limits) { l.Read = 1000 }, `{ bundles { nodes { image } } }`,
			[]string{"more than 1000 bytes of the catalogs", "select fewer packages or fields, or use a smaller first"}},
		"read, by summaries of a page": {
			func(l *Limits) { l.Read = 500 }, `{ packages { nodes { displayName } } }`, []string{"more than 500 bytes of the catalogs"},
		},
		"decoded": {
			func(l *Limits) { l.Decoded = 100 },
			`{ bundles { nodes { image } } }`,
			[]string{"decodes more than 100 JSON values", "smaller first"},
		},
		"values": {func(l *Limits) { l.Values = 19 }, `{ bundles { nodes { name version size } } }`,
			[]string{"more than 19 values", "select fewer fields, or use a smaller first"}},
		// gqlgen resolves no field of these.
		"values, by elements": {func(l *Limits) { l.Values = 25 }, `{ blobs { nodes { __typename } } }`, []string{"more than 25 values"}},
		"values, by __typename": {func(l *Limits) { l.Values = 100 },
			`{ blobs { nodes { ...T } } } fragment T on Blob { ... on Blob {` + aliases("__typename", 5) + `} }`,
			[]string{"more than 100 values"}},
		"reply, by names": {
			func(l *Limits) { l.Reply = 50_000 },
			`{ blobs { nodes { ` + strings.Repeat("a", 5_000) + `: size } } }`,
			[]string{"more than 50000 bytes"},
		},
		"reply, by names of __typename": {func(l *Limits) { l.Reply = 50_000 },
			`{ blobs { nodes { ` + strings.Repeat("a", 5_000) + `: __typename } } }`,
			[]string{"more than 50000 bytes"}},
		"values, of introspection": {
			func(l *Limits) { l.Values = 200 }, `{ __schema { types { name fields { name } } } }`, []string{"more than 200 values"},
		},
		// The blob is read once and given many times.
		"reply": {func(l *Limits) { l.Reply = 50_000 }, `{ blobs(filter: {catalog: "big"}) { nodes {` + aliases("content", 20) + ` } } }`,
			[]string{"the reply has more than 50000 bytes"}},
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

// A search holds one summary at a time, so only its time is limited.
func TestSearchIsNotBoundedByBytes(t *testing.T) {
	cfg := config()
	cfg.Limits.Read = 1
	got := ask[struct{ Search, Provider struct{ TotalCount int } }](t, startServer(t, cfg, openStore(t)),
		`{ search: packages(search: "etcd") { totalCount } provider: packages(filter: {provider: "nobody"}) { totalCount } }`)
	if got.Search.TotalCount != 2 || got.Provider.TotalCount != 0 {
		t.Errorf("got %+v", got)
	}
}

// A request decodes each blob once, and only if needed.
func TestBlobsAreDecodedOnce(t *testing.T) {
	st := openStore(t)
	const field = `csvMetadata { displayName keywords }`
	query := func(fields string) string {
		return `{ bundles(filter: {name: "grafana-operator.v5.2.0"}) { nodes {` + fields + `} } }`
	}
	answers := func(decoded int, query string) bool {
		cfg := config()
		cfg.Limits.Decoded = decoded
		return len(post(t, startServer(t, cfg, st), query).Errors) == 0
	}
	least := 1
	for !answers(least, query(field)) {
		least++
	}
	if least < 20 {
		t.Fatalf("a limit of %d is enough for a bundle: nothing is counted", least)
	}
	if !answers(least, query(aliases(field, 20)+"image provides { kind } package { head { "+field+" } }")) {
		t.Errorf("with a limit of %d it is answered once, not more often", least)
	}
	if !answers(1, `{ blobs { nodes { content } } catalogs { invalidPackages { name reason } } packages { nodes { displayName } } }`) {
		t.Error("something is decoded for content, summaries or what is invalid")
	}
}

// Manifests in bundles, JSON or YAML, count as decoded values.
func TestManifestsAreDecodedValues(t *testing.T) {
	st := openStore(t)
	object := func(manifest string) string {
		return fmt.Sprintf(`{"type":"olm.bundle.object","value":{"data":%q}}`, base64.StdEncoding.EncodeToString([]byte(manifest)))
	}
	bundle := func(manifest string) string {
		return `{"schema":"olm.package","name":"p","defaultChannel":"a"} {"schema":"olm.channel","package":"p","name":"a","entries":[{"name":"p.v1"}]}
			{"schema":"olm.bundle","package":"p","name":"p.v1","image":"i",
				"properties":[{"type":"olm.package","value":{"packageName":"p","version":"1.0.0"}},` +
			object(`{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"p.v1"},`+
				`"spec":{"displayName":"P"}}`) + "," + object(manifest) + `]}`
	}
	cfg := config()
	cfg.Limits.Decoded = 300
	url := startServer(t, cfg, st)
	const query = `{ package(name: "p", catalog: "p") { head { csvMetadata { displayName } } } }`
	for name, manifest := range map[string]string{
		"JSON": `{"kind":"ConfigMap","l":[` + strings.Repeat("0,", 400) + `0]}`,
		"YAML": "kind: ConfigMap\nl:\n" + strings.Repeat("- 0\n", 400),
	} {
		commit(t, st, "p", "3", fstest.MapFS{"c.json": {Data: []byte(bundle(manifest))}})
		if got := post(t, url, query); len(got.Errors) != 1 || got.Errors[0].Extensions.Code != "LIMIT_EXCEEDED" {
			t.Errorf("%s: got %s", name, got.body)
		}
		commit(t, st, "p", "4", fstest.MapFS{"c.json": {Data: []byte(bundle("{}"))}})
		if got := post(t, url, query); !strings.Contains(got.body, `"displayName":"P"`) {
			t.Errorf("%s, small: got %s", name, got.body)
		}
	}
}

// A large request waits for the end of another one; small requests do not wait.
func TestLargeRequestsWaitForEachOther(t *testing.T) {
	st := openStore(t)
	cfg := config()
	cfg.Limits.Memory, cfg.Limits.Large, cfg.Limits.Time = 10_000, 1, 50*time.Millisecond
	const small, large = `{ catalogs { name } }`, `{ bundles { nodes { name version properties { value } } } }`
	h := New(cfg)
	url := serveAll(t, h, st.Catalogs)
	take := func() {
		if !h.large.TryAcquire(1) {
			t.Fatal("the slot is taken")
		}
	}
	take() // as another request does
	post(t, url, large).wantError(t, "LIMIT_EXCEEDED", "50ms")
	h.large.Release(1)
	take() // the failed request holds nothing
	cfg.Limits.Time = time.Minute

	h = New(cfg)
	url = serveAll(t, h, st.Catalogs)
	take()
	ask[any](t, url, small)
	answered := make(chan reply)
	go func() { answered <- post(t, url, large) }()
	h.large.Release(1)
	if got := <-answered; len(got.Errors) > 0 {
		t.Errorf("got %s", got.body)
	}
	ask[any](t, url, large) // the slot is free again
}

func TestLimitOnEdges(t *testing.T) {
	cfg := config()
	cfg.Limits.Edges = 5
	got := post(t, startServer(t, cfg, openStore(t)), `{ package(name: "grafana-operator") { name channels { name upgrades { from } } } }`)
	got.wantError(t, "LIMIT_EXCEEDED", `channel "v5" of package "grafana-operator" exceeds the limit of 5 edges`, "derive it from entries")
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

// introspection.graphql is the query of graphql-js (getIntrospectionQuery, all options on), which GraphiQL and most clients send.
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
