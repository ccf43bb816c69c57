// Package page renders the content of catalogs as HTML. It reads the HTTP API of the content service through a Source, with the
// permissions of the reader, so it shows only content that the reader can request.
//
// The daemon mounts it below /ui/; the plugin serves it on a loopback port. Links are relative, so it works below any path. Every
// state of a page is a URL. Only live changes, the query editor and keyboard shortcuts need JavaScript.
package page

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzhttp"
)

// Config configures the page.
type Config struct {
	Source    func(*http.Request) Source // returns a Source with the permissions of the sender of a request
	Private   bool                       // the URL of the page contains a secret, so readers must not share it
	Login     bool                       // serves the login with a token; see login.go
	Namespace string                     // of catalogd, for the shown commands; default catalogd-system
	Version   string                     // of this program
	Preview   *Preview                   // nil: the page shows the catalogs of a cluster
	Logger    *slog.Logger               // nil: nothing is logged
}

// Preview is a catalog in files, without a cluster.
type Preview struct {
	Dir     string        // as the user wrote it
	Problem func() string // why the page shows the previous content of the files; "" if it is current
}

// New returns the handler of all pages. It serves paths from the root; mount it with http.StripPrefix.
func New(cfg Config) http.Handler { return build(cfg).handler() }

func build(cfg Config) *page {
	p := &page{Config: cfg, templates: parseTemplates(), slowest: time.Minute}
	p.Source = func(r *http.Request) Source { return confined{cfg.Source(r)} }
	if p.Logger == nil {
		p.Logger = slog.New(slog.DiscardHandler)
	}
	return p
}

func (p *page) handler() http.Handler {
	mux := http.NewServeMux()
	for _, route := range p.routes() {
		mux.Handle("GET "+route.path, p.render(route))
	}
	p.addForwards(mux)
	mux.HandleFunc("GET /assets/{version}/{file}", serveAsset)
	if p.Login {
		mux.HandleFunc("POST /login", p.logIn)
		mux.HandleFunc("POST /logout", p.logOut)
	}
	mux.HandleFunc("/", p.notFound)
	return protect(p.readCookies(mux))
}

// page has the state that all requests share.
type page struct {
	Config
	templates map[string]*template.Template // by file name
	held      atomic.Int64                  // bytes: see memory
	slowest   time.Duration                 // that a page may take
}

// A route is a page. load reads the data of the template from the API.
type route struct {
	path     string // a pattern of http.ServeMux
	template string // a file of templates
	load     func(*request) (any, error)
}

func (p *page) routes() []route {
	routes := []route{
		{"/{$}", "packages.html", loadPackages},
		{"/catalogs", "catalogs.html", loadCatalogs},
		{"/catalogs/{catalog}", "catalog.html", loadCatalog},
		{"/compare", "compare.html", loadComparison},
		{"/changes", "changes.html", loadChanges},
		{"/apis", "kinds.html", loadKinds},
		{"/apis/{group}/{kind}", "api.html", loadAPI},
		{"/graphql", "graphql.html", loadExplorer},
		{"/help", "help.html", loadHelp},
	}
	if p.Login {
		routes = append(routes, route{"/login", "login.html", loadLogin})
	}
	for _, of := range []string{"/catalogs/{catalog}", "/catalogs/{catalog}/digests/{digest}"} {
		routes = append(routes,
			route{of + "/packages/{package}", "package.html", loadPackage},
			route{of + "/packages/{package}/compare", "bundles.html", loadBundleComparison},
			route{of + "/packages/{package}/channels/{channel}", "channel.html", loadChannel})
	}
	return routes
}

// request is a request for a page.
type request struct {
	*http.Request
	page   *page
	api    api
	root   string // the relative path to the mount point: "", "../", "../../", ...
	values url.Values
}

// request returns a request, whose memory must be released.
func (p *page) request(r *http.Request) *request {
	of := api{source: p.Source(r), memory: &memory{all: &p.held}, ctx: r.Context()}
	of.catalogs = sync.OnceValues(of.readCatalogs)
	return &request{Request: r, page: p, api: of, root: rootOf(r), values: r.URL.Query()}
}

// rootOf returns the relative path from a page to the mount point.
func rootOf(r *http.Request) string {
	depth := strings.Count(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	if depth == 0 {
		return "./"
	}
	return strings.Repeat("../", depth)
}

// frame is the data around a page: the header and the footer of layout.html.
type frame struct {
	Root     string
	Here     string // the path of this page below the mount point, with its query
	Section  string // the first element of the path, or "package"
	Query    string // the text of the search box
	Catalogs []catalog
	Kept     []param // filters that a search keeps
	Login    bool
	Version  string
	Assets   string // the version of the assets
	Theme    string // see chosenTheme
	Title    string
	Watch    string // watchAll, watchListed, or "" if changes of catalogs do not make the page stale
	Watched  []catalog
	Preview  string // the directory of a preview; "" for a cluster
	Problem  string // see Preview
	Body     any
}

// param is a parameter of a URL.
type param struct{ Name, Value string }

// LeftOut returns the number of invalid packages in all catalogs as "3 packages are"; "" for 0.
func (f frame) LeftOut() string {
	n := 0
	for _, c := range f.Catalogs {
		n += c.InvalidPackages
	}
	switch n {
	case 0:
		return ""
	case 1:
		return "1 package is"
	}
	return fmt.Sprintf("%d packages are", n)
}

// LeftOutPath returns the path of the page with the reasons: that of the catalog if there is only one.
func (f frame) LeftOutPath() string {
	path := ""
	for _, c := range f.Catalogs {
		if c.InvalidPackages > 0 && path != "" {
			return "catalogs"
		}
		if c.InvalidPackages > 0 {
			path = catalogURL("", c.Name, "") + "#left-out"
		}
	}
	return path
}

// Unhealthy returns the number of unhealthy catalogs as "2 not ready"; "" for 0.
func (f frame) Unhealthy() string {
	n := 0
	for _, c := range f.Catalogs {
		if c.Health() == bad {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d not ready", n)
}

// titled is page data with a title.
type titled interface{ Title() string }

// render returns the handler of a route.
func (p *page) render(rt route) http.Handler {
	return gzhttp.GzipHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeoutCause(r.Context(), p.slowest, errTooSlow)
		defer cancel()
		req := p.request(r.WithContext(ctx))
		defer req.api.memory.release()
		listed := make(chan []catalog, 1)
		go func() {
			list, _ := req.api.catalogs() // for the header only; readers of one catalog may not list all
			listed <- slices.Concat(list.Catalogs, list.NotServed)
		}()
		body, err := rt.load(req)
		f := p.frame(req, <-listed)
		if err != nil {
			p.fail(w, req, f, err)
			return
		}
		f.Body = body
		if t, ok := body.(titled); ok {
			f.Title = t.Title()
		}
		p.send(w, req, http.StatusOK, rt.template, f)
	}))
}

func (p *page) frame(r *request, catalogs []catalog) frame {
	section, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if strings.Contains(rest, "/packages/") {
		section = "package"
	}
	here := strings.TrimPrefix(r.URL.EscapedPath(), "/")
	if r.URL.RawQuery != "" {
		here += "?" + r.URL.RawQuery
	}
	var kept []param
	for _, f := range facetParams {
		for _, value := range r.values[f.param] {
			if section == "" {
				kept = append(kept, param{f.param, value})
			}
		}
	}
	watch, watched := watchedBy(r, section, catalogs)
	theme, _ := r.Context().Value(themeKey{}).(string)
	f := frame{
		Watch: watch, Watched: watched,
		Kept: kept, Root: r.root, Here: here, Section: section, Query: r.values.Get("q"), Catalogs: catalogs,
		Login: p.Login, Version: p.Version, Assets: assetsVersion, Theme: theme,
	}
	if p.Preview != nil {
		f.Preview, f.Problem = p.Preview.Dir, p.Preview.Problem()
	}
	return f
}

// themeKey is the key of the theme in the context of a request.
type themeKey struct{}

// chosenTheme returns the theme of the cookie that page.js sets, "light" or "dark", or "" for the setting of the browser. The
// theme is in the HTML, because a script that reads it from localStorage would block the first paint.
func chosenTheme(r *http.Request) string {
	cookie, err := r.Cookie("catalogd-theme")
	if err != nil || cookie.Value != "light" && cookie.Value != "dark" {
		return ""
	}
	return cookie.Value
}

// send renders a template and sends the result, unless rendering fails. The ETag is the hash of the page.
func (p *page) send(w http.ResponseWriter, r *request, status int, name string, f frame) {
	var b writing
	if status == http.StatusOK {
		b.memory = r.api.memory
	}
	err := p.templates[name].ExecuteTemplate(&b, "layout.html", f)
	if limit, ok := errors.AsType[*apiError](err); ok && status == http.StatusOK {
		p.fail(w, r, f, limit)
		return
	}
	if err != nil {
		p.Logger.ErrorContext(r.Context(), "rendering a page", "path", r.URL.Path, "error", err)
		http.Error(w, "500 Internal Server Error\nrendering the page failed; see the log of the server", http.StatusInternalServerError)
		return
	}
	content := visible(b.content.Bytes())
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "private, no-cache")
	if status == http.StatusOK {
		sum := sha256.Sum256(content)
		etag := `W/"` + hex.EncodeToString(sum[:12]) + `"`
		h.Set("ETag", etag)
		if strings.Contains(r.Header.Get("If-None-Match"), etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(content) // an error means that the client has gone
	}
}

// fail renders an error. It redirects unauthenticated readers to the login.
func (p *page) fail(w http.ResponseWriter, r *request, f frame, err error) {
	e := &apiError{Status: http.StatusInternalServerError, Text: "reading the content failed; see the log of the server"}
	switch {
	case errors.As(err, &e), errors.As(context.Cause(r.Context()), &e):
	case r.Context().Err() != nil:
		return
	default:
		p.Logger.ErrorContext(r.Context(), "loading a page", "path", r.URL.Path, "error", err)
	}
	if e.Status == http.StatusUnauthorized && p.Login {
		endSession(w) // the token may have expired
		redirect(w, f.Root+"login?next="+url.QueryEscape(f.Here))
		return
	}
	if e.RetryAfter != "" {
		w.Header().Set("Retry-After", e.RetryAfter)
	}
	f.Title = http.StatusText(e.Status)
	f.Body = e
	p.send(w, r, e.Status, "error.html", f)
}

func (p *page) notFound(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "405 Method Not Allowed", http.StatusMethodNotAllowed)
		return
	}
	if path := strings.TrimSuffix(r.URL.EscapedPath(), "/"); path != "" && path != r.URL.EscapedPath() {
		w.Header().Set("Location", "../"+path[strings.LastIndex(path, "/")+1:]) // without the final slash
		w.WriteHeader(http.StatusPermanentRedirect)
		return
	}
	req := p.request(r)
	defer req.api.memory.release()
	p.fail(w, req, p.frame(req, nil), &apiError{Status: http.StatusNotFound, Text: fmt.Sprintf("page %q not found", shorten(200, r.URL.Path))})
}
