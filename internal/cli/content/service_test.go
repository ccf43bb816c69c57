package content

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
)

// Concurrent feeds request one token, and another one after it expired.
func TestFeedsShareToken(t *testing.T) {
	var made atomic.Int64
	good := "1"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(TokenHeader) != "Bearer "+good {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	at, err := ParseAddress(server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	service, err := Proxied(&rest.Config{Host: server.URL}, at, func(context.Context) (string, error) {
		return map[int64]string{1: "1", 2: "2"}[made.Add(1)], nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, good = range []string{"1", "2"} {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				resp, err := service.Untimed().Get(t.Context(), "/catalogs", nil, nil)
				if err != nil {
					t.Error(err)
					return
				}
				_ = resp.Body.Close()
			})
		}
		all.Wait()
	}
	if made.Load() != 2 {
		t.Errorf("%d tokens were made", made.Load())
	}
}
