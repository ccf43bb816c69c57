package soak

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// imageRegistry is a registry that keeps its blobs on disk. catalogd uses an address with faults, the test another
// one.
type imageRegistry struct {
	address string // for catalogd
	direct  string // for the test
	faults  *faults
	gate    gate
	store   http.Handler
}

func newRegistry(t *testing.T) *imageRegistry {
	t.Helper()
	r := &imageRegistry{faults: newFaults("registry")}
	r.store = registry.New(registry.Logger(discardLog()), registry.WithBlobHandler(registry.NewDiskBlobHandler(t.TempDir())))
	r.address = serve(t, r)
	r.direct = serve(t, r.store)
	return r
}

// push uploads the image as repository:latest.
func (r *imageRegistry) push(ctx context.Context, repository string, image v1.Image) error {
	tag, err := name.NewTag(r.direct + "/" + repository + ":latest")
	if err != nil {
		return err
	}
	return remote.Write(tag, image, remote.WithContext(ctx))
}

// retag tags a digest as repository:latest.
func (r *imageRegistry) retag(ctx context.Context, repository, digest string) error {
	ref, err := name.NewDigest(r.direct + "/" + repository + "@" + digest)
	if err != nil {
		return err
	}
	image, err := remote.Get(ref, remote.WithContext(ctx))
	if err != nil {
		return err
	}
	return remote.Tag(ref.Context().Tag("latest"), image, remote.WithContext(ctx))
}

// ServeHTTP answers catalogd, with faults. A HEAD fails or works, but never lies, as no client could detect that.
func (r *imageRegistry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if !r.gate.pass(req.Context()) {
		panic(http.ErrAbortHandler)
	}
	kinds := []string{"500", "503", "429", "reset"}
	if req.Method == http.MethodGet && req.URL.Path != "/v2/" {
		kinds = append(kinds, "cut", "cut", "cut", "wrong", "wrong", "wrong", "slow", "slow")
	}
	kind := r.faults.pick(kinds)
	switch kind {
	case "":
		r.store.ServeHTTP(w, req)
	case "500":
		http.Error(w, "broken", http.StatusInternalServerError)
	case "503":
		http.Error(w, "in maintenance", http.StatusServiceUnavailable)
	case "429":
		w.Header().Set("Retry-After", "1")
		http.Error(w, "slow down", http.StatusTooManyRequests)
	case "reset":
		panic(http.ErrAbortHandler)
	default:
		r.store.ServeHTTP(&tamperedWriter{ResponseWriter: w, kind: kind, faults: r.faults}, req)
	}
}

// tamperedWriter disturbs the body of a reply at a random place: it breaks the connection, changes a byte, or
// delays the rest.
type tamperedWriter struct {
	http.ResponseWriter
	kind   string
	faults *faults
	begun  bool
	place  int64 // of the body, in bytes
	sent   int64
}

func (w *tamperedWriter) Write(p []byte) (int, error) {
	if !w.begun {
		w.begun = true
		if size, err := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64); err == nil && size > 0 {
			w.place = w.faults.int64n(size)
		}
	}
	i := w.place - w.sent
	if i < 0 || i >= int64(len(p)) {
		return w.pass(p)
	}
	switch w.kind {
	case "cut":
		_, _ = w.pass(p[:i])
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	case "slow":
		if n, err := w.pass(p[:i]); err != nil {
			return n, err
		}
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		time.Sleep(time.Duration(w.faults.int64n(int64(2 * time.Second)))) // this is the fault
		n, err := w.pass(p[i:])
		return int(i) + n, err
	}
	altered := append([]byte(nil), p...)
	altered[i] ^= 1
	return w.pass(altered)
}

func (w *tamperedWriter) pass(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.sent += int64(n)
	return n, err
}

// serve serves a handler on loopback until the test ends, and returns its address.
func serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, ErrorLog: discardLog()}
	var done sync.WaitGroup
	done.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serving on %s: %v", listener.Addr(), err)
		}
	})
	t.Cleanup(func() {
		_ = server.Close()
		done.Wait()
	})
	return listener.Addr().String()
}

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

// isWatch reports whether a request to the API server is a watch.
func isWatch(r *http.Request) bool {
	watch := r.URL.Query().Get("watch")
	return watch == "1" || strings.EqualFold(watch, "true")
}
