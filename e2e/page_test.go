package e2e

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/operator-catalogs/catalogd/internal/testing/browser"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// pageWorld is a catalogd that serves the page, with catalogs in each state: sample and corners are served, broken has an invalid
// package, and the image of missing does not exist.
type pageWorld struct {
	*world
	*browser.Browser
	digest string // of sample
}

func newPageWorld(t *testing.T) *pageWorld {
	t.Helper()
	chromium := browser.Start(t) // first: without it, the test is skipped
	w := &pageWorld{world: newWorld(t, shared, "--page", "--bundle-content"), Browser: chromium}
	ref, digest := w.registry.push(t, "sample", catalogImage(t, cmp.Or(os.Getenv("COMMUNITY_CATALOG"), sampleCatalog)))
	w.digest = digest
	w.createCatalog(t, "sample", ref, func(c *unstructured.Unstructured) {
		for field, value := range map[string]any{"displayName": displayName, "publisher": publisher, "priority": int64(priority)} {
			must.Succeed(t, unstructured.SetNestedField(c.Object, value, "spec", field))
		}
	})
	ref, _ = w.registry.push(t, "corners", catalogImage(t, filepath.Join("testdata", "corners")))
	w.createCatalog(t, "corners", ref, nil)
	ref, _ = w.registry.push(t, "broken", brokenImage(t, "unknown-default-channel"))
	w.createCatalog(t, "broken", ref, nil)
	w.createCatalog(t, "missing", w.registry.address+"/missing:latest", nil)
	for _, name := range []string{"sample", "corners", "broken"} {
		w.waitReady(t, name, "")
	}
	w.eventuallyCatalog(t, "missing", "not served", func(c *unstructured.Unstructured) error { return wantCondition(c, "Ready", "False") })
	return w
}

// page returns the URL of a page.
func (w *world) page(path string) string { return "http://" + w.content + "/ui" + path }

const (
	skupper = "/catalogs/sample/packages/skupper-operator"
	stable  = skupper + "/channels/stable"
)

// pages are the paths of every kind of page, in each of its states.
func (w *pageWorld) pages() []string {
	paths := []string{
		"/", "/?q=operator&sort=provider", "/?provider=Red+Hat&mode=AllNamespaces", "/?q=no+such+package", "/?q=foo",
		"/catalogs", "/catalogs/sample", "/catalogs/broken", "/catalogs/missing",
		skupper, skupper + "?channel=stable-1.8&version=1.8.0", "/catalogs/sample/packages/mercury-operator",
		"/catalogs/sample/digests/" + w.digest + "/packages/skupper-operator",
		stable, stable + "?from=1.5.3", stable + "?from=1.5.3&to=1.8.1", stable + "?from=1.8.1&to=1.5.3",
		skupper + "/compare", skupper + "/compare?a=1.8.0&b=1.9.0",
		"/compare", "/compare?from=sample&to=corners",
		"/changes", "/apis", "/apis?q=build", "/apis/skupper.io/SkupperClusterPolicy", "/apis/example.com/Nothing", "/graphql", "/help",
	}
	for _, tab := range []string{"versions", "apis", "images", "permissions", "install"} {
		paths = append(paths, "/catalogs/sample/packages/shipwright-operator?tab="+tab)
	}
	return paths
}

// sizes are a screen, a laptop, a tablet, a phone, and a screen of 1280 pixels at a zoom of 400 %.
var sizes = [][2]int64{{1920, 1080}, {1280, 800}, {768, 1024}, {360, 800}, {320, 640}}

var themes = map[string]map[string]string{"light": browser.Light, "dark": browser.Dark}

// TestPage looks at every page in every size and theme, and uses it as people do.
func TestPage(t *testing.T) {
	w := newPageWorld(t)
	t.Run("every page in every size and theme", func(t *testing.T) {
		for _, path := range w.pages() {
			t.Run(path, func(t *testing.T) {
				t.Parallel()
				checkPage(t, w.Tab(t, browser.Options{}), w.page(path))
			})
		}
		for _, path := range []string{"/nothing", "/catalogs/nothing", "/catalogs/sample/packages/nothing", skupper + "?version=nothing"} {
			t.Run(path, func(t *testing.T) {
				t.Parallel()
				checkPage(t, w.Tab(t, browser.Options{}), w.page(path), "status of 404")
			})
		}
	})
	t.Run("keyboard alone", w.testKeyboard)
	t.Run("without JavaScript", w.testNoScript)
	t.Run("every state is a URL", w.testURLs)
	t.Run("forced colors and reduced motion", w.testMedia)
	t.Run("theme", w.testTheme)
	t.Run("print", w.testPrint)
	t.Run("outlines", w.testOutlines)
	t.Run("feed", w.testFeed)
}

// checkPage requires a page without violations of WCAG, without sideways scroll and without reports but the expected ones. It opens the
// page once for each theme, and resizes it: scripts of the page do not ask for the size.
func checkPage(t *testing.T, tab *browser.Tab, address string, expected ...string) {
	for name, theme := range themes {
		tab.SetMedia(theme)
		tab.Open(address)
		for _, size := range sizes {
			tab.Resize(size[0], size[1])
			for _, fault := range slices.Concat(tab.Sideways(), tab.Axe()) {
				t.Errorf("%s, %d x %d: %s", name, size[0], size[1], fault)
			}
			savePicture(t, tab, fmt.Sprintf("%s-%s-%dx%d", address, name, size[0], size[1]))
		}
		for _, report := range tab.Reports() {
			if !slices.ContainsFunc(expected, func(e string) bool { return strings.Contains(report, e) }) {
				t.Errorf("%s: %s", name, report)
			}
		}
	}
}

// savePicture writes the viewport to the directory PAGE_PICTURES, if it is set.
func savePicture(t *testing.T, tab *browser.Tab, name string) {
	dir := os.Getenv("PAGE_PICTURES")
	if dir == "" {
		return
	}
	name = regexp.MustCompile(`[^A-Za-z0-9.=-]+`).ReplaceAllString(name[strings.Index(name, "/ui/")+1:], "_")
	must.Succeed(t, os.MkdirAll(dir, 0o755))
	must.Succeed(t, os.WriteFile(filepath.Join(dir, name+".png"), tab.Picture(), 0o644))
}

// mainText returns the visible text of the main part.
func mainText(tab *browser.Tab) string {
	return browser.Eval[string](tab, "document.querySelector('main').innerText")
}

func wantText(t *testing.T, tab *browser.Tab, parts ...string) {
	t.Helper()
	got := mainText(tab)
	for _, part := range parts {
		if !strings.Contains(got, part) {
			t.Errorf("%s does not show %q:\n%s", tab.URL(), part, got)
		}
	}
}

// focus presses Tab until an element that matches the selector has the focus.
func focus(t *testing.T, tab *browser.Tab, selector string) {
	t.Helper()
	for range 200 {
		if browser.Eval[bool](tab, fmt.Sprintf("document.activeElement?.matches(%q) ?? false", selector)) {
			return
		}
		tab.Press("\t")
	}
	t.Fatalf("the Tab key does not reach %s at %s", selector, tab.URL())
}

func (w *pageWorld) testKeyboard(t *testing.T) {
	tab := w.Tab(t, browser.Options{})
	tab.Open(w.page("/"))
	tab.Press("/")
	tab.Press("skupper\r")
	tab.Wait("location.search.includes('q=skupper')")
	focus(t, tab, "main a[href$='packages/skupper-operator']")
	tab.Press("\r")
	tab.Wait("location.pathname.endsWith('/packages/skupper-operator')")
	focus(t, tab, "input[name=from]")
	tab.Press("1.5.3\r")
	tab.Wait("location.search.includes('from=1.5.3')")
	wantText(t, tab, "1.5.3", "1.6.0")
	tab.Press("?")
	tab.Wait("document.querySelector('dialog[open]')")
	for _, fault := range tab.Axe() {
		t.Errorf("the list of keys: %s", fault)
	}
	tab.Press("\x1b")
	tab.Wait("!document.querySelector('dialog')")
	tab.Open(w.page(skupper))
	tab.Press("y")
	tab.Wait("location.pathname.includes('/digests/" + w.digest + "/')")
	for _, report := range tab.Reports() {
		t.Error(report)
	}
}

func (w *pageWorld) testNoScript(t *testing.T) {
	tab := w.Tab(t, browser.Options{NoScript: true})
	tab.Open(w.page("/"))
	tab.Click("#q")
	tab.Press("skupper\r")
	tab.Wait("location.search.includes('q=skupper')")
	tab.Click("main a[href$='packages/skupper-operator']")
	tab.Wait("location.pathname.endsWith('/packages/skupper-operator')")
	tab.Click("input[name=from]")
	tab.Press("1.5.3\r")
	tab.Wait("location.search.includes('from=1.5.3')")
	wantText(t, tab, "1.6.0")
	for path, parts := range map[string][]string{
		"/catalogs":                          {displayName, "missing"},
		"/catalogs/broken":                   {"Conditions", "left out", "default channel"},
		"/?provider=Red+Hat":                 {"1 package"},
		skupper + "?tab=versions":            {"1.5.3"},
		skupper + "/compare?a=1.8.0&b=1.8.1": {"1.8.0", "1.8.1"},
		"/compare?from=sample&to=corners":    {"skupper-operator", "corner"},
		"/help":                              {"JavaScript"},
	} {
		tab.Open(w.page(path))
		wantText(t, tab, parts...)
		for _, fault := range slices.Concat(tab.Axe(), tab.Sideways()) {
			t.Errorf("%s: %s", path, fault)
		}
	}
	for _, report := range tab.Reports() {
		t.Error(report)
	}
}

// testURLs follows links, and requires that the URL shows the same in a new profile, and that Back shows the page before.
func (w *pageWorld) testURLs(t *testing.T) {
	for _, step := range []struct{ start, link string }{
		{"/", "nav[aria-label=Filters] a"},
		{"/?provider=Red+Hat", ".chosen a"},
		{"/?q=operator", "nav[aria-label=Sort] a:not([aria-current])"},
		{"/catalogs", "main td a"},
		{skupper, ".tabs a[href*=versions]"},
		{skupper + "?tab=versions", "main a[href*='version=1.8.0']"},
		{skupper, "main a[href*='channel=stable-1.8']"},
		{stable, "main a[href*='from=']"},
		{"/catalogs/sample/packages/shipwright-operator?tab=apis", "main a[href*='apis/']"},
	} {
		t.Run(step.start+" "+step.link, func(t *testing.T) {
			t.Parallel()
			tab := w.Tab(t, browser.Options{})
			tab.Open(w.page(step.start))
			before := tab.Outline()
			browser.Eval[int](tab, fmt.Sprintf("document.querySelector(%q).click(), 0", step.link))
			tab.Wait(fmt.Sprintf("location.href !== %q && document.readyState === 'complete'", w.page(step.start)))
			fresh := w.Profile(t).Tab(t, browser.Options{})
			fresh.Open(tab.URL())
			here := tab.Outline()
			if diff := gocmp.Diff(here, fresh.SettledOutline(here)); diff != "" {
				t.Errorf("%s differs in a new profile (-here +there):\n%s", tab.URL(), diff)
			}
			tab.Back()
			tab.Wait(fmt.Sprintf("location.href === %q && document.readyState === 'complete'", w.page(step.start)))
			if diff := gocmp.Diff(before, tab.SettledOutline(before)); diff != "" {
				t.Errorf("Back from %s (-before +after):\n%s", tab.URL(), diff)
			}
		})
	}
}

func (w *pageWorld) testMedia(t *testing.T) {
	tab := w.Tab(t, browser.Options{Media: map[string]string{"forced-colors": "active", "prefers-reduced-motion": "reduce"}})
	for _, path := range []string{"/", skupper, stable + "?from=1.5.3", "/changes"} {
		tab.Open(w.page(path))
		for _, fault := range slices.Concat(tab.Axe(), tab.Sideways(), tab.Reports()) {
			t.Errorf("%s: %s", path, fault)
		}
		if n := browser.Eval[int](tab, "document.getAnimations().length"); n > 0 {
			t.Errorf("%s: %d animations with reduced motion", path, n)
		}
		savePicture(t, tab, w.page(path)+"-forced-colors")
	}
}

// testTheme checks that the chosen theme applies to all pages that the browser opens later, and after Back.
func (w *pageWorld) testTheme(t *testing.T) {
	tab := w.Profile(t).Tab(t, browser.Options{})
	tab.Open(w.page("/"))
	for _, theme := range []string{"dark", "light"} {
		tab.Wait("!document.querySelector('button.theme').hidden")
		tab.Click("button.theme")
		for _, path := range []string{"/catalogs", skupper} {
			tab.Open(w.page(path))
			const shown = "document.documentElement.dataset.theme + ' ' + getComputedStyle(document.documentElement).colorScheme"
			if got, want := browser.Eval[string](tab, shown), theme+" "+theme; got != want {
				t.Errorf("%s after choosing %s: %q, want %q", path, theme, got, want)
			}
		}
	}
	tab.Click("button.theme")
	tab.Back()
	tab.Wait("location.pathname.endsWith('/catalogs') && document.documentElement.dataset.theme === 'dark'")
	for _, report := range tab.Reports() {
		t.Error(report)
	}
}

// testPrint prints pages of a reader who has chosen the dark theme: dark text without controls.
func (w *pageWorld) testPrint(t *testing.T) {
	tab := w.Profile(t).Tab(t, browser.Options{Width: 794, Height: 1123}) // A4
	tab.Open(w.page("/"))
	tab.Wait("!document.querySelector('button.theme').hidden")
	tab.Click("button.theme")
	for _, path := range []string{"/", skupper, stable, "/catalogs/broken", "/changes", "/graphql"} {
		tab.Open(w.page(path))
		tab.SetPrint()
		const shown = `document.documentElement.dataset.theme + " " + getComputedStyle(document.body).color +
			[...document.querySelectorAll("form, button, #filter, .facets, .neighbors, .sort, .tabs, .toast")].
				filter((e) => e.checkVisibility()).map((e) => " " + e.outerHTML).join("")`
		if got, want := browser.Eval[string](tab, shown), "dark rgb(21, 21, 21)"; got != want {
			t.Errorf("%s: text and controls on paper: %q, want %q", path, got, want)
		}
		for _, fault := range tab.Sideways() {
			t.Errorf("%s: %s", path, fault)
		}
		savePicture(t, tab, w.page(path)+"-print")
		tab.SetMedia(nil)
	}
}

// testOutlines compares the accessibility trees of pages with testdata/page; see flag -update.
func (w *pageWorld) testOutlines(t *testing.T) {
	if os.Getenv("COMMUNITY_CATALOG") != "" {
		t.Skip("the outlines are those of the sample")
	}
	tab := w.Tab(t, browser.Options{})
	for name, path := range map[string]string{
		"packages": "/?q=operator", "package": "/catalogs/sample/packages/mercury-operator", "channel": stable + "?from=1.5.3",
		"catalog": "/catalogs/broken",
	} {
		tab.Open(w.page(path))
		got := stableText(w, tab.Outline())
		file := filepath.Join("testdata", "page", name+".txt")
		if *updateGolden {
			must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o755))
			must.Succeed(t, os.WriteFile(file, []byte(got), 0o644))
		}
		want, err := os.ReadFile(file)
		must.Succeed(t, err)
		if diff := gocmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

// stableText replaces what differs from run to run: times, ports and versions of the program.
func stableText(w *pageWorld, outline string) string {
	outline = strings.ReplaceAll(outline, w.registry.address, "registry.example")
	for pattern, with := range map[string]string{
		`[A-Z][a-z]{2} \d+, \d{4}, \d+:\d+.?(AM|PM)|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?( UTC|Z)?`: "TIME",
		`[0-9a-f]{12,64}`:    "DIGEST",
		`catalogd [^ "]+ · `: "catalogd VERSION · ",
	} {
		outline = regexp.MustCompile(pattern).ReplaceAllString(outline, with)
	}
	return outline
}

// TestPageLogin logs in with a token and the keyboard, over TLS.
func TestPageLogin(t *testing.T) {
	chromium := browser.Start(t)
	w := newProtectedWorld(t, "--page")
	w.serviceAccountToken(t, "page-browser", "catalogd-content-reader")
	token, err := w.Kubectl(t.Context(), "-n", namespace, "create", "token", "page-browser", "--audience=catalogd.operatorframework.io")
	must.Succeed(t, err)
	address := "https://" + w.content + "/ui/"
	tab := chromium.Tab(t, browser.Options{})
	checkPage(t, tab, address+"login?next=catalogs")
	tab.Open(address + "catalogs")
	tab.Wait("location.pathname === '/ui/login'")
	focus(t, tab, "#token")
	tab.Press("wrong\r")
	tab.Wait("document.querySelector('#refusal')")
	for _, fault := range slices.Concat(tab.Axe(), tab.Sideways()) {
		t.Error(fault)
	}
	focus(t, tab, "#token")
	browser.Eval[int](tab, fmt.Sprintf("document.activeElement.value = %q, 0", strings.TrimSpace(token))) // pasted
	tab.Press("\r")
	tab.Wait("location.pathname === '/ui/catalogs' && document.querySelector('main td a')")
	if cookie := browser.Eval[string](tab, "document.cookie"); cookie != "" {
		t.Errorf("scripts can read the cookie %q", cookie)
	}
	tab.Click(".logout button")
	tab.Wait("location.pathname === '/ui/login'")
	for _, report := range tab.Reports() {
		// Chromium logs the status of the wrong token, and what the logout cleared.
		if !strings.Contains(report, "status of 422") && !strings.Contains(report, "Clear-Site-Data") {
			t.Error(report)
		}
	}
}

// TestPageRefusesForeignRequests sends what pages of other sites could make a browser send.
func TestPageRefusesForeignRequests(t *testing.T) {
	w := newWorld(t, shared, "--page")
	ref, _ := w.registry.push(t, "sample", catalogImage(t, sampleCatalog))
	w.createCatalog(t, "sample", ref, nil)
	w.waitReady(t, "sample", "")
	const query = `{"query":"{catalogs{name}}"}`
	for name, test := range map[string]struct {
		method, path, body string
		header             map[string]string
		want               int
	}{
		"as it is":                    {want: 200},
		"localhost":                   {header: map[string]string{"Host": "localhost:8080"}, want: 200},
		"rebound name":                {header: map[string]string{"Host": "evil.example"}, want: 421},
		"rebound name, API":           {path: "/catalogs", header: map[string]string{"Host": "evil.example"}, want: 421},
		"link of another site":        {header: fetchHeader("cross-site", "navigate", "document"), want: 200},
		"frame of another site":       {header: fetchHeader("cross-site", "navigate", "iframe"), want: 403},
		"image of another site":       {header: fetchHeader("cross-site", "no-cors", "image"), want: 403},
		"script of the same site":     {header: fetchHeader("same-site", "no-cors", "script"), want: 403},
		"fetch of another site":       {path: "/ui/watch", header: fetchHeader("cross-site", "cors", "empty"), want: 403},
		"own fetch":                   {header: fetchHeader("same-origin", "cors", "empty"), want: 200},
		"query of another site":       {method: "POST", path: "/ui/graphql", body: query, header: fetchHeader("cross-site", "cors", "empty"), want: 403},
		"query of another origin":     {method: "POST", path: "/ui/graphql", body: query, header: map[string]string{"Origin": "http://evil.example", "Content-Type": "application/json"}, want: 403},
		"query of a form":             {method: "POST", path: "/ui/graphql", body: query, header: map[string]string{"Content-Type": "text/plain"}, want: 415},
		"own query":                   {method: "POST", path: "/ui/graphql", body: query, header: map[string]string{"Content-Type": "application/json"}, want: 200},
		"path out of the page":        {path: "/ui/catalogs/..%2f..%2fmetrics", want: 404},
		"path out of the page, again": {path: "/ui/catalogs/%2e%2e/%2e%2e/api/v1/watch", want: 404},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.send(t, cmp.Or(test.method, http.MethodGet), cmp.Or(test.path, "/ui/"), test.body, test.header)
			if r.status != test.want {
				t.Errorf("status %d, want %d: %.300s", r.status, test.want, r.body)
			}
			if strings.HasPrefix(cmp.Or(test.path, "/ui/"), "/ui/") && r.status != http.StatusMisdirectedRequest {
				checkPolicy(t, r.header)
			}
		})
	}
}

func fetchHeader(site, mode, dest string) map[string]string {
	return map[string]string{"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest, "Content-Type": "application/json"}
}

// send sends a request to the content port, with the Host that header has.
func (w *world) send(t *testing.T, method, path, body string, header map[string]string) reply {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+w.content+path, strings.NewReader(body))
	must.Succeed(t, err)
	for name, value := range header {
		r.Header.Set(name, value)
	}
	r.Host = header["Host"]
	return roundTrip(t, r)
}

// checkPolicy requires the headers that every response of the page has.
func checkPolicy(t *testing.T, header http.Header) {
	t.Helper()
	policy := header.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "require-trusted-types-for 'script'"} {
		if !strings.Contains(policy, part) {
			t.Errorf("Content-Security-Policy %q lacks %s", policy, part)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
		t.Errorf("Content-Security-Policy %q is not strict", policy)
	}
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin", "Access-Control-Allow-Origin": "",
	} {
		if got := header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// roundTrip sends a request and does not follow redirects.
func roundTrip(t *testing.T, r *http.Request) reply {
	t.Helper()
	response, err := http.DefaultTransport.RoundTrip(r)
	must.Succeed(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must.Succeed(t, err)
	return reply{response.StatusCode, response.Header, body}
}
