package content

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pages serves a list of two pages, in a new version as often as changes says between the two.
func pages(t *testing.T, changes int) *Service {
	t.Helper()
	version := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		after := r.FormValue("variables")
		switch {
		case !strings.Contains(after, `"after"`):
			fmt.Fprintf(w, `{"data":{"things":{"nodes":["a of %d"],"pageInfo":{"hasNextPage":true,"endCursor":"%d"}}}}`, version, version)
			if version < changes {
				version++
			}
		case strings.Contains(after, fmt.Sprintf(`"after":"%d"`, version)):
			fmt.Fprintf(w, `{"data":{"things":{"nodes":["b of %d"],"pageInfo":{"hasNextPage":false}}}}`, version)
		default:
			fmt.Fprint(w, `{"errors":[{"message":"the cursor is of another version","extensions":{"code":"BAD_USER_INPUT"}}],"data":null}`)
		}
	}))
	t.Cleanup(server.Close)
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return &Service{base: base, http: server.Client()}
}

func TestAll(t *testing.T) {
	for changes, want := range [][]string{{"a of 0", "b of 0"}, {"a of 1", "b of 1"}, {"a of 2", "b of 2"}} {
		got, err := All[string](t.Context(), pages(t, changes), "", "", "{ things }", map[string]any{"x": 1})
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%d changes: error %v, nodes (-want +got):\n%s", changes, err, diff)
		}
	}
}

func TestAllFailsIfCatalogKeepsChanging(t *testing.T) {
	t.Parallel()
	got, err := All[string](t.Context(), pages(t, 1000), "", "", "{ things }", nil)
	if err == nil || !strings.Contains(err.Error(), "retry, or list a single catalog") || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestAllReturnsErrorOfFirstPage(t *testing.T) {
	for code, missing := range map[string]bool{"BAD_USER_INPUT": false, "NOT_FOUND": true} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"errors":[{"message":"that cannot be","extensions":{"code":%q}}]}`, code)
		}))
		defer server.Close()
		base, _ := url.Parse(server.URL)
		_, err := All[string](t.Context(), &Service{base: base, http: server.Client()}, "", "", "{ things }", nil)
		if err == nil || err.Error() != "that cannot be" || IsNotFound(err) != missing {
			t.Errorf("%s: got %v", code, err)
		}
	}
}
