//go:build unix

package ui

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/session/sessiontest"
	"github.com/operator-catalogs/catalogd/internal/page"
)

const sample = "../../../config/samples/catalog/configs"

// open opens a directory that nothing follows.
func open(t *testing.T, from string, out io.Writer) *directory {
	t.Helper()
	d, err := openDirectory(t.Context(), sessiontest.New(t, out), from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(d.ended)
		if err := d.close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(d.temp); !os.IsNotExist(err) {
			t.Errorf("%s remains: %v", d.temp, err)
		}
	})
	return d
}

func get(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// The page of a directory is that of the daemon, with its API.
func TestDirectoryPreview(t *testing.T) {
	var out bytes.Buffer
	d := open(t, sample, &out)
	h := page.New(page.Config{Source: func(r *http.Request) page.Source { return page.Inside(d.api, r) }, Logger: logger(d.session)})
	for path, code := range map[string]int{
		"/": 200, "/catalogs": 200, "/catalogs/preview-catalog/packages/skupper-operator": 200, "/catalogs/preview-catalog/raw/skupper-operator": 200,
		"/catalogs/preview-catalog/packages/absent": 404, "/catalogs/absent": 404, "/nothing": 404,
	} {
		if w := get(t, h, path); w.Code != code {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader(`{"query":"{ packages { totalCount } }"}`))
	r.Header.Set("Content-Type", "application/json")
	h.ServeHTTP(w, r)
	if want := `{"data":{"packages":{"totalCount":10}}}`; strings.TrimSpace(w.Body.String()) != want {
		t.Errorf("got %s, want %s", w.Body, want)
	}
	if out.Len() > 0 {
		t.Errorf("it printed %s", &out)
	}
}

// A change of the files is shown, a broken file is not.
func TestDirectoryIsReadAgain(t *testing.T) {
	dir, out := t.TempDir(), &bytes.Buffer{}
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pkg := func(name string) string {
		return `{"schema":"olm.package","name":"` + name + `","defaultChannel":"c"}` +
			`{"schema":"olm.channel","package":"` + name + `","name":"c","entries":[{"name":"` + name + `.v1.0.0"}]}` +
			`{"schema":"olm.bundle","package":"` + name + `","name":"` + name + `.v1.0.0","image":"r.example/` + name + `:v1","properties":[` +
			`{"type":"olm.package","value":{"packageName":"` + name + `","version":"1.0.0"}}]}`
	}
	write("a.json", pkg("a"))
	d := open(t, dir, out)
	packages := func() string {
		t.Helper()
		var reply struct {
			Data struct {
				Packages struct{ Nodes []struct{ Name string } }
			}
		}
		if err := json.Unmarshal(get(t, d.api, "/api/v1/graphql?query={packages{nodes{name}}}").Body.Bytes(), &reply); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, n := range reply.Data.Packages.Nodes {
			names = append(names, n.Name)
		}
		return strings.Join(names, " ")
	}
	for _, step := range []struct {
		text   string // of b.json
		shown  string
		prints string
	}{
		{"", "a", ""},
		{pkg("b"), "a b", "shows the new content"},
		{"{", "a b", "b.json"},
		{pkg("bb"), "a bb", "shows the new content"},
	} {
		if step.text != "" {
			write("b.json", step.text)
		}
		out.Reset()
		d.refresh(t.Context())
		if got := packages(); got != step.shown {
			t.Errorf("after b.json became %q, it shows %q, want %q: %s", step.text, got, step.shown, out)
		}
		if !strings.Contains(out.String(), step.prints) || step.prints == "" && out.Len() > 0 {
			t.Errorf("after b.json became %q, it prints %q", step.text, out)
		}
	}
}

func TestDirectoryErrors(t *testing.T) {
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, "x.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openDirectory(t.Context(), sessiontest.New(t, io.Discard), broken); err == nil ||
		!strings.Contains(err.Error(), "x.json") || !strings.Contains(err.Error(), "kubectl catalog lint") {
		t.Errorf("got %v", err)
	}
	if _, err := openDirectory(t.Context(), sessiontest.New(t, io.Discard), "./absent"); !exit.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}

func TestCatalogName(t *testing.T) {
	for path, want := range map[string]string{
		"/home/a/My Catalog": "preview-my-catalog", "/home/a/hello/configs": "preview-hello", "/configs": "preview", "/": "preview",
		"/x/catalog.yaml": "preview-catalog-yaml", "/x/" + strings.Repeat("y", 300): "preview-" + strings.Repeat("y", 50),
	} {
		if got := catalogName(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
