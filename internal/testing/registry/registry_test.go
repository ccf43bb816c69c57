package registry

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/random"
)

func TestListen(t *testing.T) {
	var log strings.Builder
	var observed atomic.Int32
	server, err := Listen("127.0.0.1:0", t.TempDir(), &log, func(*http.Request) { observed.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	index, err := random.Index(10, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	want, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := Push(t.Context(), server.Addr+"/catalogs/test:latest", index)
	if err != nil || digest != want.String() {
		t.Errorf("Push() = %s, %v, want %s", digest, err, want)
	}
	if err := server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if got := log.String(); !strings.Contains(got, "PUT /v2/catalogs/test/manifests/latest") || observed.Load() == 0 {
		t.Errorf("%d requests were observed, the log holds %q", observed.Load(), got)
	}
}
