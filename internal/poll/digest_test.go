package poll

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/operator-catalogs/catalogd/internal/testing/registry"
)

// requestLog is a handler that notes the requests that reach it.
type requestLog struct {
	http.Handler
	mu       sync.Mutex
	requests []string
}

func (l *requestLog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	l.requests = append(l.requests, r.Method+" "+r.URL.Path)
	l.mu.Unlock()
	l.Handler.ServeHTTP(w, r)
}

// take returns the requests since the last call.
func (l *requestLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { l.requests = nil }()
	return l.requests
}

func serve(t *testing.T, handler http.Handler) (host string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func parse(t *testing.T, ref string) name.Reference {
	t.Helper()
	parsed, err := name.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestDigest(t *testing.T) {
	requests := &requestLog{Handler: registry.New()}
	ref := parse(t, serve(t, requests)+"/catalogs/foo:latest")
	img, err := random.Image(100, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
	hash, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	requests.take()

	want := ref.Context().Digest(hash.String()).String()
	got, err := Digest(t.Context(), ref)
	if err != nil || got.String() != want {
		t.Fatalf("got %v, %v, want %s", got, err, want)
	}
	if diff := cmp.Diff([]string{"GET /v2/", "HEAD /v2/catalogs/foo/manifests/latest"}, requests.take()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}

	again, err := Digest(t.Context(), got)
	if err != nil || again != got {
		t.Errorf("a reference by digest became %v, %v", again, err)
	}
	if log := requests.take(); log != nil {
		t.Errorf("a reference by digest made requests: %v", log)
	}
}

func TestDigestReusesSession(t *testing.T) {
	requests := &requestLog{Handler: registry.New()}
	ref := parse(t, serve(t, requests)+"/catalogs/foo:latest")
	img, err := random.Image(100, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
	puller, err := remote.NewPuller()
	if err != nil {
		t.Fatal(err)
	}
	requests.take()
	want := []string{"GET /v2/"}
	for range 20 {
		want = append(want, "HEAD /v2/catalogs/foo/manifests/latest")
		if _, err := Digest(t.Context(), ref, remote.Reuse(puller)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, requests.take()); diff != "" {
		t.Errorf("requests of 20 polls (-want +got):\n%s", diff)
	}
}

func TestDigestErrors(t *testing.T) {
	answer := func(status int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodHead {
				return // the session opens
			}
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
		}
	}
	const manifest = "application/vnd.oci.image.manifest.v1+json"
	hangUp := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	tokenRefused := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token",service="s"`)
		w.WriteHeader(http.StatusUnauthorized)
	}
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    string // HOST stands for the registry's
	}{
		"unauthorized":  {answer(401), "registry HOST requires credentials for repository catalogs/foo (401 Unauthorized)"},
		"forbidden":     {answer(403), "registry HOST requires credentials for repository catalogs/foo (403 Forbidden)"},
		"token refused": {tokenRefused, "registry HOST requires credentials for repository catalogs/foo (403 Forbidden)"},
		"not found":     {answer(404), "registry HOST has no such image or tag (404 Not Found)"},
		"too many":      {answer(429), "registry HOST is rate limiting requests (429 Too Many Requests)"},
		"server error":  {answer(503), "registry HOST answered 503 Service Unavailable"},
		"teapot":        {answer(418), "registry HOST answered 418 I'm a teapot"},
		"no digest": {
			answer(200, "Content-Type", manifest, "Content-Length", "7"),
			"registry HOST sent no digest of the image (no header Docker-Content-Digest)",
		},
		"malformed": {
			answer(200, "Content-Type", manifest, "Content-Length", "7", "Docker-Content-Digest", "sha256:12"),
			"registry HOST sent an invalid response",
		},
		"connection cut":  {hangUp, "registry HOST cannot be reached: it closed the connection without a response"},
		"redirect secret": {redirect("http://127.0.0.1:1/x?token=hunter2"), "registry HOST cannot be reached: connect: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			host := serve(t, test.handler)
			_, err := Digest(t.Context(), parse(t, host+"/catalogs/foo:latest"), fastRetry)
			want := "finding the digest of HOST/catalogs/foo:latest: " + test.want
			if err == nil || err.Error() != strings.ReplaceAll(want, "HOST", host) {
				t.Errorf("got error\n %v, want\n %s", err, want)
			}
		})
	}
}

func redirect(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
		}
	}
}

var fastRetry = remote.WithRetryBackoff(remote.Backoff{Duration: time.Millisecond, Steps: 2})

func TestDigestKeepsCause(t *testing.T) {
	host := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	_, err := Digest(t.Context(), parse(t, host+"/foo"))
	if answer, ok := errors.AsType[*transport.Error](err); !ok || answer.StatusCode != http.StatusTeapot {
		t.Errorf("got error %#v, want one with the registry's answer in its chain", err)
	}
}

func TestDigestUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := listener.Addr().String()
	listener.Close()
	_, err = Digest(t.Context(), parse(t, host+"/foo:v1"))
	want := "finding the digest of " + host + "/foo:v1: registry " + host + " cannot be reached: connect: connection refused"
	if err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
}

func TestCheck(t *testing.T) {
	var asked []string
	const digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	host := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		if strings.Contains(r.URL.Path, "/gone/") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		w.Header().Set("Content-Length", "7")
		w.Header().Set("Docker-Content-Digest", digest)
	}))
	ref := func(repository string) name.Digest {
		d, err := name.NewDigest(host + "/" + repository + "@" + digest)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if err := Check(t.Context(), ref("foo")); err != nil || !slices.Equal(asked, []string{"GET /v2/", "HEAD /v2/foo/manifests/" + digest}) {
		t.Errorf("got %v after %v", err, asked)
	}
	err := Check(t.Context(), ref("gone"))
	if want := "requesting the manifest: registry " + host + " has no such image or tag (404 Not Found)"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
