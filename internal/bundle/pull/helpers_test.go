package pull

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/operator-catalogs/catalogd/internal/bundle"
	"github.com/operator-catalogs/catalogd/internal/registry"
	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
	testregistry "github.com/operator-catalogs/catalogd/internal/testing/registry"
)

const someCSV = `apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
  name: foo.v1.0.0
spec: {}
`

// foo are the files of a bundle of package foo.
func foo() map[string]string {
	return map[string]string{
		"manifests/foo.csv.yaml":    someCSV,
		"manifests/two.yaml":        "# a comment\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n",
		"manifests/list.json":       `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"n"}}]}`,
		"manifests/broken.yaml":     "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n---\na: [\n",
		"manifests/README.md":       "no manifest",
		"metadata/annotations.yaml": "annotations:\n  " + bundle.PackageLabel + ": foo\n",
		"tests/scorecard/config":    "not content",
	}
}

// labels are those of a bundle of package foo.
func labels() map[string]string {
	return map[string]string{
		bundle.MediaTypeLabel: "registry+v1", bundle.ManifestsLabel: "manifests/", bundle.MetadataLabel: "metadata/", bundle.PackageLabel: "foo",
	}
}

func layer(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, text := range files {
		must.Succeed(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(text)), Mode: 0o600}))
		_, err := io.WriteString(w, text)
		must.Succeed(t, err)
	}
	must.Succeed(t, w.Close())
	return out.Bytes()
}

func image(t testing.TB, labels map[string]string, layers ...[]byte) v1.Image {
	t.Helper()
	img, err := mutate.Config(mutate.MediaType(empty.Image, types.OCIManifestSchema1), v1.Config{Labels: labels})
	must.Succeed(t, err)
	for _, l := range layers {
		img, err = mutate.AppendLayers(img, static.NewLayer(l, types.OCILayer))
		must.Succeed(t, err)
	}
	return img
}

// world is a Puller with a cache on a volume, and a registry.
type world struct {
	*Puller
	t    *testing.T
	dir  string
	host string

	mu       sync.Mutex
	requests []string
	down     bool
	now      time.Time
	stopAll  func()
	stall    chan struct{} // requests for manifests wait for it; may be nil
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir(), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	w.host = testregistry.Start(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			w.mu.Lock()
			w.requests = append(w.requests, r.Method+" "+r.URL.Path)
			down, stall := w.down, w.stall
			w.mu.Unlock()
			if stall != nil && r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/manifests/") {
				<-stall
			}
			if down {
				out.WriteHeader(http.StatusInternalServerError)
				return
			}
			next.ServeHTTP(out, r)
		})
	})
	w.start(Limits{}, 64<<20)
	return w
}

// start starts another process on the volume.
func (w *world) start(limits Limits, cacheBytes int64) {
	w.t.Helper()
	if w.Puller != nil {
		w.stopAll()
	}
	s, err := store.Open(w.dir, store.Options{Logger: slog.New(slog.DiscardHandler), CacheBytes: cacheBytes})
	must.Succeed(w.t, err)
	registries := registry.New(registry.Config{Now: time.Now, Backoff: func(int) time.Duration { return 0 }})
	if limits == (Limits{}) {
		limits = DefaultLimits()
	}
	f := New(Config{
		Cache: s.Cache(), Limits: limits, Logger: slog.New(slog.DiscardHandler),
		Client: func(_ context.Context, catalog string) (*registry.Client, error) {
			return registries.Client(catalog, registry.Access{Confined: true, Only: []string{w.host}})
		},
		Now: func() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.now },
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = f.Run(ctx) }()
	end := sync.OnceFunc(func() { stop(); <-ended; _ = s.Close() })
	w.t.Cleanup(end)
	w.Puller, w.stopAll = f, end
}

func (w *world) push(tag string, img v1.Image) (byTag, byDigest string) {
	w.t.Helper()
	ref, err := name.NewTag(w.host + "/bundles/foo:" + tag)
	must.Succeed(w.t, err)
	must.Succeed(w.t, remote.Write(ref, img))
	digest, err := img.Digest()
	must.Succeed(w.t, err)
	w.take()
	return ref.String(), ref.Context().Digest(digest.String()).String()
}

// take returns the requests to the registry since the last call.
func (w *world) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.requests
	w.requests = nil
	return out
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func of(image string) bundle.Request {
	return bundle.Request{Catalog: "cat", Owner: "1", Package: "foo", Image: image}
}

func (w *world) get(image string) *bundle.Archive {
	w.t.Helper()
	a, err := w.Fetch(w.t.Context(), of(image), "")
	must.Succeed(w.t, err)
	w.t.Cleanup(func() { _ = a.Close() })
	return a
}

func read(t testing.TB, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	must.Succeed(t, err)
	return string(b)
}

func readTar(t testing.TB, a *bundle.Archive) string {
	t.Helper()
	files, err := a.Tar()
	must.Succeed(t, err)
	return read(t, files)
}
