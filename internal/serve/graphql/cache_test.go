package graphql

import (
	"net/http"
	"strings"
	"testing"
)

// A cached query has the same reply, and its variables are checked against the limits each time.
func TestCachedQuery(t *testing.T) {
	cfg := config()
	h := New(cfg)
	url := serveAll(t, h, openStore(t).Catalogs)
	const query = `query($n: Int!) { packages(first: $n) { nodes { name } } }`
	first := post(t, url, query, "n", 1)
	if _, known := h.queries.Get(t.Context(), query); !known {
		t.Error("the query is not cached")
	}
	if second := post(t, url, query, "n", 1); second.body != first.body || second.status != http.StatusOK {
		t.Errorf("got %s\nwant %s", second.body, first.body)
	}
	post(t, url, query, "n", 1_000_000).wantError(t, "BAD_USER_INPUT")
	if again := post(t, url, query, "n", 1); again.body != first.body {
		t.Errorf("got %s\nwant %s", again.body, first.body)
	}

	const wrong = `{ packages { nodes { nothing } } }`
	before := post(t, url, wrong)
	before.wantError(t, "GRAPHQL_VALIDATION_FAILED")
	if again := post(t, url, wrong); again.body != before.body {
		t.Errorf("got %s\nwant %s", again.body, before.body)
	}
	long := query + strings.Repeat(" ", maxCachedQuery)
	post(t, url, long, "n", 1)
	for _, query := range []string{wrong, long} {
		if _, known := h.queries.Get(t.Context(), query); known {
			t.Errorf("%.40q is cached", query)
		}
	}
	for i := range 2 * maxCached {
		post(t, url, query+strings.Repeat(" ", i+1), "n", 1)
	}
	if n := len(h.queries.documents); n != maxCached {
		t.Errorf("the cache holds %d queries, want %d", n, maxCached)
	}
}
