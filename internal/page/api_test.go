package page

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// content is a store with the pages of its catalogs.
type content struct {
	store *store.Store
	pages http.Handler
}

func newContent(tb testing.TB) content {
	tb.Helper()
	st := openStore(tb)
	return content{st, pageOf(tb, apiOf(st))}
}

// commit makes a file the content of a catalog. Its digest is made of the version.
func (c content) commit(tb testing.TB, catalog, version string, file []byte) {
	tb.Helper()
	dir := tb.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "catalog.json"), file, 0o600); err != nil {
		tb.Fatal(err)
	}
	commitVersion(tb, c.store, catalog, store.Source{Digest: digestOf(version)}, dir)
}

// get returns the status and the body of a page.
func (c content) get(tb testing.TB, url string) (int, string) {
	tb.Helper()
	resp, body := get(tb, c.pages, url)
	return resp.StatusCode, string(body)
}

// object is a JSON object.
type object = map[string]any

// packageFile returns a catalog of one package from its channels, the first of which is the default. extend adds properties to
// bundles by name.
func packageFile(tb testing.TB, extend map[string][]object, channels ...channel.Channel) []byte {
	tb.Helper()
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	add := func(blob object) {
		if err := out.Encode(blob); err != nil {
			tb.Fatal(err)
		}
	}
	name := channels[0].Package
	add(object{"schema": "olm.package", "name": name, "defaultChannel": channels[0].Name})
	seen := map[string]bool{}
	var deprecations []object
	for _, c := range channels {
		var entries []object
		for _, e := range c.Entries {
			entries = append(entries, object{"name": e.Name, "replaces": e.Replaces, "skips": e.Skips, "skipRange": e.SkipRange})
			if seen[e.Name] {
				continue
			}
			seen[e.Name] = true
			add(object{
				"schema": "olm.bundle", "package": name, "name": e.Name, "image": "quay.io/example/" + name + ":v" + e.Version,
				"properties": append([]object{{"type": "olm.package", "value": object{"packageName": name, "version": e.Version}}}, extend[e.Name]...),
			})
			if e.Deprecation != nil {
				deprecations = append(deprecations, object{"reference": object{"schema": "olm.bundle", "name": e.Name}, "message": e.Deprecation.Message})
			}
		}
		add(object{"schema": "olm.channel", "package": name, "name": c.Name, "entries": entries})
	}
	if deprecations != nil {
		add(object{"schema": "olm.deprecations", "package": name, "entries": deprecations})
	}
	return b.Bytes()
}

// document is a parsed page.
type document struct{ *html.Node }

// open returns a page, which must exist.
func (c content) open(tb testing.TB, url string) document {
	tb.Helper()
	status, body := c.get(tb, url)
	if status != http.StatusOK {
		tb.Fatalf("GET %s: status %d, want 200:\n%s", url, status, body)
	}
	root, err := html.Parse(strings.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	return document{root}
}

// all returns the elements with a name, and with a class unless it is empty.
func (d document) all(name, class string) []document {
	var found []document
	for n := range d.Descendants() {
		e := document{n}
		if n.Type == html.ElementNode && n.Data == name && (class == "" || strings.Contains(" "+e.attribute("class")+" ", " "+class+" ")) {
			found = append(found, e)
		}
	}
	return found
}

// attribute returns the value of an attribute, or "" if there is none.
func (d document) attribute(name string) string {
	for _, a := range d.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// text returns the text of an element with single spaces.
func (d document) text() string {
	var b strings.Builder
	for n := range d.Descendants() {
		switch {
		case n.Type == html.TextNode:
			b.WriteString(n.Data)
		case n.Data == "td" || n.Data == "br" || n.Data == "li":
			b.WriteString(" ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// renderView returns a page with a view that no API returned.
func renderView(t *testing.T, template string, view any) document {
	t.Helper()
	var b strings.Builder
	if err := parseTemplates()[template].ExecuteTemplate(&b, "layout.html", frame{Root: "../", Body: view}); err != nil {
		t.Fatal(err)
	}
	root, err := html.Parse(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return document{root}
}
