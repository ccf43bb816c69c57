package serve

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/operator-catalogs/catalogd/internal/auth"
	"github.com/operator-catalogs/catalogd/internal/bundle"
	"github.com/operator-catalogs/catalogd/internal/bundle/pull"
	"github.com/operator-catalogs/catalogd/internal/registry" //nolint:depguard // for a real Puller
	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/testing/httpscript"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
	testregistry "github.com/operator-catalogs/catalogd/internal/testing/registry"
)

// bundleWorld is a service with catalog bundles of testdata, and a registry that it takes for registry.example.
type bundleWorld struct {
	cfg      Config
	host     string // of the registry
	requests chan string
}

func newBundleWorld(t *testing.T) *bundleWorld {
	t.Helper()
	w := &bundleWorld{requests: make(chan string, 1000)}
	w.host = testregistry.Start(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			w.requests <- r.Method + " " + r.URL.Path
			next.ServeHTTP(out, r)
		})
	})
	push := func(tag string, labels map[string]string) {
		var files bytes.Buffer
		archive := tar.NewWriter(&files)
		for name, text := range map[string]string{
			"manifests/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n#\n#\n", "manifests/broken.yaml": "a: [\n",
			"metadata/annotations.yaml": "annotations: {}\n",
		} {
			must.Succeed(t, archive.WriteHeader(&tar.Header{Name: name, Size: int64(len(text))}))
			_, err := archive.Write([]byte(text))
			must.Succeed(t, err)
		}
		must.Succeed(t, archive.Close())
		img, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), static.NewLayer(files.Bytes(), types.OCILayer))
		must.Succeed(t, err)
		img, err = mutate.Config(img, v1.Config{Labels: labels})
		must.Succeed(t, err)
		ref, err := name.NewTag(w.host + "/foo/bundle:" + tag)
		must.Succeed(t, err)
		must.Succeed(t, remote.Write(ref, img))
	}
	push("v2", map[string]string{bundle.MediaTypeLabel: "registry+v1", bundle.PackageLabel: "foo"})
	push("v4", nil)
	st, err := store.Open(t.TempDir(), store.Options{CacheBytes: 32 << 20, Now: func() time.Time { return committedAt }})
	must.Succeed(t, err)
	commit(t, st, "bundles", "1", os.DirFS("testdata/bundles"))
	registries := registry.New(registry.Config{Now: time.Now, Backoff: func(int) time.Duration { return 0 }})
	puller := pull.New(pull.Config{
		Cache: st.Cache(), Limits: pull.DefaultLimits(), Logger: slog.New(slog.DiscardHandler),
		Client: func(_ context.Context, catalog string) (*registry.Client, error) {
			return registries.Client(catalog, registry.Access{
				Confined: true, Mirrors: []registry.Mirror{{Source: "registry.example", Location: w.host}},
			})
		},
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- puller.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		must.Succeed(t, <-ended)
		must.Succeed(t, st.Close())
	})
	w.cfg = testConfig(st)
	w.cfg.Bundles = puller
	w.take()
	return w
}

// take returns the requests to the registry since the last call.
func (w *bundleWorld) take() (requests []string) {
	for len(w.requests) > 0 {
		requests = append(requests, <-w.requests)
	}
	return requests
}

// runBundleScript runs testdata/bundles.txt, and notes the documented paths that had status 200.
func runBundleScript(t *testing.T, described *description, seen map[string]bool) {
	script, err := os.ReadFile("testdata/bundles.txt")
	must.Succeed(t, err)
	steps, err := httpscript.Parse(string(script))
	must.Succeed(t, err)
	httpscript.Run(t, startServer(t, New(newBundleWorld(t).cfg)), steps, wellFormedReply, described.check, described.note(seen))
}

// A reader without the right to bundle images gets 403, and no request leaves. Objects in the catalog need no such right.
func TestBundleAccess(t *testing.T) {
	w := newBundleWorld(t)
	var mayReadBundles bool
	w.cfg.Access = &fakeAccess{user: "jane", decide: func(path string) auth.Decision {
		return auth.Decision{Allowed: path != "/bundle-content/bundles" || mayReadBundles}
	}}
	handler := New(w.cfg)
	get := func(method, bundle, view string) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, httptest.NewRequest(method, "/catalogs/bundles/api/v1/packages/foo/bundles/"+bundle+"/"+view, nil))
		return rec
	}
	views := []string{"content", "content/manifests/a.yaml", "content.tar", "manifests", "permissions"}
	want := "403 Forbidden\nforbidden: user \"jane\" cannot get path \"/bundle-content/bundles\"; an admin can bind ClusterRole " +
		"catalogd-bundle-reader to the user\n"
	refusals := func() {
		t.Helper()
		for _, view := range views {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				if rec := get(method, "foo.v2", view); rec.Code != http.StatusForbidden || (method == http.MethodGet && rec.Body.String() != want) {
					t.Errorf("%s %s: got status %d: %s", method, view, rec.Code, rec.Body)
				}
			}
		}
		if got := w.take(); got != nil {
			t.Errorf("refused requests cause %v", got)
		}
	}
	refusals()
	if rec := get(http.MethodGet, "foo.v1", "permissions"); rec.Code != http.StatusOK {
		t.Errorf("objects of the catalog: got status %d: %s", rec.Code, rec.Body)
	}
	mayReadBundles = true
	for _, view := range views {
		if rec := get(http.MethodHead, "foo.v2", view); rec.Code != http.StatusServiceUnavailable {
			t.Errorf("HEAD %s: got status %d", view, rec.Code)
		}
	}
	if got := w.take(); got != nil {
		t.Errorf("HEAD causes %v", got)
	}
	for _, view := range views {
		if rec := get(http.MethodGet, "foo.v2", view); rec.Code != http.StatusOK {
			t.Errorf("%s: got status %d: %s", view, rec.Code, rec.Body)
		}
	}
	if got := strings.Join(w.take(), " "); strings.Count(got, "GET /v2/foo/bundle/manifests/") != 1 {
		t.Errorf("five views cause %v", got)
	}
	mayReadBundles = false // cached bundles need the right, too
	refusals()
}

// Without --bundle-content no image is pulled, and objects of the catalog are served.
func TestBundlesOff(t *testing.T) {
	w := newBundleWorld(t)
	w.cfg.Bundles = nil
	handler := New(w.cfg)
	for bundle, want := range map[string]int{"foo.v1": http.StatusOK, "foo.v2": http.StatusForbidden} {
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, fmt.Sprintf("/catalogs/bundles/api/v1/packages/foo/bundles/%s/content", bundle), nil))
		if rec.Code != want || (want != http.StatusOK && !strings.Contains(rec.Body.String(), "--bundle-content")) {
			t.Errorf("%s: got status %d: %s", bundle, rec.Code, rec.Body)
		}
	}
}

// ask sends a GraphQL query for the content of a bundle, and returns the body of the response.
func ask(t *testing.T, handler http.Handler, method, bundle, fields string) string {
	t.Helper()
	query := fmt.Sprintf("{ bundles(filter: {name: %q}) { nodes { content { %s } } } }", bundle, fields)
	rec := httptest.NewRecorder()
	handler.ServeHTTP(rec, httptest.NewRequest(method, "/catalogs/bundles/api/v1/graphql?query="+url.QueryEscape(query), nil))
	if rec.Code != http.StatusOK {
		t.Errorf("%s %s: got status %d: %s", method, query, rec.Code, rec.Body)
	}
	return strings.TrimSpace(rec.Body.String())
}

// GraphQL has the content of bundles. A query pulls the images that it lacks.
func TestBundleQuery(t *testing.T) {
	w := newBundleWorld(t)
	var mayReadBundles bool
	w.cfg.Access = &fakeAccess{user: "jane", decide: func(path string) auth.Decision {
		return auth.Decision{Allowed: path != "/bundle-content/bundles" || mayReadBundles}
	}}
	handler := New(w.cfg)
	for _, c := range []struct{ bundle, fields, want string }{
		{"foo.v1", "digest pinned fromCatalog manifests(kind: \"ConfigMap\") permissions { clusterWideSecrets serviceAccounts { name grants { scope " +
			"rules { apiGroups resources resourceNames risks } unknown } } }", `"content":{"digest":null,"pinned":false,"fromCatalog":true,` +
			`"manifests":[],"permissions":{"clusterWideSecrets":true,"serviceAccounts":[{"name":"foo","grants":[{"scope":"Cluster","rules":[` +
			`{"apiGroups":[""],"resources":["secrets"],"resourceNames":[],"risks":["secrets"]}],"unknown":false}]}]}}`},
		{"foo.v2", "image", `"code":"FORBIDDEN"`},
	} {
		if got := ask(t, handler, http.MethodGet, c.bundle, c.fields); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s\nwant %s", c.bundle, got, c.want)
		}
	}
	mayReadBundles = true
	ask(t, handler, http.MethodHead, "foo.v2", "image")
	if got := w.take(); got != nil {
		t.Errorf("HEAD, or a user without the right, causes %v", got)
	}
	for _, c := range []struct{ bundle, fields, want string }{
		{"foo.v2", `image pinned labels { key } files { path bytes fault } one: files(paths: ["metadata/annotations.yaml"]) { text }
			manifests permissions { faults risks }`, `"content":{"image":"registry.example/foo/bundle:v2","pinned":false,"labels":[` +
			`{"key":"operators.operatorframework.io.bundle.mediatype.v1"},{"key":"operators.operatorframework.io.bundle.package.v1"}],` +
			`"files":[{"path":"manifests/a.yaml","bytes":55,"fault":null},{"path":"manifests/broken.yaml","bytes":5,"fault":"yaml: line 1: did ` +
			`not find expected node content"},{"path":"metadata/annotations.yaml","bytes":16,"fault":null}],"one":[{"text":"annotations: {}\n"}],` +
			`"manifests":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}],` +
			`"permissions":{"faults":["manifests/broken.yaml"],"risks":[]}}`},
		{"foo.v3", "image", `"code":"FORBIDDEN"`},
		{"foo.v4", "image", `"code":"INVALID_CONTENT"`},
		{"foo.v5", "image", `"code":"BAD_GATEWAY"`},
	} {
		if got := ask(t, handler, http.MethodGet, c.bundle, c.fields); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s\nwant %s", c.bundle, got, c.want)
		}
	}
	w.take()
	ask(t, handler, http.MethodGet, "foo.v2", "digest")
	if got := w.take(); got != nil {
		t.Errorf("a cached bundle causes %v", got)
	}
}

// A query cannot open any number of images.
func TestBundleQueryLimit(t *testing.T) {
	w := newBundleWorld(t)
	var blobs strings.Builder
	blobs.WriteString(`{"schema": "olm.package", "name": "foo", "defaultChannel": "c0"}`)
	for i := range maxImages + 1 {
		fmt.Fprintf(&blobs, `{"schema": "olm.channel", "package": "foo", "name": "c%d", "entries": [{"name": "b%d"}]}`, i, i)
		fmt.Fprintf(&blobs, `{"schema": "olm.bundle", "package": "foo", "name": "b%d", "image": "elsewhere.example/foo:%d", "properties": [
			{"type": "olm.package", "value": {"packageName": "foo", "version": "1.0.%d"}}]}`, i, i, i)
	}
	commit(t, w.cfg.Catalogs, "bundles", "2", fstest.MapFS{"catalog.json": {Data: []byte(blobs.String())}})
	rec := httptest.NewRecorder()
	New(w.cfg).ServeHTTP(rec, httptest.NewRequest(http.MethodGet,
		"/catalogs/bundles/api/v1/graphql?query="+url.QueryEscape("{ bundles(first: 100) { nodes { content { image } } } }"), nil))
	if got := rec.Body.String(); !strings.Contains(got, "the query reads more than 20 bundle images; use a smaller") {
		t.Errorf("got %s", got)
	}
}

// A bundle that cannot be read is null, and the others are there.
func TestBundleQueryIsPartial(t *testing.T) {
	w := newBundleWorld(t)
	rec := httptest.NewRecorder()
	New(w.cfg).ServeHTTP(rec, httptest.NewRequest(http.MethodGet,
		"/catalogs/bundles/api/v1/graphql?query="+url.QueryEscape("{ bundles { nodes { name content { pinned } } } }"), nil))
	for _, want := range []string{`"data":{"bundles":{"nodes":[`, `{"name":"foo.v1","content":{"pinned":false}}`, `{"name":"foo.v3","content":null}`, `"code":"FORBIDDEN"`} {
		if got := rec.Body.String(); !strings.Contains(got, want) {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}
