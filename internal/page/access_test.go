package page

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// authorized lets the owner of the token "one" read the catalog open, and that of "all" everything, as package auth would.
func authorized(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch token := strings.TrimPrefix(r.Header.Get(tokenHeader), "Bearer "); {
		case token == "all", token == "one" && strings.HasPrefix(r.URL.Path+"/", "/catalogs/open/"):
			api.ServeHTTP(w, r)
		case token == "one":
			http.Error(w, "403 Forbidden\nforbidden", http.StatusForbidden)
		default:
			http.Error(w, "401 Unauthorized\nauthentication required", http.StatusUnauthorized)
		}
	})
}

// link is what a page links to, loads or sends a form to.
var link = regexp.MustCompile(`(?:href|src|action)="([^"#]*)`)

// crawl opens pages with a token and follows all links. It returns the pages by URL.
func crawl(t *testing.T, h http.Handler, token string, start ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for queue := start; len(queue) > 0; queue = queue[1:] {
		target := queue[0]
		if _, ok := found[target]; ok || len(found) > 2000 {
			continue
		}
		w := send(h, "GET", target, "", "Cookie: __Host-catalogd="+token)
		found[target] = w.Header().Get("Location") + "\n" + w.Body.String()
		if w.Code >= http.StatusInternalServerError {
			t.Errorf("%s: status %d", target, w.Code)
		}
		if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
			continue
		}
		base, err := url.Parse("https://catalogs.example" + target)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range link.FindAllStringSubmatch(w.Body.String(), -1) {
			u, err := base.Parse(strings.ReplaceAll(match[1], "&amp;", "&"))
			if err == nil && u.Host == base.Host {
				queue = append(queue, u.RequestURI())
			}
		}
	}
	return found
}

// A reader of one catalog sees no content of other catalogs, on any page or forwarded path.
func TestReaderOfOneCatalogSeesNoOther(t *testing.T) {
	marks, versions := map[string]string{"open": "visible", "hidden": "covert"}, map[string]string{"open": "2.0.0", "hidden": "7.7.7"}
	dir := t.TempDir()
	for _, name := range []string{"open", "hidden"} {
		content := `{"schema":"olm.package","name":"NAME-operator","defaultChannel":"NAME-channel","icon":{"base64data":"PHN2Zy8+","mediatype":"image/svg+xml"}}
{"schema":"olm.channel","package":"NAME-operator","name":"NAME-channel","entries":[{"name":"NAME-operator.vVERSION","replaces":"NAME-operator.v1.0.0"},{"name":"NAME-operator.v1.0.0"}]}
{"schema":"olm.bundle","package":"NAME-operator","name":"NAME-operator.v1.0.0","image":"registry.example/NAME","properties":[{"type":"olm.package","value":{"packageName":"NAME-operator","version":"1.0.0"}}]}
{"schema":"olm.bundle","package":"NAME-operator","name":"NAME-operator.vVERSION","image":"registry.example/NAME","properties":[{"type":"olm.package","value":{"packageName":"NAME-operator","version":"VERSION"}},{"type":"olm.gvk","value":{"group":"NAME.example","kind":"NAMEKind","version":"v1"}}]}
`
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		// Paths of the page name the catalog, so the mark is another text.
		content = strings.NewReplacer("NAME", marks[name], "VERSION", versions[name]).Replace(content)
		if err := os.WriteFile(filepath.Join(dir, name, "catalog.json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h := Mount(authorized(newAPI(t, filepath.Join(dir, "open"), filepath.Join(dir, "hidden"))), Config{Login: true, Logger: testLogger(t)})

	var start []string
	for _, catalog := range []string{"open", "hidden"} {
		pkg, version := marks[catalog], versions[catalog]
		of := "/ui/catalogs/" + catalog
		start = append(
			start, "/ui/?catalog="+catalog, "/ui/?q="+pkg+"&catalog="+catalog, of, of+"/packages/"+pkg+"-operator", of+"/raw/"+pkg+"-operator",
			of+"/packages/"+pkg+"-operator/channels/"+pkg+"-channel", of+"/packages/"+pkg+"-operator/channels/"+pkg+"-channel/graph",
			of+"/packages/"+pkg+"-operator/compare?a=1.0.0&b="+version, "/ui/apis/"+pkg+".example/"+pkg+"Kind", "/ui/compare?from=open&to="+catalog,
			"/ui/apis/"+pkg+".example/"+pkg+"Kind?catalog="+catalog, "/ui/changes?catalog="+catalog,
		)
	}
	start = append(start, "/ui/", "/ui/catalogs", "/ui/changes", "/ui/compare", "/ui/help", "/ui/graphql")
	all, one := crawl(t, h, "all", start...), crawl(t, h, "one", start...)
	seen := func(pages map[string]string, mark string) (in []string) {
		for target, text := range pages {
			if strings.Contains(text, mark) && !strings.Contains(target, mark) {
				in = append(in, target)
			}
		}
		return in
	}
	if in := seen(all, "covert"); len(in) == 0 {
		t.Error("a reader of all catalogs does not find the other catalog: this test proves nothing")
	}
	if in := seen(one, "visible-operator"); len(in) == 0 {
		t.Error("a reader of one catalog does not find it")
	}
	if in := seen(one, "covert"); len(in) > 0 {
		t.Errorf("a reader of one catalog sees the other in %q", in)
	}
	// A page may repeat a guessed name, but shows no content.
	for _, mark := range []string{"registry.example/hidden", `"schema"`, "7.7.7"} {
		proven := false
		for target, text := range all {
			if !strings.Contains(target, "covert") && !strings.Contains(target, "/hidden") || strings.Contains(target, mark) {
				continue
			}
			proven = proven || strings.Contains(text, mark)
			if body := send(h, "GET", target, "", "Cookie: __Host-catalogd=one").Body.String(); strings.Contains(body, mark) {
				t.Errorf("%s: a reader of one catalog sees %s", target, mark)
			}
		}
		if !proven {
			t.Errorf("a reader of all catalogs does not see %s: this test proves nothing", mark)
		}
	}
	for path, body := range map[string]string{"/ui/graphql": "", "/ui/graphql?catalog=hidden": "", "/ui/graphql?catalog=open": "visible"} {
		w := send(h, "POST", path, `{"query":"{packages{nodes{name}}}"}`, "Content-Type: application/json", "Cookie: __Host-catalogd=one")
		if ok := w.Code == http.StatusOK; ok != (body != "") || !strings.Contains(w.Body.String(), body) {
			t.Errorf("%s: status %d, %s", path, w.Code, w.Body)
		}
	}
}
