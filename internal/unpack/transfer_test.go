package unpack

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/operator-catalogs/catalogd/internal/registry"
	testregistry "github.com/operator-catalogs/catalogd/internal/testing/registry"
)

func imageLayer(t testing.TB, blob []byte) v1.Layer {
	t.Helper()
	return static.NewLayer(blob, types.OCILayer)
}

// alter wraps a registry. It passes responses to GETs of paths with suffix through change.
func alter(suffix *string, change func(http.ResponseWriter, []byte)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || *suffix == "" || !strings.HasSuffix(r.URL.Path, *suffix) {
				next.ServeHTTP(w, r)
				return
			}
			recorder := httptest.NewRecorder()
			next.ServeHTTP(recorder, r)
			w.Header().Set("Content-Type", recorder.Header().Get("Content-Type"))
			change(w, recorder.Body.Bytes())
		})
	}
}

// noise returns size incompressible bytes, so that layers exceed all buffers.
func noise(size int) string {
	content := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content)
	return string(content)
}

// TestDamagedTransfer has valid images, so no error may blame them.
func TestDamagedTransfer(t *testing.T) {
	flip := func(at int) func(http.ResponseWriter, []byte) {
		return func(w http.ResponseWriter, body []byte) {
			body = append([]byte(nil), body...)
			body[at] ^= 0xff
			_, _ = w.Write(body)
		}
	}
	cut := func(w http.ResponseWriter, body []byte) {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)-7))
		_, _ = w.Write(body[:len(body)-7])
	}
	hangUp := func(w http.ResponseWriter, body []byte) {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	longer := func(w http.ResponseWriter, body []byte) {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
		_, _ = w.Write(append(body, 0))
	}
	chunkedCut := func(w http.ResponseWriter, body []byte) {
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
	}
	missing := func(w http.ResponseWriter, _ []byte) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, "<html>nothing here</html>")
	}
	const (
		whole = "layer 1 of 1: fetching it: content from registry HOST does not match its digest"
		size  = "layer 1 of 1: fetching it: content from registry HOST does not match the size in its manifest"
	)
	for name, test := range map[string]struct {
		compress func(testing.TB, []byte) []byte
		change   func(http.ResponseWriter, []byte)
		kind     registry.Kind
		want     string // HOST stands for the registry's
	}{
		"plain, content":      {nil, flip(600), registry.Damaged, whole},
		"plain, tar header":   {nil, flip(5), registry.Damaged, whole},
		"plain, padding":      {nil, flip(1500), registry.Damaged, whole},
		"gzip, magic":         {gzipped, flip(0), registry.Damaged, whole},
		"gzip, content":       {gzipped, flip(40), registry.Damaged, whole},
		"cut":                 {gzipped, cut, registry.Damaged, size},
		"cut, size unknown":   {gzipped, chunkedCut, registry.Damaged, whole},
		"connection lost":     {gzipped, hangUp, registry.Damaged, "layer 1 of 1: fetching it: registry HOST closed the connection early"},
		"layer not found":     {gzipped, missing, registry.NotFound, "layer 1 of 1: fetching it: registry HOST has no such"},
		"longer than it says": {nil, longer, registry.Damaged, size},
	} {
		t.Run(name, func(t *testing.T) {
			layer := archive(t, file("configs/a", strings.Repeat("catalog", 50)), file("configs/b", noise(200<<10)))
			if test.compress != nil {
				layer = test.compress(t, layer)
			}
			var altered string
			ref := push(t, testregistry.Start(t, alter(&altered, test.change)), imageOf(t, "/configs", layer))
			digest, err := imageLayer(t, layer).Digest()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Image(t.Context(), ref, newScratch(t).root, Options{}); err != nil {
				t.Fatalf("before the change: %v", err)
			}
			altered = digest.String()
			_, err = Image(t.Context(), ref, newScratch(t).root, Options{})
			checkError(t, err, strings.ReplaceAll(test.want, "HOST", ref.RegistryStr()), false)
			if got := registry.KindOf(err); got != test.kind {
				t.Errorf("got an error of kind %q, want %q", got, test.kind)
			}
		})
	}
}

func TestDamagedManifest(t *testing.T) {
	var altered string
	change := func(w http.ResponseWriter, body []byte) { fmt.Fprintf(w, "%s ", body) }
	ref := push(t, testregistry.Start(t, alter(&altered, change)), imageOf(t, "/configs", archive(t, file("configs/a", "a"))))
	altered = ref.DigestStr()
	_, err := Image(t.Context(), ref, newScratch(t).root, Options{})
	checkError(t, err, "reading the manifest: content from registry "+ref.RegistryStr()+" does not match its digest", false)
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	layer := archive(t, file("configs/a", "a"), file("configs/b", strings.Repeat("b", 1<<20)))
	digest, err := imageLayer(t, layer).Digest()
	if err != nil {
		t.Fatal(err)
	}
	suffix := digest.String()
	ref := push(t, testregistry.Start(t, alter(&suffix, func(w http.ResponseWriter, body []byte) {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body[:1000])
		_ = http.NewResponseController(w).Flush()
		cancel()
		_, _ = w.Write(body[1000:2000]) // and no more: who waits for it waits for ever
		<-ctx.Done()
		panic(http.ErrAbortHandler)
	})), imageOf(t, "/configs", layer))
	_, err = Image(ctx, ref, newScratch(t).root, Options{})
	if !errors.Is(err, context.Canceled) || isInvalid(err) || registry.KindOf(err) != "" {
		t.Errorf("got error %v, want one that is context.Canceled", err)
	}
}

func TestNoRegistry(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	ref := push(t, testregistry.Start(t, nil), imageOf(t, "/configs", archive(t, file("configs/a", "a"))))
	moved, err := name.NewDigest(host + "/catalogs/test@" + ref.DigestStr())
	if err != nil {
		t.Fatal(err)
	}
	_, err = Image(t.Context(), moved, newScratch(t).root, Options{})
	checkError(t, err, "reading the manifest: registry "+host+" cannot be reached: connect: connection refused", false)
}

// TestLocalFault has a local fault, a deleted directory, which must not be blamed on the image.
func TestLocalFault(t *testing.T) {
	ref := push(t, testregistry.Start(t, nil), imageOf(t, "/configs", archive(t, file("configs/a", "a"))))
	s := newScratch(t)
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	_, err := Image(t.Context(), ref, s.root, Options{})
	checkError(t, err, "no such file or directory", false)
}
