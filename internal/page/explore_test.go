package page

import (
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
)

// mainOf requests a page and returns its parsed main element.
func mainOf(tb testing.TB, page http.Handler, url string) *html.Node {
	tb.Helper()
	mains := elements(parsed(tb, page, url), "main")
	if len(mains) != 1 {
		tb.Fatalf("GET %s: %d main elements", url, len(mains))
	}
	return mains[0]
}

func parsed(tb testing.TB, page http.Handler, url string) *html.Node {
	tb.Helper()
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, url, nil))
	if w.Code != http.StatusOK {
		tb.Fatalf("GET %s: %d\n%s", url, w.Code, w.Body)
	}
	doc, err := html.Parse(w.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return doc
}

// elements returns the elements of a name, in document order.
func elements(n *html.Node, name string) (found []*html.Node) {
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && d.Data == name {
			found = append(found, d)
		}
	}
	return found
}

// textOf returns the text of an element, with white space collapsed.
func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// rowsOf returns the rows of the bodies of tables, with | between cells.
func rowsOf(n *html.Node) (rows []string) {
	for _, body := range elements(n, "tbody") {
		for _, row := range elements(body, "tr") {
			var cells []string
			for d := range row.ChildNodes() {
				if d.Type == html.ElementNode {
					cells = append(cells, textOf(d))
				}
			}
			rows = append(rows, strings.Join(cells, "|"))
		}
	}
	return rows
}

// kindsCatalog returns the directory of a catalog "kinds": old.v1.0.0 to v1.10.0 provide the kind Thing, v2.0.0 no longer does;
// user requires it; core provides Thing of the core group; last has another spelling.
func kindsCatalog(tb testing.TB) string {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "kinds")
	gvk := func(kind, group string) string {
		return fmt.Sprintf(`{"group":%q,"kind":%q,"version":"v1"}`, group, kind)
	}
	provides := func(api string) string { return `,{"type":"olm.gvk","value":` + api + `}` }
	files := map[string]string{
		"old": packageJSON("old", "1.9.0", provides(gvk("Thing", "example.com")), "1.10.0", provides(gvk("Thing", "example.com")),
			"1.0.0", provides(gvk("Thing", "example.com")), "2.0.0", ""),
		"user": packageJSON("user", "1.0.0", `,{"type":"olm.gvk.required","value":`+gvk("Thing", "example.com")+`}`),
		"core": packageJSON("core", "1.0.0", provides(gvk("Thing", ""))),
		"last": packageJSON("last", "0.1.0", provides(gvk("THING", "example.com"))),
	}
	for name, content := range files {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "catalog.json"), []byte(content), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

// packageJSON returns a package with versions, oldest first, and the properties of each in addition to olm.package.
func packageJSON(name string, versionsAndProperties ...string) string {
	var entries, bundles []string
	previous := ""
	for i := 0; i < len(versionsAndProperties); i += 2 {
		version, properties := versionsAndProperties[i], versionsAndProperties[i+1]
		entries = append(entries, fmt.Sprintf(`{"name":"%s.v%s"%s}`, name, version, previous))
		previous = fmt.Sprintf(`,"replaces":"%s.v%s"`, name, version)
		bundles = append(bundles, fmt.Sprintf(`{"schema":"olm.bundle","package":%q,"name":"%s.v%s","image":"quay.io/example/a:v1",`+
			`"properties":[{"type":"olm.package","value":{"packageName":%q,"version":%q}}%s]}`, name, name, version, name, version, properties))
	}
	return fmt.Sprintf(`{"schema":"olm.package","name":%q,"defaultChannel":"stable"}
{"schema":"olm.channel","package":%q,"name":"stable","entries":[%s]}
%s`, name, name, strings.Join(entries, ","), strings.Join(bundles, "\n"))
}

func TestAPIPage(t *testing.T) {
	page := newPage(t, kindsCatalog(t))
	things := []string{
		"last|kinds|v1|0.1.0|0.1.0", "old|kinds|v1|1.0.0 to 1.10.0 (3)|not in 2.0.0", "user|kinds|v1|1.0.0|1.0.0",
	}
	for _, tt := range []struct {
		path string
		want []string
	}{
		{"example.com/Thing", things},
		{"EXAMPLE.com/tHiNg?catalog=kinds", things},
		{"-/thing", []string{"core|kinds|v1|1.0.0|1.0.0"}},
		{"example.com/Thin", nil},
	} {
		if diff := cmp.Diff(tt.want, rowsOf(mainOf(t, page, "/apis/"+tt.path))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.path, diff)
		}
	}
}

// Packages with several versions of a kind count once.
func TestAPIPageCountsPackages(t *testing.T) {
	l := apiUsers{Users: []apiUser{{Catalog: "a", Package: "x", Version: "v1"}, {Catalog: "a", Package: "x", Version: "v2"}, {Catalog: "b", Package: "x"}}}
	if got := l.Packages(); got != 2 {
		t.Errorf("got %d packages, want 2", got)
	}
}

func TestAPIPageLinksToPackages(t *testing.T) {
	var got []string
	for _, a := range elements(mainOf(t, newPage(t, kindsCatalog(t)), "/apis/-/Thing?catalog=kinds"), "a") {
		got = append(got, attribute(a, "href"))
	}
	want := []string{
		"../../apis?catalog=kinds", "../../catalogs/kinds", "../../apis/-/Thing",
		"../../catalogs/kinds/packages/core", "../../catalogs/kinds",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
}

func TestUnknownKindSuggestsSimilarOnes(t *testing.T) {
	page := newPage(t, sampleCatalog)
	for path, want := range map[string]string{
		"dbaas.redhat.com/DBaaSInventry": "DBaaSInventory",
		"other.example/dbaasinventory":   "DBaaSInventory", // of another group
		"-/Nosuch":                       "",
	} {
		got := ""
		if lists := elements(mainOf(t, page, "/apis/"+path), "ul"); len(lists) > 0 {
			got = textOf(elements(lists[0], "a")[0])
		}
		if got != want {
			t.Errorf("%s: suggested %q, want %q", path, got, want)
		}
	}
}

func TestKinds(t *testing.T) {
	page := newPage(t, sampleCatalog)
	for query, want := range map[string][]string{
		"kind=inventory":                {"DBaaSInventory|dbaas.redhat.com|1"},
		"kind=dbaasp":                   {"DBaaSPlatform|dbaas.redhat.com|1", "DBaaSPolicy|dbaas.redhat.com|1", "DBaaSProvider|dbaas.redhat.com|1"},
		"kind=k8s.aws&catalog=catalog":  {"DeviceConfig|k8s.aws|1"},
		"kind=DBaaSPolcy":               {"DBaaSPolicy|dbaas.redhat.com|1"}, // a similar one
		"kind=nothing+is+called+so":     nil,
		"kind=DBaaSPolcy.example.com":   {"DBaaSPolicy|dbaas.redhat.com|1"},
		"kind=DBaaSInventory.dbaas.red": {"DBaaSInventory|dbaas.redhat.com|1"},
	} {
		if diff := cmp.Diff(want, rowsOf(mainOf(t, page, "/apis?"+query))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
}

// Every example must answer without errors, and each type of the reference must exist.
func TestExplorer(t *testing.T) {
	handler := newPage(t, sampleCatalog)
	doc := mainOf(t, handler, "/graphql")
	count := 0
	for _, button := range elements(doc, "button") {
		query := attribute(button, "data-query")
		if query == "" {
			continue
		}
		count++
		variables := attribute(button, "data-variables")
		if variables == "" {
			variables = "null"
		}
		body := fmt.Sprintf(`{"query":%q,"variables":%s}`, query, variables)
		r := httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != http.StatusOK || strings.Contains(w.Body.String(), `"errors"`) || !strings.Contains(w.Body.String(), "name") {
			t.Errorf("%s: %d %s", textOf(button), w.Code, w.Body)
		}
	}
	if count != len(examples) {
		t.Errorf("%d examples, want %d", count, len(examples))
	}
	types := map[string]bool{}
	for _, d := range elements(doc, "details") {
		types["#"+attribute(d, "id")] = true
	}
	if !types["#type-Package"] || !types["#type-DateTime"] || types["#type-String"] || types["#type-__Type"] {
		t.Errorf("types: %v", types)
	}
	for _, a := range elements(doc, "a") {
		if href := attribute(a, "href"); strings.HasPrefix(href, "#") && !types[href] {
			t.Errorf("%s leads nowhere", href)
		}
	}
	if text := textOf(doc); !strings.Contains(text, "package(name: String!, catalog: String): Package") {
		t.Errorf("no signature of package in %s", text)
	}
}

func TestExplorerListsServedCatalogs(t *testing.T) {
	for url, want := range map[string]string{"/graphql": "", "/graphql?catalog=catalog": "catalog"} {
		var values []string
		chosen := ""
		for _, o := range elements(mainOf(t, newPage(t, sampleCatalog), url), "option") {
			values = append(values, attribute(o, "value"))
			for _, a := range o.Attr {
				if a.Key == "selected" {
					chosen = attribute(o, "value")
				}
			}
		}
		if diff := cmp.Diff([]string{"", "catalog"}, values); diff != "" || chosen != want {
			t.Errorf("%s: chosen %q, want %q; (-want +got):\n%s", url, chosen, want, diff)
		}
	}
}

func TestTypeReference(t *testing.T) {
	named := func(name string) *typeReference { return &typeReference{Kind: "OBJECT", Name: name} }
	of := func(kind string, t *typeReference) *typeReference { return &typeReference{Kind: kind, OfType: t} }
	for _, tt := range []struct {
		t          *typeReference
		text, base string
	}{
		{named("Package"), "Package", "Package"},
		{of("NON_NULL", of("LIST", of("NON_NULL", named("Package")))), "[Package!]!", "Package"},
		{of("LIST", named("Int")), "[Int]", ""},
		{nil, "", ""},
	} {
		if tt.t.String() != tt.text || tt.t.Base() != tt.base {
			t.Errorf("got %q of %q, want %q of %q", tt.t.String(), tt.t.Base(), tt.text, tt.base)
		}
	}
}

func TestChangesListsServedVersions(t *testing.T) {
	page := newPage(t, kindsCatalog(t), sampleCatalog)
	for url, want := range map[string]struct {
		items int
		only  string
	}{"/changes": {2, ""}, "/changes?catalog=kinds": {1, "kinds"}} {
		list := elements(mainOf(t, page, url), "ol")[0]
		items := elements(list, "li")
		if len(items) != want.items || attribute(list, "data-catalog") != want.only {
			t.Errorf("%s: %d items of catalog %q, want %+v", url, len(items), attribute(list, "data-catalog"), want)
			continue
		}
		for _, item := range items {
			if !strings.Contains(textOf(item), "Served when this page was opened") || len(elements(item, "time")) != 1 {
				t.Errorf("%s: item %q", url, textOf(item))
			}
		}
	}
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/changes?catalog=nosuch", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("an unknown catalog: %d", w.Code)
	}
}

// Pages name the catalogs whose changes make them stale.
func TestPagesNameWatchedCatalogs(t *testing.T) {
	page := newPage(t, kindsCatalog(t), sampleCatalog)
	for path, want := range map[string]string{
		"/apis":                        "all catalog kinds",
		"/apis?catalog=kinds":          "listed kinds",
		"/apis/example.com/Thing":      "all catalog kinds",
		"/changes":                     "all catalog kinds",
		"/catalogs":                    "all catalog kinds",
		"/catalogs/kinds":              "listed kinds",
		"/graphql":                     "",
		"/help":                        "",
		"/apis?catalog=kinds&catalog=": "listed kinds",
	} {
		doc := parsed(t, page, path)
		got := attribute(elements(doc, "body")[0], "data-watch")
		for _, meta := range elements(doc, "meta") {
			if attribute(meta, "name") != "catalog" {
				continue
			}
			got += " " + attribute(meta, "content")
			if _, err := time.Parse(time.RFC3339, attribute(meta, "data-since")); err != nil || attribute(meta, "data-digest") == "" {
				t.Errorf("%s: %v", path, meta.Attr)
			}
		}
		if got != want {
			t.Errorf("%s watches %q, want %q", path, got, want)
		}
	}
}

// Browsers report the error status of a feed as an error of the page, so the page sends an event.
func TestRefusedFeedIsAnEvent(t *testing.T) {
	refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "403 Forbidden\nuser \"a\" cannot get path", http.StatusForbidden)
	})
	feed := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("retry: 1\n\n"))
	})
	for _, tt := range []struct {
		api  http.Handler
		want string
	}{
		{refuse, "event: unavailable\ndata: {\"reason\":\"403 Forbidden: user \\\"a\\\" cannot get path\"}\n\n"},
		{feed, "retry: 1\n\n"},
	} {
		page := New(Config{Source: func(r *http.Request) Source { return Inside(tt.api, r) }})
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/watch", nil))
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/event-stream" || w.Header().Get("Retry-After") != "" {
			t.Errorf("%d %v", w.Code, w.Header())
		}
		if diff := cmp.Diff(tt.want, w.Body.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestScriptsAreAssets checks the names of scripts in templates.
func TestScriptsAreAssets(t *testing.T) {
	page := newPage(t, sampleCatalog)
	for _, path := range []string{"/graphql", "/changes", "/apis"} {
		for _, script := range elements(parsed(t, page, path), "script") {
			name := filepath.Base(attribute(script, "src"))
			if _, err := fs.Stat(assets, name); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

// A reader with permission for the paths of one catalog names it in the URL.
func TestReaderOfOneCatalogNamesItInURL(t *testing.T) {
	api := newAPI(t, kindsCatalog(t))
	restricted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/catalogs/kinds") {
			http.Error(w, "403 Forbidden\nforbidden: cannot get path", http.StatusForbidden)
			return
		}
		api.ServeHTTP(w, r)
	})
	page := New(Config{Source: func(r *http.Request) Source { return Inside(restricted, r) }, Logger: slog.New(slog.DiscardHandler)})
	for path, want := range map[string]string{
		"/apis?catalog=kinds":         "2 kinds",
		"/apis/-/Thing?catalog=kinds": "core",
		"/graphql?catalog=kinds":      "PackageConnection",
		"/graphql":                    "The schema cannot be read: 403 Forbidden",
		"/changes?catalog=kinds":      "with 4 packages",
	} {
		if got := textOf(mainOf(t, page, path)); !strings.Contains(got, want) {
			t.Errorf("%s: no %q in %s", path, want, got)
		}
	}
	list := elements(mainOf(t, page, "/changes?catalog=kinds"), "ol")[0]
	if got, want := attribute(list, "data-feed"), "watch?catalog=kinds"; got != want {
		t.Errorf("feed %q, want %q", got, want)
	}
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/apis", nil))
	if w.Code != http.StatusForbidden {
		t.Errorf("all kinds: %d", w.Code)
	}
}
