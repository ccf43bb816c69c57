package authoring

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/operator-catalogs/catalogd/internal/catalogimage"
	"github.com/operator-catalogs/catalogd/internal/testing/registry"
)

// startRegistry returns the host of a registry, which requires the user "user" with the password "secret" if
// private.
func startRegistry(t *testing.T, private bool) string {
	t.Helper()
	return registry.Start(t, func(images http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if user, password, _ := r.BasicAuth(); private && (user != "user" || password != "secret") {
				w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
				http.Error(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
				return
			}
			images.ServeHTTP(w, r)
		})
	})
}

func build(t *testing.T, dir string) v1.ImageIndex {
	t.Helper()
	index, err := catalogimage.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func digestOf(t *testing.T, dir string) string {
	t.Helper()
	digest, err := build(t, dir).Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

func push(t *testing.T, index v1.ImageIndex, ref string, opts Options) error {
	t.Helper()
	tag, err := ParseTag(ref, opts)
	if err != nil {
		return err
	}
	return Push(t.Context(), index, tag, opts)
}

// progress has the last reported values.
type progress struct {
	mu          sync.Mutex
	done, total int64
}

func (p *progress) report(done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.total = max(p.done, done), total
}

func TestPushAndOpen(t *testing.T) {
	host := startRegistry(t, true)
	files := map[string]string{
		"foo/c.json":            fooPackage + fooChannel + fooBundle,
		"bar/ü n.yaml":          "schema: olm.package\nname: bar\n",
		"baz/" + longName():     `{"schema":"x"}`,
		".indexignore":          "*.md",
		"README.md":             "not a catalog",
		"custom/deep/er/d.json": `{"schema":"custom"}`,
	}
	dir := writeTree(t, files)
	var pushed, pulled progress
	opts := Options{Keychain: keychain{"user", "secret"}, Progress: pushed.report}
	ref := host + "/catalogs/mine:v1"
	if err := push(t, build(t, dir), ref, opts); err != nil {
		t.Fatal(err)
	}
	if pushed.done == 0 || pushed.done != pushed.total {
		t.Errorf("the last progress of the push is %d of %d bytes", pushed.done, pushed.total)
	}

	opts.Progress = pulled.report
	s, err := Open(t.Context(), ref, opts)
	if err != nil {
		t.Fatal(err)
	}
	if want := host + "/catalogs/mine@" + digestOf(t, dir); s.Image != want || s.Dir != "" {
		t.Errorf("got the source %q %q, want the image %s", s.Image, s.Dir, want)
	}
	if pulled.total == 0 || pulled.done < pulled.total {
		t.Errorf("the last progress of the pull is %d of %d bytes", pulled.done, pulled.total)
	}
	for file, want := range files {
		got, err := os.ReadFile(filepath.Join(s.temp, file))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v; want %q", file, got, err, want)
		}
	}
	report, err := Lint(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if f := report.Faults[0]; f.File != "bar/ü n.yaml" || f.Rule != "default-channel" || report.Source != s.Image {
		t.Errorf("got %+v of %s", f, report.Source)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.temp); !os.IsNotExist(err) {
		t.Errorf("the files exist after Close: %v", err)
	}
}

// longName is longer than the name field of a tar header.
func longName() string { return strings.Repeat("long/", 60) + "c.json" }

// keychain has the same credentials for all registries.
type keychain struct{ user, password string }

func (k keychain) Resolve(authn.Resource) (authn.Authenticator, error) {
	return &authn.Basic{Username: k.user, Password: k.password}, nil
}

func TestOpenErrors(t *testing.T) {
	t.Chdir(writeTree(t, map[string]string{"catalog/foo/c.json": fooPackage, "file": ""}))
	host, private := startRegistry(t, false), startRegistry(t, true)
	closed := httptest.NewServer(nil)
	closed.Close()
	for ref, want := range map[string]string{
		"catalog":                   "",
		"./catalog":                 "",
		"./nosuch":                  "directory or file ./nosuch not found",
		"../nosuch":                 "directory or file ../nosuch not found",
		"nosuch/":                   "directory or file nosuch/ not found",
		"/nosuch":                   "directory or file /nosuch not found",
		"nosuch.yaml":               "directory or file nosuch.yaml not found",
		"nosuch/a.yaml":             "directory or file nosuch/a.yaml not found (an image reference needs a registry)",
		"Not An Image":              "directory or file Not An Image not found (an image reference needs a registry)",
		"registry.example/An Image": `"registry.example/An Image" is not a valid image reference: write`,
		host + "/catalog:nosuch":    "no directory or file is named " + host + "/catalog:nosuch",
		"https://registry.example/": "write registry/repository:tag, without https://",
		private + "/catalog:latest": "Unauthorized",
		strings.TrimPrefix(closed.URL, "http://") + "/c": "resolving",
	} {
		s, err := Open(t.Context(), ref, Options{Keychain: keychain{}})
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", ref, err, want)
		}
		if missing := strings.HasPrefix(want, "directory or file") || strings.HasPrefix(want, "no directory"); IsNotFound(err) != missing {
			t.Errorf("%s: is not found: %t, want %t", ref, IsNotFound(err), missing)
		}
		if s != nil {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestPushRefuses(t *testing.T) {
	index := build(t, writeTree(t, map[string]string{"foo/c.json": fooPackage}))
	private := startRegistry(t, true)
	answering := func(status int, body string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v2/" {
				w.WriteHeader(status)
			}
			fmt.Fprint(w, body)
		}))
		t.Cleanup(server.Close)
		return strings.TrimPrefix(server.URL, "http://")
	}
	other, posts := answering(http.StatusNotFound, "404 page not found"), answering(http.StatusMethodNotAllowed, "")
	strict := answering(http.StatusNotFound, `{"errors":[{"code":"NAME_UNKNOWN","message":"create it"}]}`)
	for ref, want := range map[string]string{
		"Not An Image":       "is not a valid image reference",
		private + "/catalog": "log in first: docker login " + private,
		other + "/a/b:c":     other + " does not respond like a registry (404 Not Found)",
		posts + "/a/b:c":     posts + " does not respond like a registry (405 Method Not Allowed)",
		strict + "/a/b:c":    "registry " + strict + " has no repository a/b: create it first",
	} {
		if err := push(t, index, ref, Options{Keychain: keychain{"user", "wrong"}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", ref, err, want)
		}
	}
}

// The registry has an untrusted certificate.
func TestInsecure(t *testing.T) {
	server := httptest.NewTLSServer(registry.New())
	defer server.Close()
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	ref := strings.TrimPrefix(server.URL, "https://") + "/catalog"
	index := build(t, writeTree(t, map[string]string{"foo/c.json": fooPackage}))
	if err := push(t, index, ref, Options{}); err == nil {
		t.Error("the certificate was not verified")
	}
	if err := push(t, index, ref, Options{Insecure: true}); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), ref, Options{Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestHostileArchives lints images with a layer of the corpus. Lint reports those that catalogd rejects.
func TestHostileArchives(t *testing.T) {
	host := startRegistry(t, false)
	dir := filepath.Join("..", "..", "e2e", "testdata", "broken", "archives")
	if corpus := os.Getenv("BROKEN_CATALOGS"); corpus != "" {
		dir = filepath.Join(corpus, "archives")
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.tar.gz"))
	if err != nil || len(archives) == 0 {
		t.Fatalf("%d archives, error %v", len(archives), err)
	}
	accepted := map[string]bool{"control.tar.gz": true, "absolute-path.tar.gz": true, "duplicate-entry.tar.gz": true}
	for _, file := range archives {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			report := lintArchive(t, host+"/broken/"+strings.TrimSuffix(name, ".tar.gz"), file)
			if refused := report.Errors() > 0; refused == accepted[name] || refused != report.Refused {
				t.Errorf("accepted: want %t; got %+v", accepted[name], report)
			}
		})
	}
}

func lintArchive(t *testing.T, ref, file string) *Report {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, static.NewLayer(content, types.DockerLayer))
	if err != nil {
		t.Fatal(err)
	}
	if img, err = mutate.Config(img, v1.Config{Labels: map[string]string{catalogimage.ConfigsLabel: "/configs"}}); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, img); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), ref, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	report, err := Lint(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Outline(t.Context(), s); (err != nil) != report.Refused {
		t.Errorf("refused: %t, the outline has the error %v", report.Refused, err)
	}
	return report
}
