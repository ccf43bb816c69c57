package render

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/testing/bundles"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
	"github.com/operator-catalogs/catalogd/internal/testing/registry"
)

// requests counts the requests to a registry.
type requests struct{ all, heads atomic.Int64 }

func (r *requests) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.all.Add(1)
		if req.Method == http.MethodHead {
			r.heads.Add(1)
		}
		next.ServeHTTP(w, req)
	})
}

func newRenderer(t *testing.T, opts Options) *Renderer {
	t.Helper()
	r, err := New(opts)
	must.Succeed(t, err)
	return r
}

func TestImagesAreCachedByDigest(t *testing.T) {
	var count requests
	host := registry.Start(t, count.wrap)
	cache := t.TempDir()
	var refs []string
	for i := range 20 {
		refs = append(refs, bundles.Spec{Package: "foo", Version: fmt.Sprintf("1.%d.0", i)}.Push(t, host))
	}
	refs = append(refs, refs[0])
	var last [2]int
	opts := Options{Cache: cache, Pin: true, Progress: func(done, total int) { last = [2]int{done, total} }}
	cold, err := newRenderer(t, opts).Bundles(t.Context(), refs)
	must.Succeed(t, err)
	if last != [2]int{20, 20} {
		t.Errorf("progress ended with %v", last)
	}
	var pinned []string
	for i, b := range cold {
		if want := fmt.Sprintf("foo.v1.%d.0", i%20); b.Name != want {
			t.Errorf("result %d is %s, want %s", i, b.Name, want)
		}
		if !strings.HasPrefix(b.Image, host+"/foo@sha256:") {
			t.Errorf("image is %s, want one by digest", b.Image)
		}
		pinned = append(pinned, b.Image)
	}
	count.all.Store(0)
	warm, err := newRenderer(t, opts).Bundles(t.Context(), pinned)
	must.Succeed(t, err)
	if got := count.all.Load(); got != 0 {
		t.Errorf("%d requests for cached digests", got)
	}
	if diff := cmp.Diff(blobs(t, cold), blobs(t, warm)); diff != "" {
		t.Errorf("-cold +warm:\n%s", diff)
	}
	count.heads.Store(0)
	_, err = newRenderer(t, opts).Bundles(t.Context(), refs[:1])
	must.Succeed(t, err)
	if heads, all := count.heads.Load(), count.all.Load(); heads != 1 || all > 2 { // one asks whether the registry wants a login
		t.Errorf("%d requests for a cached tag, %d of them HEAD", all, heads)
	}
	damage(t, cache)
	again, err := newRenderer(t, opts).Bundles(t.Context(), pinned)
	must.Succeed(t, err)
	if diff := cmp.Diff(blobs(t, cold), blobs(t, again)); diff != "" {
		t.Errorf("with a damaged cache (-want +got):\n%s", diff)
	}
}

// damage changes a byte of each file of a cache.
func damage(t *testing.T, cache string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(cache, "*"))
	must.Succeed(t, err)
	if len(files) != 20 {
		t.Fatalf("the cache has %d files", len(files))
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		must.Succeed(t, err)
		must.Succeed(t, os.WriteFile(file, []byte(strings.Replace(string(data), "displayName", "displayNamE", 1)), 0o600))
	}
}

func blobs(t *testing.T, all []*Bundle) (lines []string) {
	t.Helper()
	for _, b := range all {
		blob, err := b.Blob()
		must.Succeed(t, err)
		lines = append(lines, string(blob))
	}
	return lines
}

func TestDirectory(t *testing.T) {
	spec := bundles.Spec{
		Package: "foo", Version: "1.2.0", Channels: []string{"stable", "fast"}, Default: "stable", Replaces: "foo.v1.1.0",
		Skips: []string{"foo.v1.1.1"}, SkipRange: "<1.2.0", Related: []string{"registry.example/z", "registry.example/a"},
	}
	dir := spec.Write(t)
	if !IsDirectory(dir) || IsDirectory(filepath.Join(dir, "manifests")) {
		t.Error("IsDirectory is wrong")
	}
	types := func(b *Bundle) (types []string) {
		for _, p := range b.Properties {
			types = append(types, p.Type)
		}
		return types
	}
	b, err := newRenderer(t, Options{}).Directory(dir)
	must.Succeed(t, err)
	want := Release{
		Channels: []string{"stable", "fast"}, DefaultChannel: "stable", Version: "1.2.0", Replaces: "foo.v1.1.0",
		Skips: []string{"foo.v1.1.1"}, SkipRange: "<1.2.0",
	}
	if diff := cmp.Diff(want, b.Release); diff != "" {
		t.Errorf("release (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"olm.gvk", "olm.package", "olm.bundle.object", "olm.bundle.object"}, types(b)); diff != "" {
		t.Errorf("without an image (-want +got):\n%s", diff)
	}
	as := template.Must(template.New("").Parse("registry.example/{{.Package}}/{{.Name}}:{{.Version}}"))
	b, err = newRenderer(t, Options{As: as}).Directory(dir)
	must.Succeed(t, err)
	if diff := cmp.Diff([]string{"olm.gvk", "olm.package", "olm.csv.metadata"}, types(b)); diff != "" {
		t.Errorf("with an image (-want +got):\n%s", diff)
	}
	var images []string
	for _, related := range b.RelatedImages {
		images = append(images, related.Image)
	}
	if diff := cmp.Diff([]string{"registry.example/a", "registry.example/foo/foo.v1.2.0:1.2.0", "registry.example/foo:v1.2.0", "registry.example/z"}, images); diff != "" {
		t.Errorf("related images (-want +got):\n%s", diff)
	}
	var blob map[string]json.RawMessage
	must.Succeed(t, json.Unmarshal([]byte(blobs(t, []*Bundle{b})[0]), &blob))
	if string(blob["schema"]) != `"olm.bundle"` {
		t.Errorf("schema is %s", blob["schema"])
	}
}

func TestFaultsOfManifests(t *testing.T) {
	twoCSVs := bundles.Spec{Package: "foo", Version: "1.0.0"}
	twoCSVs.Files = map[string]string{"manifests/z.yaml": twoCSVs.AllFiles()["manifests/foo.clusterserviceversion.yaml"]}
	for name, test := range map[string]struct {
		spec     bundles.Spec
		warnings []string
		err      string
	}{
		"two documents": {
			spec:     bundles.Spec{Files: map[string]string{"manifests/two.yaml": "apiVersion: v1\nkind: Secret\n---\napiVersion: v1\nkind: Secret\n"}},
			warnings: []string{"manifests/two.yaml has 2 documents: opm reads the first only; write one file for each"},
		},
		"unreadable": {
			spec:     bundles.Spec{Files: map[string]string{"manifests/x.yaml": "a: [\n"}},
			warnings: []string{"manifests/x.yaml is ignored, as it cannot be read"},
		},
		"two CSVs":       {spec: twoCSVs, warnings: []string{"it has 2 ClusterServiceVersions: opm reads the first only; remove the others"}},
		"no CSV":         {spec: bundles.Spec{Files: map[string]string{"manifests/foo.clusterserviceversion.yaml": "apiVersion: v1\nkind: Secret\n"}}, err: "no csv in bundle"},
		"no annotations": {spec: bundles.Spec{Files: map[string]string{"metadata/annotations.yaml": ""}}, err: "could not find annotations file"},
		"no CRD":         {spec: bundles.Spec{Files: map[string]string{"manifests/foos.crd.yaml": "a: ["}}, err: "manifests/foos.crd.yaml is ignored"},
	} {
		t.Run(name, func(t *testing.T) {
			test.spec.Package, test.spec.Version = "foo", "1.0.0"
			b, err := newRenderer(t, Options{}).Directory(test.spec.Write(t))
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("got error %v, want %q", err, test.err)
				}
				return
			}
			must.Succeed(t, err)
			if len(b.Warnings) != len(test.warnings) {
				t.Fatalf("got warnings %q", b.Warnings)
			}
			for i, want := range test.warnings {
				if !strings.HasPrefix(b.Warnings[i], want) {
					t.Errorf("got warning %q, want %q", b.Warnings[i], want)
				}
			}
		})
	}
}

func TestErrorsNameEachImage(t *testing.T) {
	host := registry.Start(t, nil)
	good := bundles.Spec{Package: "foo", Version: "1.0.0"}.Push(t, host)
	_, err := newRenderer(t, Options{}).Bundles(t.Context(), []string{good, host + "/nosuch:v1", "not valid"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"rendering bundle " + host + "/nosuch:v1: resolving the tag: ", `rendering bundle not valid: "not valid" is not a valid`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q in it", err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newRenderer(t, Options{}).Bundles(ctx, []string{good}); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v after a cancellation", err)
	}
}
