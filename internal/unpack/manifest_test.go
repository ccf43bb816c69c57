package unpack

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/operator-catalogs/catalogd/internal/registry"
	testregistry "github.com/operator-catalogs/catalogd/internal/testing/registry"
)

// manifestOf pushes the blobs of an image and returns its manifest after change.
func manifestOf(t testing.TB, host string, img v1.Image, change func(*v1.Manifest)) []byte {
	t.Helper()
	push(t, host, img)
	manifest, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	manifest = manifest.DeepCopy()
	change(manifest)
	raw, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// untyped returns the manifest without its media type.
func untyped(t testing.TB, manifest partial.WithRawManifest) []byte {
	t.Helper()
	raw, err := manifest.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	var properties map[string]any
	if err := json.Unmarshal(raw, &properties); err != nil {
		t.Fatal(err)
	}
	delete(properties, "mediaType")
	if raw, err = json.Marshal(properties); err != nil {
		t.Fatal(err)
	}
	return raw
}

// putManifest pushes a manifest that the library would refuse.
func putManifest(t testing.TB, host string, manifest []byte) name.Digest {
	t.Helper()
	digest, _, err := v1.SHA256(bytes.NewReader(manifest))
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.NewDigest(host + "/catalogs/test@" + digest.String())
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + host + "/v2/catalogs/test/manifests/" + digest.String()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, address, bytes.NewReader(manifest))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusCreated {
		t.Fatalf("pushing the manifest: %s, %v", response.Status, err)
	}
	return ref
}

// typedWriter says another media type.
type typedWriter struct {
	http.ResponseWriter
	mediaType string
}

func (w typedWriter) WriteHeader(status int) {
	w.Header().Set("Content-Type", w.mediaType)
	w.ResponseWriter.WriteHeader(status)
}

// TestMediaType has registries whose Content-Type header differs from the manifest.
func TestMediaType(t *testing.T) {
	var said string
	host := testregistry.Start(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/manifests/") {
				w = typedWriter{w, said}
			}
			next.ServeHTTP(w, r)
		})
	})
	img := imageOf(t, "/configs", archive(t, file("configs/a", "1")))
	docker := mutate.ConfigMediaType(mutate.MediaType(img, types.DockerManifestSchema2), types.DockerConfigJSON)
	index := indexOf(types.OCIImageIndex, mutate.IndexAddendum{Add: indexOf(types.DockerManifestList, mutate.IndexAddendum{Add: img})})
	refs := map[string]name.Digest{
		"image":         push(t, host, img),
		"docker":        push(t, host, docker),
		"untyped image": putManifest(t, host, untyped(t, img)),
		"index":         pushIndex(t, host, index),
		"untyped index": putManifest(t, host, untyped(t, index)),
	}
	for _, said = range []string{
		"application/octet-stream", "text/html; charset=utf-8", string(types.OCIManifestSchema1), string(types.OCIImageIndex),
		string(types.DockerManifestList), string(types.DockerManifestSchema1), string(types.DockerManifestSchema1Signed),
	} {
		for what, ref := range refs {
			s := newScratch(t)
			if _, err := Image(t.Context(), ref, s.root, Options{}); err != nil {
				t.Errorf("%s, called %s: %v", what, said, err)
			} else if diff := cmp.Diff(map[string]string{"a": "1"}, s.files(t)); diff != "" {
				t.Errorf("%s, called %s: files (-want +got):\n%s", what, said, diff)
			}
		}
	}
}

// TestForgedManifest has a registry that sends another manifest with the requested digest in a header, which the library
// trusts for manifests of schema 1.
func TestForgedManifest(t *testing.T) {
	var forged string
	other, err := imageOf(t, "/configs", archive(t, file("configs/a", "forged"))).RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	host := testregistry.Start(t, alter(&forged, func(w http.ResponseWriter, _ []byte) {
		w.Header().Set("Content-Type", string(types.DockerManifestSchema1Signed))
		w.Header().Set("Docker-Content-Digest", forged)
		_, _ = w.Write(other)
	}))
	ref := push(t, host, imageOf(t, "/configs", archive(t, file("configs/a", "1"))))
	push(t, host, imageOf(t, "/configs", archive(t, file("configs/a", "forged")))) // its blobs are there
	forged = ref.DigestStr()
	_, err = Image(t.Context(), ref, newScratch(t).root, Options{})
	checkError(t, err, "reading the manifest: content from registry "+host+" does not match its digest", false)
	if kind := registry.KindOf(err); kind != registry.Damaged {
		t.Errorf("got an error of kind %q, want %q", kind, registry.Damaged)
	}
}

func TestBadManifests(t *testing.T) {
	var blobs atomic.Int32
	host := testregistry.Start(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
				blobs.Add(1)
			}
			next.ServeHTTP(w, r)
		})
	})
	small, large := archive(t, file("configs/a", "1")), archive(t, file("other", noise(4000)), file("configs/b", "2"))
	img := imageOf(t, "/configs", small, large) // of 2048 and 6656 bytes
	same := func(*v1.Manifest) {}
	for name, test := range map[string]struct {
		manifest []byte
		limits   Limits
		limit    string
		want     string
	}{
		"no JSON":   {[]byte("<html>"), Limits{}, "", "reading the manifest: it is not a manifest: invalid character '<'"},
		"no object": {[]byte("[]"), Limits{}, "", "reading the manifest: it is not a manifest: "},
		"empty":     {[]byte("{}"), Limits{}, "", "reading the manifest: it is neither an image manifest nor an image index"},
		"another type": {
			[]byte(`{"mediaType":"application/x","layers":[],"config":{}}`),
			Limits{},
			"",
			`its manifest has the unsupported type "application/x"; supported are`,
		},
		"schema 1": {
			[]byte(`{"schemaVersion":1,"fsLayers":[]}`),
			Limits{},
			"",
			`its manifest has the unsupported type "application/vnd.docker.distribution.manifest.v1+json"`,
		},
		"layers of before": {[]byte(`{"fsLayers":[],"config":{}}`), Limits{}, "", "its manifest has the unsupported type"},
		"an empty index":   {[]byte(`{"manifests":[]}`), Limits{}, "", "its image index lists no image"},
		"a large layer": {
			manifestOf(t, host, img, same),
			Limits{TotalBytes: 6655},
			LimitTotalBytes,
			"layer 2 of 2: it has 6656 bytes, which exceeds the limit of 6655 for all files together (--max-unpacked-bytes)",
		},
		"large enough": {manifestOf(t, host, img, same), Limits{TotalBytes: 6656}, "", ""},
		"of unknown size": {
			manifestOf(t, host, img, func(m *v1.Manifest) { m.Layers[0].Size = -1 }),
			Limits{},
			"",
			"layer 1 of 2: its size in the manifest is -1 bytes",
		},
		"configuration": {
			manifestOf(t, host, img, func(m *v1.Manifest) { m.Config.Size = -1 }),
			Limits{},
			"",
			"the image configuration: its size in the manifest is -1 bytes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			blobs.Store(0)
			_, err := Image(t.Context(), putManifest(t, host, test.manifest), newScratch(t).root, Options{Limits: test.limits})
			checkError(t, err, test.want, true)
			checkLimit(t, err, test.limit)
			if got := blobs.Load(); err != nil && got > 0 {
				t.Errorf("%d blobs were fetched", got)
			}
		})
	}
}
