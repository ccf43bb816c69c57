package pull

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/operator-catalogs/catalogd/internal/bundle"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// Every file comes back byte for byte, by its path and in the tar, which is the same each time.
func TestFetch(t *testing.T) {
	w := newWorld(t)
	_, image := w.push("v1", image(t, labels(), layer(t, foo())))
	a := w.get(image)
	want := foo()
	delete(want, "tests/scorecard/config")
	got := map[string]string{}
	files, err := a.Tar()
	must.Succeed(t, err)
	archive := tar.NewReader(files)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must.Succeed(t, err)
		got[header.Name] = read(t, archive)
		if header.Mode != 0o644 || !header.ModTime.Equal(time.Unix(0, 0)) {
			t.Errorf("%s has mode %o and time %v", header.Name, header.Mode, header.ModTime)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files in the tar (-want +got):\n%s", diff)
	}
	for name, text := range want {
		data, err := a.File(name)
		if err != nil || read(t, data) != text {
			t.Errorf("%s differs", name)
		}
	}
	if _, err := a.File("manifests"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory: got error %v", err)
	}
	var paths []string
	for _, f := range a.Content.Files {
		paths = append(paths, f.Path)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), paths); diff != "" {
		t.Errorf("index (-want +got):\n%s", diff)
	}
	_, digest, _ := strings.Cut(image, "@")
	if c := a.Content; c.Image != image || c.Digest != digest || !c.Pinned || c.Labels[bundle.PackageLabel] != "foo" {
		t.Errorf("got image %q, digest %q, pinned %t, labels %v", c.Image, c.Digest, c.Pinned, c.Labels)
	}
	if faults := a.Content.Faults(); !slices.Equal(faults, []string{"manifests/README.md", "manifests/broken.yaml"}) {
		t.Errorf("got faults in %v", faults)
	}
	for _, c := range []struct{ kind, name, want string }{
		{"ConfigMap", "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}} {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}} ` +
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`},
		{"", "s", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"n"}}`},
		{"ConfigMap", "s", ""},
	} {
		objects, err := a.Objects(c.kind, c.name)
		must.Succeed(t, err)
		if got := string(bytes.Join(objects, []byte(" "))); got != c.want {
			t.Errorf("kind %q, name %q: got %s, want %s", c.kind, c.name, got, c.want)
		}
	}
	before := readTar(t, a)
	must.Succeed(t, os.RemoveAll(filepath.Join(w.dir, "bundles")))
	w.start(Limits{}, 64<<20)
	if after := readTar(t, w.get(image)); after != before {
		t.Error("a second pull gives another tar")
	}
}

// Concurrent requests share one pull, and later ones need none.
func TestFetchOnce(t *testing.T) {
	w := newWorld(t)
	_, image := w.push("v1", image(t, labels(), layer(t, foo())))
	if _, err := w.Cached(of(image)); err == nil || w.take() != nil {
		t.Errorf("Cached pulls, or got error %v", err)
	}
	var readers sync.WaitGroup
	for range 50 {
		readers.Go(func() { w.get(image) })
	}
	readers.Wait()
	gets := 0
	for _, request := range w.take() {
		if strings.HasPrefix(request, "GET") && strings.Contains(request, "/manifests/") {
			gets++
		}
	}
	if gets != 1 {
		t.Errorf("50 requests cause %d GETs of the manifest, want 1", gets)
	}
	w.get(image)
	if got := w.take(); got != nil {
		t.Errorf("a request for a cached bundle causes %v", got)
	}
}

// A restart without the registry serves what is cached, by tag and by digest, and names the registry for the rest.
func TestFetchAfterARestart(t *testing.T) {
	w := newWorld(t)
	tag, digest := w.push("v1", image(t, labels(), layer(t, foo())))
	_, other := w.push("v2", image(t, labels(), layer(t, map[string]string{"manifests/x": "x"})))
	w.get(tag)
	w.get(digest)
	w.set(func() { w.down = true })
	w.start(Limits{}, 64<<20)
	for _, image := range []string{tag, digest, tag} {
		if data, err := w.get(image).File("manifests/foo.csv.yaml"); err != nil || read(t, data) != someCSV {
			t.Errorf("%s differs", image)
		}
	}
	wantReason(t, w, of(other), bundle.Registry, w.host+" answered 500")
	another := of(digest)
	another.Owner = "2"
	wantReason(t, w, another, bundle.Registry, w.host) // another catalog of the same name gets nothing
	another.Owner, another.Catalog = "1", "other"
	wantReason(t, w, another, bundle.Registry, w.host)
}

func wantReason(t *testing.T, w *world, r bundle.Request, want bundle.Reason, part string) {
	t.Helper()
	a, err := w.Fetch(t.Context(), r, "")
	if err == nil {
		_ = a.Close()
	}
	failed, ok := errors.AsType[*bundle.Error](err)
	if !ok || failed.Reason != want || !strings.Contains(failed.Error(), part) {
		t.Errorf("%s: got error %v, want one of reason %s with %q", r.Image, err, want, part)
	}
}

// The digest of a tag is good for five minutes. An unreachable registry takes nothing away.
func TestFetchByTag(t *testing.T) {
	w := newWorld(t)
	first := image(t, labels(), layer(t, foo()))
	tag, _ := w.push("v1", first)
	if a := w.get(tag); a.Content.Pinned {
		t.Error("a tag is pinned")
	}
	second := image(t, labels(), layer(t, map[string]string{"manifests/new": "new"}))
	w.push("v1", second)
	w.wantDigest(tag, first)
	if got := w.take(); got != nil {
		t.Errorf("a fresh tag causes %v", got)
	}
	w.set(func() { w.now = w.now.Add(tagAge); w.down = true })
	w.wantDigest(tag, first)
	w.set(func() { w.now = w.now.Add(time.Minute); w.down = false })
	w.wantDigest(tag, second)
	w.take()
	w.set(func() { w.now = w.now.Add(tagAge) })
	w.wantDigest(tag, second)
	if got := w.take(); slices.ContainsFunc(got, func(r string) bool { return strings.Contains(r, "/blobs/") }) {
		t.Errorf("an unchanged tag causes %v", got)
	}
}

func (w *world) wantDigest(ref string, want v1.Image) {
	w.t.Helper()
	digest, err := want.Digest()
	must.Succeed(w.t, err)
	if got := w.get(ref).Content.Digest; got != digest.String() {
		w.t.Errorf("got digest %s, want %s", got, digest)
	}
}

func TestFetchRefusals(t *testing.T) {
	w := newWorld(t)
	with := func(name, value string) map[string]string {
		l := labels()
		if l[name] = value; value == "" {
			delete(l, name)
		}
		return l
	}
	files := layer(t, foo())
	many := map[string]string{}
	for i := range 501 {
		many[fmt.Sprintf("manifests/%d", i)] = ""
	}
	for name, c := range map[string]struct {
		img  v1.Image
		part string
	}{
		"no media type":      {image(t, with(bundle.MediaTypeLabel, ""), files), "the image is not a bundle: label " + bundle.MediaTypeLabel + " is missing"},
		"another media type": {image(t, with(bundle.MediaTypeLabel, "helm"), files), `is "helm"; only "registry+v1" is supported`},
		"another package":    {image(t, with(bundle.PackageLabel, "bar"), files), `is "bar", but the catalog has the bundle in package "foo"`},
		"another annotation": {
			image(t, labels(), layer(t, map[string]string{"metadata/annotations.yaml": "annotations: {" + bundle.PackageLabel + ": bar}"})),
			`annotations.yaml is "bar"`,
		},
		"another directory": {
			image(t, labels(), layer(t, map[string]string{"metadata/annotations.yaml": "annotations: {" + bundle.ManifestsLabel + ": real/}"})),
			`annotations.yaml names the manifests directory "real/", but the image label names "manifests/"`,
		},
		"aliases": {
			image(t, labels(), layer(t, map[string]string{
				"metadata/annotations.yaml": "annotations: {" + bundle.PackageLabel + ": bar, a: &a " + strings.Repeat("x", 60_000) + "}\nb: [*a, *a]",
			})),
			`annotations.yaml is "bar"`,
		},
		"a long label":      {image(t, with(bundle.MediaTypeLabel, strings.Repeat("\x01", 1<<20)), files), "the image labels have"},
		"many labels":       {image(t, with("x", strings.Repeat("y", maxLabels)), files), "the image labels have"},
		"no files":          {image(t, labels(), layer(t, map[string]string{"x": "y"})), "have no files"},
		"a large file":      {image(t, labels(), gzipped(t, layer(t, map[string]string{"manifests/x": strings.Repeat("x", 4<<20+1)}))), "--max-bundle-file-bytes"},
		"large files":       {image(t, labels(), gzipped(t, layer(t, map[string]string{"manifests/x": strings.Repeat("x", 4<<20), "manifests/y": strings.Repeat("x", 4<<20), "manifests/z": "z"}))), "--max-bundle-bytes"},
		"many files":        {image(t, labels(), layer(t, many)), "--max-bundle-files"},
		"a large layer":     {image(t, labels(), make([]byte, 16<<20+1)), "exceeds the limit of 16777216"},
		"many layers":       {image(t, labels(), slices.Repeat([][]byte{files}, 65)...), "it has 65 layers"},
		"a high ratio":      {image(t, labels(), gzipped(t, layer(t, map[string]string{"x": strings.Repeat("x", 40<<20)}))), "--max-compression-ratio"},
		"a link":            {image(t, labels(), link(t, "manifests/x", "/etc/passwd")), "is a symbolic link"},
		"a linked manifest": {image(t, labels(), link(t, "manifests", "/etc")), "is a symbolic link"},
		"a name outside":    {image(t, labels(), layer(t, map[string]string{"manifests/../../x": "y"})), "points outside of the image"},
	} {
		t.Run(name, func(t *testing.T) {
			_, image := w.push("refused", c.img)
			wantReason(t, w, of(image), bundle.Invalid, c.part)
			w.take()
			wantReason(t, w, of(image), bundle.Invalid, c.part)
			if got := w.take(); got != nil {
				t.Errorf("the second request causes %v", got)
			}
		})
	}
	t.Run("an invalid reference", func(t *testing.T) { wantReason(t, w, of("UPPER/x"), bundle.Invalid, "is not a valid image reference") })
	t.Run("another registry", func(t *testing.T) {
		for _, image := range []string{"127.0.0.1:1/x:v1", "169.254.169.254/x:v1", "quay.io/x/y:v1", "localhost:9/x:v1"} {
			wantReason(t, w, of(image), bundle.Forbidden, refused)
		}
	})
	for _, dir := range []string{"bundles", "stage"} {
		entries, err := os.ReadDir(filepath.Join(w.dir, dir))
		must.Succeed(t, err)
		if len(entries) > 0 {
			t.Errorf("%s is left in %s", entries[0].Name(), dir)
		}
	}
}

func gzipped(t *testing.T, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(content)
	must.Succeed(t, err)
	must.Succeed(t, w.Close())
	return out.Bytes()
}

func link(t *testing.T, name, target string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	must.Succeed(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}))
	must.Succeed(t, w.Close())
	return out.Bytes()
}

// A damaged archive is pulled again.
func TestFetchDamaged(t *testing.T) {
	w := newWorld(t)
	_, image := w.push("v1", image(t, labels(), layer(t, foo())))
	want := readTar(t, w.get(image))
	file := filepath.Join(w.dir, "bundles", keyOf(of(image)))
	content, err := os.ReadFile(file)
	must.Succeed(t, err)
	for at := 0; at < len(content); at += 97 {
		damaged := slices.Clone(content)
		damaged[at] ^= 1
		must.Succeed(t, os.WriteFile(file, damaged, 0o600))
		w.start(Limits{}, 64<<20)
		if got := readTar(t, w.get(image)); got != want {
			t.Errorf("with byte %d damaged, the tar differs", at)
		}
	}
}

// 1,000 bundles stay within a cache of 10 MiB.
func TestFetchManyBundles(t *testing.T) {
	w := newWorld(t)
	w.start(Limits{}, 10<<20)
	files := foo()
	for i := range 1000 {
		files["manifests/large"] = fmt.Sprintf("%d%s", i, strings.Repeat("x", 60<<10))
		_, image := w.push("v1", image(t, labels(), layer(t, files)))
		w.get(image)
		if i%100 > 0 && i < 990 {
			continue
		}
		entries, err := os.ReadDir(filepath.Join(w.dir, "bundles"))
		must.Succeed(t, err)
		sum := int64(0)
		for _, e := range entries {
			info, err := e.Info()
			must.Succeed(t, err)
			sum += info.Size()
		}
		if sum > 10<<20 || (i > 200 && sum < 9<<20) {
			t.Fatalf("after %d bundles the cache has %d bytes", i+1, sum)
		}
	}
}

// A user may cause ten pulls at once, and then one a second. Cached bundles do not count.
func TestFetchRate(t *testing.T) {
	w := newWorld(t)
	_, image := w.push("v1", image(t, labels(), layer(t, foo())))
	get := func(pkg string) bundle.Reason {
		r := of(image)
		r.Package = pkg
		a, err := w.Fetch(t.Context(), r, "jane")
		if err == nil {
			_ = a.Close()
			return ""
		}
		failed, _ := errors.AsType[*bundle.Error](err)
		return failed.Reason
	}
	for range 30 {
		if got := get("foo"); got != "" {
			t.Fatalf("a cached bundle: got %s", got)
		}
	}
	for i := range 9 {
		if got := get(fmt.Sprintf("p%d", i)); got != bundle.Invalid {
			t.Errorf("pull %d: got %q, want %s", i, got, bundle.Invalid)
		}
	}
	if got := get("more"); got != bundle.Busy {
		t.Errorf("got %q, want %s", got, bundle.Busy)
	}
	w.set(func() { w.now = w.now.Add(time.Second) })
	if got := get("more"); got != bundle.Invalid {
		t.Errorf("a second later: got %q, want %s", got, bundle.Invalid)
	}
}

// A pull that takes long goes on, and the client is asked to come back.
func TestFetchPending(t *testing.T) {
	w := newWorld(t)
	_, image := w.push("v1", image(t, labels(), layer(t, foo())))
	stall := make(chan struct{})
	w.set(func() { w.stall = stall })
	w.wait = time.Millisecond
	wantReason(t, w, of(image), bundle.Pending, "is being pulled; retry later")
	wantReason(t, w, of(image), bundle.Pending, "is being pulled; retry later")
	close(stall)
	w.wait = waitForPull
	w.get(image)
}

// Stalled pulls of one catalog do not hold up another.
func TestFetchOfOtherCatalogs(t *testing.T) {
	w := newWorld(t)
	_, slow := w.push("v1", image(t, labels(), layer(t, foo())))
	stall := make(chan struct{})
	w.set(func() { w.stall = stall })
	w.wait = time.Millisecond
	for i := range maxPulls {
		r := of(slow)
		r.Package = fmt.Sprintf("p%d", i)
		wantReason(t, w, r, bundle.Pending, "is being pulled")
	}
	w.set(func() { w.stall = nil })
	w.wait = waitForPull
	r := of(slow)
	r.Catalog = "other"
	a, err := w.Fetch(t.Context(), r, "jane")
	must.Succeed(t, err)
	must.Succeed(t, a.Close())
	close(stall)
}
