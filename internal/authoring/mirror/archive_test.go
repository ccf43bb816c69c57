package mirror

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// archive copies images and a catalog to an archive.
func archive(t *testing.T, file string, catalog v1.ImageIndex, refs ...string) {
	t.Helper()
	w, err := CreateArchive(t.Context(), file, false)
	must.Succeed(t, err)
	defer w.Close()
	c, err := ToArchive(w, options())
	must.Succeed(t, err)
	defer c.Close()
	if result := run(t, c, images(t, refs...)); len(result.Failed) > 0 {
		t.Fatal(result.Describe())
	}
	must.Succeed(t, c.PutCatalog(t.Context(), "mine", "v4", catalog))
	must.Succeed(t, w.Commit())
}

// restore copies an archive to a registry.
func restore(t *testing.T, file string, to *peer) Result {
	t.Helper()
	a, err := OpenArchive(file)
	must.Succeed(t, err)
	defer a.Close()
	c, err := FromArchive(a, destination(t, to), options())
	must.Succeed(t, err)
	defer c.Close()
	result := run(t, c, a.Images())
	must.Succeed(t, c.PutCatalog(t.Context(), "mine", "v4", nil))
	return result
}

func TestArchiveRoundTrip(t *testing.T) {
	t.Parallel()
	from, to := newPeer(t), newPeer(t)
	to.noReferrers = true // so that referrers change an index, concurrently
	ref, other := from.host+"/ns/a:v1", from.host+"/ns/other"
	digest := pushIndex(t, ref, randomIndex(t, 3))
	pinned := pushImage(t, other+":x", layered(t, "base"))
	pushImage(t, from.host+"/ns/a:sha256-"+digest.Hex+".sig", layered(t, "signature"))
	var referrers []v1.Hash
	for i := range 5 {
		image := referrer(t, digest, fmt.Sprint("sbom ", i))
		of, err := image.Digest()
		must.Succeed(t, err)
		referrers = append(referrers, of)
		pushImage(t, from.host+"/ns/a@"+of.String(), image)
	}
	catalog := randomIndex(t, 2)
	file := filepath.Join(t.TempDir(), "a.tar")
	archive(t, file, catalog, ref, other+"@"+pinned.String())
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*")); err != nil || len(left) != 1 {
		t.Errorf("files %q, %v", left, err)
	}
	checkLayout(t, file)

	result := restore(t, file, to)
	if diff := cmp.Diff(counted{Copied: 2 + 1 + 5}, countsOf(result)); diff != "" {
		t.Errorf("%s%v", diff, result.Describe())
	}
	index, err := remote.Index(at(t, to, ref, digest.String()))
	must.Succeed(t, err)
	must.Succeed(t, validate.Index(index))
	for _, ref := range []struct{ ref, identifier string }{
		{ref, "v1"}, {ref, "sha256-" + digest.Hex + ".sig"}, {other, pinned.String()}, {other, "mirrored-" + pinned.Hex[:16]},
	} {
		if _, err := remote.Head(at(t, to, ref.ref, ref.identifier)); err != nil {
			t.Errorf("%s: %v", ref.identifier, err)
		}
	}
	of, _ := at(t, to, ref, digest.String()).(nameDigest)
	found, err := remote.Referrers(of)
	must.Succeed(t, err)
	list, err := found.IndexManifest()
	must.Succeed(t, err)
	if len(list.Manifests) != len(referrers) {
		t.Errorf("%d referrers, want %d", len(list.Manifests), len(referrers))
	}
	pulled, err := remote.Index(destination(t, to).Catalog("mine").Tag("v4"))
	must.Succeed(t, err)
	want, _ := catalog.Digest()
	if got, _ := pulled.Digest(); got != want {
		t.Errorf("the catalog is %s, want %s", got, want)
	}

	to.counts()
	result = restore(t, file, to)
	uploads, mounts, _, puts := to.counts()
	if result.Present != 8 || uploads+mounts+puts != 0 {
		t.Errorf("%+v; %d uploads, %d mounts, %d manifests", result, uploads, mounts, puts)
	}
}

// checkLayout unpacks an archive, and reads it as an OCI image layout.
func checkLayout(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	must.Succeed(t, err)
	defer f.Close()
	dir := t.TempDir()
	seen := map[string]bool{}
	for archive := tar.NewReader(f); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must.Succeed(t, err)
		if seen[header.Name] {
			t.Errorf("%s is stored twice", header.Name)
		}
		seen[header.Name] = true
		text, err := io.ReadAll(archive)
		must.Succeed(t, err)
		if digest, ok := entryDigest(header.Name); ok {
			if got, _, _ := v1.SHA256(bytes.NewReader(text)); got != digest {
				t.Errorf("%s has digest %s", header.Name, got)
			}
		}
		must.Succeed(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(header.Name)), 0o755))
		must.Succeed(t, os.WriteFile(filepath.Join(dir, header.Name), text, 0o600))
	}
	index, err := layout.ImageIndexFromPath(dir)
	must.Succeed(t, err)
	must.Succeed(t, validate.Index(index, validate.Fast)) // the layers are no tars
}

// An interrupted archive has no final name. The next run reads only the blobs that are missing.
func TestInterruptedArchiveIsResumed(t *testing.T) {
	t.Parallel()
	from, to := newPeer(t), newPeer(t)
	ref, other := from.host+"/ns/a:v1", from.host+"/ns/b:v1"
	pushImage(t, ref, layered(t, "one", "two"))
	pushImage(t, other, layered(t, "three", "four"))
	manifest, err := layered(t, "three", "four").Manifest()
	must.Succeed(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	from.set(func(p *peer) {
		p.refuse = func(r *http.Request) int {
			if strings.HasSuffix(r.URL.Path, "/blobs/"+manifest.Layers[1].Digest.String()) {
				cancel()
				return http.StatusServiceUnavailable
			}
			return 0
		}
	})
	file := filepath.Join(t.TempDir(), "a.tar")
	w, err := CreateArchive(ctx, file, false)
	must.Succeed(t, err)
	opts := options()
	opts.Jobs = 1
	c, err := ToArchive(w, opts)
	must.Succeed(t, err)
	all := images(t, ref, other)
	must.Succeed(t, c.Plan(ctx, all))
	if _, err := c.Copy(ctx, all); !errors.Is(err, context.Canceled) {
		t.Errorf("the copy ended with %v", err)
	}
	must.Succeed(t, errors.Join(c.Close(), w.Close()))
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is an archive: %v", err)
	}
	// What a crash left of an entry is dropped.
	f, err := os.OpenFile(partialOf(file), os.O_APPEND|os.O_WRONLY, 0)
	must.Succeed(t, err)
	_, err = f.Write(bytes.Repeat([]byte("x"), 700))
	must.Succeed(t, errors.Join(err, f.Close()))

	from.set(func(p *peer) { p.refuse = nil })
	from.counts()
	archive(t, file, randomIndex(t, 1), ref, other)
	if _, _, read, _ := from.counts(); read > 2 {
		t.Errorf("%d blobs read again", read)
	}
	checkLayout(t, file)
	if result := restore(t, file, to); result.Copied != 2 {
		t.Error(result.Describe())
	}
	if _, err := CreateArchive(t.Context(), file, false); !errors.Is(err, fs.ErrExist) {
		t.Errorf("an archive is replaced: %v", err)
	}
}

// entry is an entry of a hostile archive.
type entry struct {
	name string
	text string
	kind byte
	size int64 // if it is not that of text
}

func tarOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if e.kind == 0 {
			e.kind = tar.TypeReg
		}
		header := &tar.Header{Name: e.name, Typeflag: e.kind, Size: int64(len(e.text)), Mode: 0o644}
		if e.kind == tar.TypeSymlink {
			header.Linkname, header.Size = "/etc/passwd", 0
		}
		if e.size != 0 {
			header.Size = e.size
		}
		must.Succeed(t, w.WriteHeader(header))
		_, err := w.Write([]byte(e.text))
		must.Succeed(t, err)
		if e.size == 0 {
			must.Succeed(t, w.Flush())
		}
	}
	return b.Bytes()
}

func blobEntry(text string) (entry, v1.Hash) {
	digest, _, _ := v1.SHA256(strings.NewReader(text))
	return entry{name: entryName(digest), text: text}, digest
}

// indexEntry is an index.json with a catalog and another manifest.
func indexEntry(t testing.TB, manifests ...v1.Descriptor) entry {
	t.Helper()
	text, err := indexOf(manifests)
	must.Succeed(t, err)
	return entry{name: indexFile, text: string(text)}
}

func TestHostileArchivesAreRefused(t *testing.T) {
	t.Parallel()
	const manifest = `{"schemaVersion":2}`
	blob, digest := blobEntry(manifest)
	described := func(change func(a map[string]string)) v1.Descriptor {
		a := map[string]string{annotationKind: "image", annotationRepository: "quay.io/ns/a", annotationTag: "v1"}
		change(a)
		return v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: digest, Size: int64(len(manifest)), Annotations: a}
	}
	catalog := described(func(a map[string]string) {
		a[annotationKind], a[annotationCatalog] = "catalog", "mine"
		delete(a, annotationRepository)
	})
	layoutEntry := entry{name: layoutFile, text: layoutText}
	whole := indexEntry(t, catalog)
	for name, test := range map[string]struct {
		archive []byte
		want    string
	}{
		"empty":          {nil, "it has no oci-layout or index.json"},
		"no tar":         {[]byte(strings.Repeat("x", 2000)), "reading the tar"},
		"path":           {tarOf(t, layoutEntry, entry{name: "../../etc/x", text: "x"}), "does not belong to an OCI image layout"},
		"absolute path":  {tarOf(t, entry{name: "/blobs/sha256/" + digest.Hex, text: "x"}), "does not belong"},
		"blob path":      {tarOf(t, entry{name: "blobs/sha256/../" + digest.Hex, text: "x"}), "does not belong"},
		"link":           {tarOf(t, entry{name: blob.name, kind: tar.TypeSymlink}), "does not belong"},
		"device":         {tarOf(t, entry{name: blob.name, kind: tar.TypeBlock}), "does not belong"},
		"twice":          {tarOf(t, blob, blob), "occurs twice"},
		"truncated":      {tarOf(t, layoutEntry, whole, entry{name: blob.name, text: "x", size: 1 << 40}), "unexpected EOF"},
		"no index":       {tarOf(t, layoutEntry, blob), "it has no oci-layout or index.json"},
		"no JSON":        {tarOf(t, layoutEntry, blob, entry{name: indexFile, text: "{"}), "reading index.json"},
		"no catalog":     {tarOf(t, layoutEntry, blob, indexEntry(t)), "names no catalog"},
		"two catalogs":   {tarOf(t, layoutEntry, blob, indexEntry(t, catalog, catalog)), "there are several"},
		"missing blob":   {tarOf(t, layoutEntry, whole), "it is not in the archive"},
		"other size":     {tarOf(t, layoutEntry, whole, entry{name: blob.name, text: "longer than the manifest is"}), "size mismatch: expected 19 bytes, found 27"},
		"kind":           {tarOf(t, layoutEntry, blob, indexEntry(t, catalog, described(func(a map[string]string) { a[annotationKind] = "x" }))), `unknown kind "x"`},
		"tag":            {tarOf(t, layoutEntry, blob, indexEntry(t, catalog, described(func(a map[string]string) { a[annotationTag] = "../x" }))), "is not a tag"},
		"repository":     {tarOf(t, layoutEntry, blob, indexEntry(t, catalog, described(func(a map[string]string) { a[annotationRepository] = "quay.io/../../x" }))), "is not the repository"},
		"catalog's path": {tarOf(t, layoutEntry, blob, indexEntry(t, described(func(a map[string]string) { a[annotationKind], a[annotationCatalog] = "catalog", "../x" }))), "is not the name of a catalog"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "a.tar")
			must.Succeed(t, os.WriteFile(file, test.archive, 0o600))
			a, err := OpenArchive(file)
			if err == nil {
				_ = a.Close()
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// An archive with wrong content reaches the registry neither as blob nor as manifest.
func TestWrongContentOfArchiveIsNotPushed(t *testing.T) {
	t.Parallel()
	from := newPeer(t)
	ref := from.host + "/ns/a:v1"
	pushImage(t, ref, layered(t, "the content of the layer"))
	file := filepath.Join(t.TempDir(), "a.tar")
	archive(t, file, randomIndex(t, 1), ref)
	text, err := os.ReadFile(file)
	must.Succeed(t, err)
	for what, want := range map[string]string{
		"the content of the layer":   "does not have the digest",
		`"schemaVersion":2,"config"`: "does not have the digest",
	} {
		changed := bytes.Replace(text, []byte(what), []byte(strings.Repeat("x", len(what))), 1)
		changed = bytes.Replace(changed, []byte(what), []byte(strings.Repeat("x", len(what))), -1)
		if bytes.Equal(text, changed) {
			changed = bytes.Replace(text, []byte(`"config"`), []byte(`"konfig"`), -1)
		}
		broken := filepath.Join(t.TempDir(), "b.tar")
		must.Succeed(t, os.WriteFile(broken, changed, 0o600))
		to := newPeer(t)
		a, err := OpenArchive(broken)
		must.Succeed(t, err)
		defer a.Close()
		c, err := FromArchive(a, destination(t, to), options())
		must.Succeed(t, err)
		all := a.Images()
		must.Succeed(t, c.Plan(t.Context(), all))
		result, err := c.Copy(t.Context(), all)
		must.Succeed(t, err)
		if said := strings.Join(result.Describe(), "\n"); len(result.Failed) != 1 || !strings.Contains(said, want) {
			t.Errorf("%s: %s", what, said)
		}
		if _, err := remote.Head(at(t, to, ref, "v1")); err == nil {
			t.Errorf("%s: the image was pushed", what)
		}
	}
}

// A manifest that names millions of objects, or nests indexes, is refused.
func TestManifestsAreLimited(t *testing.T) {
	t.Parallel()
	child := `{"mediaType":"application/vnd.oci.image.index.v1+json","size":1,"digest":"sha256:` + strings.Repeat("0", 64) + `"},`
	for name, test := range map[string]struct {
		text, want string
		depth      int
	}{
		"many":          {`{"manifests":[` + strings.TrimSuffix(strings.Repeat(child, maxRefs+1), ",") + `]}`, "the limit is 10000", 0},
		"deep":          {`{"manifests":[` + strings.TrimSuffix(child, ",") + `]}`, "nested deeper", maxDepth},
		"negative size": {`{"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","size":-1,"digest":"sha256:` + strings.Repeat("0", 64) + `"}]}`, "with the size -1", 0},
		"no digest":     {`{"layers":[{"mediaType":"x","size":1}]}`, "without a digest", 0},
	} {
		n := &node{v1.Descriptor{MediaType: types.OCIImageIndex}, []byte(test.text)}
		if _, _, err := n.refersTo(test.depth); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

func TestProgressEndsComplete(t *testing.T) {
	t.Parallel()
	from, to := newPeer(t), newPeer(t)
	a, b := from.host+"/ns/a:v1", from.host+"/ns/b:v1"
	pushImage(t, a, layered(t, "shared", "one"))
	pushImage(t, b, layered(t, "shared", "two"))
	from.set(func(p *peer) { p.cut = 1 })
	var last atomic.Pointer[Progress]
	opts := options()
	opts.Progress = func(p Progress) { last.Store(&p) }
	dest := destination(t, to)
	c, err := ToRegistry(&dest, opts)
	must.Succeed(t, err)
	defer c.Close()
	run(t, c, images(t, a, b))
	if p := last.Load(); p.Images != 2 || p.AllImages != 2 || p.Bytes != p.AllBytes || p.Bytes == 0 {
		t.Errorf("%+v", p)
	}
}

// FuzzArchive opens and reads any bytes as an archive. Nothing is accepted that does not have its digest.
func FuzzArchive(f *testing.F) {
	blob, digest := blobEntry(`{"schemaVersion":2}`)
	d := v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: digest, Size: 19, Annotations: map[string]string{
		annotationKind: "catalog", annotationCatalog: "mine", annotationTag: "v1",
	}}
	f.Add(tarOf(f, entry{name: layoutFile, text: layoutText}, blob, indexEntry(f, d)))
	f.Add(tarOf(f, entry{name: "blobs/", kind: tar.TypeDir}, blob))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := readArchive(bytes.NewReader(text), int64(len(text)))
		if err != nil {
			return
		}
		for _, it := range append(a.images, *a.catalog) {
			n, err := a.manifest(t.Context(), it)
			if err != nil {
				continue
			}
			if got, _, _ := v1.SHA256(bytes.NewReader(n.raw)); it.digest.Algorithm == "sha256" && got != it.digest {
				t.Errorf("the manifest of %s is %s", it, got)
			}
			_, blobs, err := n.refersTo(0)
			if err != nil {
				continue
			}
			for _, d := range blobs {
				if body, err := a.blob(t.Context(), it, d); err == nil {
					_, _ = io.Copy(io.Discard, body)
				}
			}
		}
	})
}
