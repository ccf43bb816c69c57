//go:build unix

package ui

import (
	"bytes"
	"context"
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
	"github.com/operator-catalogs/catalogd/internal/testing/must"
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

func previewOf(d *directory) http.Handler {
	return page.New(page.Config{
		Source:  func(r *http.Request) page.Source { return page.Inside(d.api, r) },
		Preview: &page.Preview{Dir: d.from, Problem: d.problem}, Logger: logger(d.session),
	})
}

// Each page says that it is a preview, and says nothing that is true on a cluster only.
func TestDirectoryPagesMentionNoCluster(t *testing.T) {
	h := previewOf(open(t, sample, io.Discard))
	const pkg = "/catalogs/preview-catalog/packages/skupper-operator"
	for _, path := range []string{
		"/", "/catalogs", "/catalogs/preview-catalog", "/apis", "/help", "/compare", pkg, pkg + "?tab=images", pkg + "?tab=install",
		pkg + "?tab=permissions", pkg + "/compare?permissions=1", "/apis/skupper.io/Site", "/nothing",
	} {
		body := get(t, h, path).Body.String()
		if want := "Preview of " + sample; !strings.Contains(body, want) {
			t.Errorf("%s lacks %q", path, want)
		}
		for _, not := range []string{
			"Last poll", "--bundle-content", "catalog mirror", "oc-mirror", "metadata.name: preview", "source: preview", "--catalog", "15 minutes",
			"OperatorPackage", "kubectl catalog describe",
		} {
			if strings.Contains(body, not) {
				t.Errorf("%s has %q", path, not)
			}
		}
	}
}

// An author can begin with an empty directory.
func TestEmptyDirectoryShowsExpectedFiles(t *testing.T) {
	dir := t.TempDir()
	body := get(t, previewOf(open(t, dir, io.Discard)), "/").Body.String()
	for _, want := range []string{dir + " contains no package", "olm.package"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(body, "CatalogSource") {
		t.Error("the page tells the reader to create a CatalogSource")
	}
}

// The page of a directory is that of the daemon, with its API.
func TestDirectoryPreview(t *testing.T) {
	var out bytes.Buffer
	d := open(t, sample, &out)
	h := previewOf(d)
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
		text    string // of b.json
		shown   string
		prints  string
		problem string // on the page
	}{
		{"", "a", "", ""},
		{pkg("b"), "a b", "shows the new content", ""},
		{"{", "a b", "b.json", "b.json"},
		{pkg("bb"), "a bb", "shows the new content", ""},
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
		_, notice, found := strings.Cut(get(t, previewOf(d), "/").Body.String(), "The files have an error")
		if found != (step.problem != "") || !strings.Contains(notice, step.problem) {
			t.Errorf("after b.json became %q, the page does not have the problem %q", step.text, step.problem)
		}
	}
}

// Ctrl-C during a read prints nothing, and the page keeps its problem.
func TestInterruptedReadIsNoSuccess(t *testing.T) {
	dir, out := t.TempDir(), &bytes.Buffer{}
	d := open(t, dir, out)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "a.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("{")
	d.refresh(t.Context())
	problem := d.problem()
	out.Reset()
	write("{{")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d.refresh(ctx)
	if got := d.problem(); problem == "" || got != problem || out.Len() > 0 {
		t.Errorf("the problem %q became %q; it printed %q", problem, got, out)
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
	if _, err := openDirectory(t.Context(), sessiontest.New(t, io.Discard), filepath.Dir(sample)); err == nil ||
		!strings.Contains(err.Error(), "README.md") || !strings.Contains(err.Error(), "use "+filepath.Clean(sample)) {
		t.Errorf("got %v", err)
	}
	if _, err := openDirectory(t.Context(), sessiontest.New(t, io.Discard), "./absent"); !exit.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}

func TestAbsentPathIsNoPackage(t *testing.T) {
	for arg, code := range map[string]string{"config/nope": "directory or file config/nope not found", ".hidden": "directory or file .hidden not found"} {
		err := run(t.Context(), sessiontest.New(t, io.Discard), uiRequest{arg: arg, address: "127.0.0.1"})
		if !exit.IsNotFound(err) || err.Error() != code {
			t.Errorf("%s: got %v, want %s", arg, err, code)
		}
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

// A directory that is removed is a problem, until it is there again.
func TestRemovedDirectoryIsAProblem(t *testing.T) {
	dir, out := filepath.Join(t.TempDir(), "catalog"), &bytes.Buffer{}
	must.Succeed(t, os.Mkdir(dir, 0o700))
	d := open(t, dir, out)
	must.Succeed(t, os.Remove(dir))
	d.refresh(t.Context())
	if problem := d.problem(); !strings.Contains(problem, "catalog") {
		t.Errorf("the problem is %q: %s", problem, out)
	}
	out.Reset()
	d.refresh(t.Context())
	if out.Len() > 0 {
		t.Errorf("it repeats %q", out)
	}
	must.Succeed(t, os.Mkdir(dir, 0o700))
	d.refresh(t.Context())
	if problem := d.problem(); strings.Contains(problem, "no such file") {
		t.Errorf("the problem is still %q", problem)
	}
}
