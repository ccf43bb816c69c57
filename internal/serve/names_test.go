package serve

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestIsName(t *testing.T) {
	valid := []string{
		"a", "1", "a-b", "a.b", "a.b.c", "operatorhubio.v2", "a--b", "a-b.c-d", strings.Repeat("a", 253), strings.Repeat("a.", 126) + "a",
	}
	invalid := []string{
		"", ".", "..", "a.", ".a", "a..b", "a-", "-a", "a.-b", "a-.b", "A", "a_b", "a/b", "*", "a.*", "ä", "a\x00", strings.Repeat("a", 254),
	}
	for _, name := range slices.Concat(valid, invalid) {
		if got, want := isName(name), slices.Contains(valid, name); got != want {
			t.Errorf("%q: got %v, want %v as in Kubernetes", name, got, want)
		}
	}
}

// Every path works for a catalog whose name has dots, and so do the parameters that name a catalog.
func TestNamesWithDots(t *testing.T) {
	st := newTestStore(t)
	commit(t, st, "a.b-c.d", "3", os.DirFS("testdata/small"))
	url := startServer(t, newHandler(st))
	base := "/catalogs/a.b-c.d"
	version := base + "/digests/" + digestOf("3")
	for path, part := range map[string]string{
		base:                                 `"url":"https://catalogd.example/catalogs/a.b-c.d"`,
		base + "/api/v1/all":                 `"schema":"olm.package"`,
		base + "/api/v1/packages":            `"schema":"olm.package"`,
		version:                              `"digest":"` + digestOf("3"),
		version + "/api/v1/channels":         `"schema":"olm.channel"`,
		"/api/v1/search?q=a&catalog=a.b-c.d": `"catalog":"a.b-c.d"`,
		"/api/v1/graphql?query={packages(filter:{catalog:%22a.b-c.d%22}){nodes{catalog{name}}}}": `{"catalog":{"name":"a.b-c.d"}}`,
		base + "/api/v1/graphql?query={catalogs{name}}":                                          `{"name":"a.b-c.d"}`,
	} {
		resp, body := do(t, http.MethodGet, url+path, "")
		if resp.StatusCode != http.StatusOK || !strings.Contains(body, part) {
			t.Errorf("%s: got %d without %q: %.300s", path, resp.StatusCode, part, body)
		}
	}
	resp, _ := do(t, http.MethodGet, url+base+"/api/v1/metas?schema=olm.channel", "")
	want := version + "/api/v1/metas?schema=olm.channel"
	if got := resp.Header.Get("Content-Location"); got != want {
		t.Errorf("Content-Location: got %q, want %q", got, want)
	}
}
