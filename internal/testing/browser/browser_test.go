package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// policy is as strict as that of the page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; " +
	"require-trusted-types-for 'script'; trusted-types page"

// site serves a page for each path, with the policy.
func site(t *testing.T, pages map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, ok := pages[r.URL.Path]
		if !ok {
			content, ok = files[r.URL.Path]
		}
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Security-Policy", policy)
		if strings.HasSuffix(r.URL.Path, ".js") {
			w.Header().Set("Content-Type", "text/javascript")
		} else {
			content = `<!DOCTYPE html><html lang="en"><head><title>Test</title><link rel="icon" href="/icon.svg">` +
				`<meta name="viewport" content="width=device-width"></head><body><main>` + content + "</main></body></html>"
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
		}
		fmt.Fprint(w, content)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// files are what pages load.
var files = map[string]string{
	"/icon.svg": "",
	"/write.js": "document.querySelector('h1').innerHTML = '<b>not trusted</b>'",
	"/text.js":  "document.querySelector('h1').textContent = 'with a script'",
	"/log.js":   "console.warn('a warning', 1); throw new Error('thrown')",
	"/alert.js": "alert('stop')",
}

// TestReports shows that each kind of fault is reported, and none for a good page.
func TestReports(t *testing.T) {
	b := Start(t)
	for name, test := range map[string]struct {
		page string
		want []string // a part of a report each
	}{
		"nothing":        {"<h1>A page</h1><a href=/>link</a>", nil},
		"script":         {"<h1>A page</h1><script src=/text.js></script>", nil},
		"console":        {"<h1>A page</h1><script src=/log.js></script>", []string{`console.warning: "a warning" 1`, "Error: thrown"}},
		"inline script":  {"<h1>A page</h1><script>window.x = 1</script>", []string{"script-src"}},
		"inline style":   {"<h1 style='color: red'>A page</h1>", []string{"style-src"}},
		"event handler":  {"<h1>A page</h1><img src=/none.png onerror='window.x = 1' alt=''>", []string{"script-src-attr", "404"}},
		"trusted types":  {"<h1>A page</h1><script src=/write.js></script>", []string{"TrustedTypes"}},
		"another host":   {"<h1>A page</h1><img src=http://example.com/x.png alt=''>", []string{"img-src"}},
		"redirected":     {"<h1>A page</h1><meta http-equiv=refresh content='0; url=http://localhost:9/'>", []string{"another host"}},
		"dialog":         {"<h1>A page</h1><script src=/alert.js></script>", []string{"dialog: stop"}},
		"missing script": {"<h1>A page</h1><script src=/none.js></script>", []string{"404"}},
	} {
		t.Run(name, func(t *testing.T) {
			tab := b.Tab(t, Options{})
			tab.Open(site(t, map[string]string{"/": test.page}))
			if name == "redirected" {
				tab.Wait("location.protocol === 'chrome-error:'")
			}
			reports := tab.Reports()
			if (len(reports) > 0) != (len(test.want) > 0) {
				t.Errorf("reports: %q", reports)
			}
			for _, want := range test.want {
				if !strings.Contains(strings.Join(reports, "\n"), want) {
					t.Errorf("no report has %q: %q", want, reports)
				}
			}
			if again := tab.Reports(); len(again) > 0 {
				t.Errorf("reported again: %q", again)
			}
		})
	}
}

func TestAxeFindsViolationsUnderTheStrictestPolicy(t *testing.T) {
	b := Start(t)
	address := site(t, map[string]string{
		"/good": "<h1>A page</h1><p>with text</p>",
		"/bad":  "<h1>A page</h1><img src=/icon.svg><input>",
	})
	tab := b.Tab(t, Options{})
	tab.Open(address + "/good")
	for range 2 {
		if got := tab.Axe(); len(got) > 0 {
			t.Errorf("violations on a good page: %q", got)
		}
	}
	tab.Open(address + "/bad")
	got := strings.Join(tab.Axe(), "\n")
	for _, rule := range []string{"image-alt", "label"} {
		if !strings.Contains(got, rule+" (critical)") {
			t.Errorf("no violation of %s: %s", rule, got)
		}
	}
	if reports := tab.Reports(); len(reports) > 0 {
		t.Errorf("the check itself is reported: %q", reports)
	}
}

func TestSidewaysNamesTheElement(t *testing.T) {
	b := Start(t)
	const word = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"
	address := site(t, map[string]string{"/": "<h1>A page</h1><p id=long>" + word + "</p>"})
	tab := b.Tab(t, Options{Width: 1280, Height: 800})
	tab.Open(address)
	if got := tab.Sideways(); len(got) > 0 {
		t.Errorf("on a wide screen: %q", got)
	}
	tab.Resize(320, 640)
	if got := tab.Sideways(); len(got) != 2 || !strings.HasPrefix(got[1], "p#long ends at ") {
		t.Errorf("on a narrow screen: %q", got)
	}
}

func TestTabOptions(t *testing.T) {
	b := Start(t)
	address := site(t, map[string]string{"/": "<h1>Without</h1><script src=/text.js></script>"})
	title := "document.querySelector('h1').textContent"
	tab := b.Tab(t, Options{Width: 360, Height: 800, Media: Dark})
	tab.Open(address)
	if got := Eval[string](tab, title); got != "with a script" {
		t.Errorf("with JavaScript: %q", got)
	}
	if !Eval[bool](tab, "innerWidth === 360 && innerHeight === 800 && matchMedia('(prefers-color-scheme: dark)').matches") {
		t.Error("the page does not see its size and theme")
	}
	tab.SetMedia(map[string]string{"forced-colors": "active", "prefers-reduced-motion": "reduce"})
	if !Eval[bool](tab, "matchMedia('(forced-colors: active)').matches && matchMedia('(prefers-reduced-motion)').matches") {
		t.Error("the page does not see forced colors and reduced motion")
	}
	off := b.Tab(t, Options{NoScript: true})
	off.Open(address)
	if got := Eval[string](off, title); got != "Without" {
		t.Errorf("without JavaScript: %q", got)
	}
	if got := off.Axe(); len(got) > 0 || Eval[string](off, title) != "Without" {
		t.Errorf("violations without JavaScript: %q", got)
	}
}

func TestProfilesShareNothing(t *testing.T) {
	b := Start(t)
	address := site(t, map[string]string{"/": "<h1>A page</h1>"})
	read := func(b *Browser) string {
		tab := b.Tab(t, Options{})
		tab.Open(address)
		return Eval[string](tab, "localStorage.getItem('x') || ''")
	}
	tab := b.Tab(t, Options{})
	tab.Open(address)
	Eval[int](tab, "localStorage.setItem('x', 'kept'), 0")
	if got := read(b); got != "kept" {
		t.Errorf("another tab of the same profile reads %q", got)
	}
	if got := read(b.Profile(t)); got != "" {
		t.Errorf("another profile reads %q", got)
	}
}

func TestKeyboardAndOutline(t *testing.T) {
	b := Start(t)
	tab := b.Tab(t, Options{})
	tab.Open(site(t, map[string]string{
		"/":     `<h1>A page</h1><form action=/next><label>Search <input name=q></label> <button>Go</button></form>`,
		"/next": `<h1>Found</h1><div><ul><li><a href=/>back <b>home</b></a></ul></div>`,
	}))
	tab.Press("\ta b")
	want := `RootWebArea "Test"
  main
    heading "A page" level=1
    form
      LabelText
        StaticText "Search "
        textbox "Search" = "a b"
      button "Go"
`
	if diff := cmp.Diff(want, tab.Outline()); diff != "" {
		t.Errorf("outline (-want +got):\n%s", diff)
	}
	tab.Press("\r")
	tab.Wait("location.pathname === '/next'")
	if got := tab.URL(); !strings.HasSuffix(got, "/next?q=a+b") {
		t.Errorf("Enter leads to %s", got)
	}
	tab.Back()
	tab.Wait("document.querySelector('h1').textContent === 'A page'")
}
