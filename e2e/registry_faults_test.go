package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// TestRateLimit makes a registry reply with Retry-After. It gets no request before that time, neither scheduled nor
// requested, while a catalog of another registry is polled on time.
func TestRateLimit(t *testing.T) {
	const patienceAskedFor = 5 * time.Second
	w := newWorld(t, shared)
	other := newRegistry(t)
	eachSecond := func(c *unstructured.Unstructured) {
		must.Succeed(t, unstructured.SetNestedField(c.Object, "1s", "spec", "pollingInterval"))
	}
	ref, digest := w.registry.push(t, "limited", catalogImage(t, soundDir))
	free, freeDigest := other.push(t, "free", catalogImage(t, soundDir))
	w.createCatalog(t, "limited", ref, eachSecond)
	w.createCatalog(t, "free", free, eachSecond)
	w.waitReady(t, "limited", digest)
	w.waitReady(t, "free", freeDigest)

	limited := make(chan time.Time, 1)
	w.registry.once(func(response http.ResponseWriter, _ *http.Request) {
		limited <- time.Now()
		response.Header().Set("Retry-After", strconv.Itoa(int(patienceAskedFor/time.Second)))
		http.Error(response, "slow down", http.StatusTooManyRequests)
	})
	var asked time.Time
	select {
	case asked = <-limited:
	case <-time.After(patience):
		t.Fatal("the registry was not polled")
	}
	start, startOther := len(w.registry.log(0)), len(other.log(0))
	w.askForPoll(t, "limited", "now")
	w.waitMessage(t, "limited", w.registry.address, "is rate limiting requests")
	if err := w.answers(w.contentURL("limited", "/api/v1/all"), http.StatusOK); err != nil {
		t.Error(err)
	}
	w.waitReady(t, "limited", digest)
	eventually.Succeeds(t, "the registry is polled again", w.registry.polledSince(start, 1))
	if got := w.registry.log(start)[0].at.Sub(asked); got < patienceAskedFor {
		t.Errorf("the registry was asked again after %s; it had asked for %s", got, patienceAskedFor)
	}
	if n := countBefore(other.log(startOther), asked.Add(patienceAskedFor)); n < 2 {
		t.Errorf("in the meantime the other registry was polled %d times, want about %d", n, patienceAskedFor/time.Second)
	}
}

func countBefore(log []request, end time.Time) (n int) {
	for _, r := range log {
		if r.method == http.MethodHead && r.at.Before(end) {
			n++
		}
	}
	return n
}

// TestRegistryFaults makes polls and transfers fail once in each of the ways of real registries. The catalog
// recovers by itself.
func TestRegistryFaults(t *testing.T) {
	for name, instead := range map[string]http.HandlerFunc{
		"500": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken", http.StatusInternalServerError) },
		"reset": func(_ http.ResponseWriter, _ *http.Request) {
			panic(http.ErrAbortHandler) // the server closes the connection without a reply
		},
		"429 without Retry-After": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "slow down", http.StatusTooManyRequests) },
		"503 with a date": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", time.Now().Add(2*time.Second).UTC().Format(http.TimeFormat))
			http.Error(w, "in maintenance", http.StatusServiceUnavailable)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, shared)
			ref, digest := w.registry.push(t, "sound", catalogImage(t, soundDir))
			w.registry.once(instead)
			w.createCatalog(t, "sound", ref, nil)
			w.waitReady(t, "sound", digest)
		})
	}
}

// TestTransferResumed breaks the connection to a real registry in the middle of a layer. The transfer resumes where
// it broke.
func TestTransferResumed(t *testing.T) {
	registry := newDistribution(t, distributionConfig{auth: noAuth, tls: plainHTTP})
	image := catalogImage(t, largeCatalog(t))
	ref, digest := registry.push(t, "ns/catalog", image)
	layers, err := image.Layers()
	must.Succeed(t, err)
	layer, err := layers[0].Digest()
	must.Succeed(t, err)
	cutter := &cutter{registry: registry.address, blob: "/v2/ns/catalog/blobs/" + layer.String()}
	w := newWorld(t, shared)
	w.registry.handler = cutter
	w.createCatalog(t, "resumed", strings.Replace(ref, registry.address, w.registry.address, 1), nil)
	w.waitReady(t, "resumed", digest)
	cutter.mu.Lock()
	defer cutter.mu.Unlock()
	if want := []string{"", fmt.Sprintf("bytes=%d-", cutter.sent)}; !slices.Equal(cutter.ranges, want) {
		t.Errorf("the layer was asked for with the ranges %q, want %q", cutter.ranges, want)
	}
}

// cutter forwards to a registry and breaks the first connection in the middle of a blob.
type cutter struct {
	registry string
	blob     string // path

	mu     sync.Mutex
	sent   int64    // bytes of the blob before the cut
	ranges []string // Range headers of the requests for the blob
}

func (c *cutter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: c.registry})
	if r.Method != http.MethodGet || r.URL.Path != c.blob {
		forward.ServeHTTP(w, r)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ranges = append(c.ranges, r.Header.Get("Range"))
	if len(c.ranges) == 1 {
		forward.ModifyResponse = func(response *http.Response) error {
			c.sent = response.ContentLength / 2
			response.Body = struct {
				io.Reader
				io.Closer
			}{io.LimitReader(response.Body, c.sent), response.Body}
			return nil
		}
	}
	forward.ServeHTTP(w, r)
}
