package serve

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestQueriesAreBounded takes every slot: what takes work is refused, all else is answered.
func TestQueriesAreBounded(t *testing.T) {
	cfg := testConfig(newTestStore(t))
	cfg.MaxQueries = 3
	s := newServer(cfg)
	url := startServer(t, s)
	bounded := []string{
		"/catalogs/small/api/v1/metas?schema=olm.package", "/catalogs/small/api/v1/packages", "/catalogs/small/api/v1/packages/syndesis",
		"/catalogs/small/api/v1/packages/syndesis/channels", "/catalogs/small/api/v1/packages/syndesis/bundles", "/catalogs/small/api/v1/channels",
		"/catalogs/small/api/v1/bundles", "/catalogs/small/api/v1/bundles/syndesis.v1.13.0", "/catalogs/small/api/v1/custom",
		"/catalogs/small/api/v1/graphql?query={catalogs{name}}", "/api/v1/graphql?query={catalogs{name}}", "/api/v1/search?q=a",
		"/catalogs/small/digests/" + digestOf("1") + "/api/v1/packages",
	}
	free := []string{
		"/catalogs", "/catalogs/small", "/openapi.json", "/catalogs/small/api/v1/all", "/catalogs/small/api/v1/metas",
		"/catalogs/icons/api/v1/packages/png/icon",
	}
	var releases []func()
	for range cfg.MaxQueries {
		release, err := s.queries.take("queries")
		if err != nil {
			t.Fatal(err)
		}
		releases = append(releases, release)
	}
	for _, path := range bounded {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			resp, body := do(t, method, url+path, "")
			if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "1" {
				t.Errorf("%s %s: status %d, header %v", method, path, resp.StatusCode, resp.Header)
			}
			if err := wellFormed(resp.StatusCode, resp.Header, body, method); err != nil {
				t.Error(err)
			}
		}
	}
	for _, path := range free {
		if status := statusOf(t, url+path); status != http.StatusOK {
			t.Errorf("%s: status %d", path, status)
		}
	}
	for _, release := range releases {
		release()
	}
	for range 2 * cfg.MaxQueries { // a slot that is not given back would be missed here
		for _, path := range bounded {
			if status := statusOf(t, url+path); status != http.StatusOK {
				t.Errorf("%s: status %d after the slots were given back", path, status)
			}
		}
		for _, path := range []string{"/catalogs/small/api/v1/packages/no", "/catalogs/small/api/v1/metas?no=1", "/api/v1/graphql?query={", "/api/v1/search?q=a&limit=no"} {
			if status := statusOf(t, url+path); status < http.StatusBadRequest && status != http.StatusOK {
				t.Errorf("%s: status %d", path, status)
			}
		}
	}
	if len(s.queries) != 0 {
		t.Errorf("%d slots are held with nobody there", len(s.queries))
	}
}

// TestSlowBodyHoldsNoSlot sends half a query: others are answered meanwhile, with a single slot.
func TestSlowBodyHoldsNoSlot(t *testing.T) {
	cfg := testConfig(newTestStore(t))
	cfg.MaxQueries = 1
	s := newServer(cfg)
	url := startServer(t, s)
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := `{"query":"{catalogs{name}}"}`
	_, err = fmt.Fprintf(conn, "POST /api/v1/graphql HTTP/1.1\r\nHost: catalogd\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:10])
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if resp, text := do(t, http.MethodPost, url+"/api/v1/graphql", body, "Content-Type", "application/json"); resp.StatusCode != http.StatusOK {
			t.Fatalf("status %d: %s", resp.StatusCode, text)
		}
	}
	if _, err := fmt.Fprint(conn, body[10:]); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the slow client: status %d", resp.StatusCode)
	}
}

func TestBodyIsBounded(t *testing.T) {
	url := startServer(t, newTestHandler(t)) + "/api/v1/graphql"
	for size, want := range map[int]int{maxBody: http.StatusOK, maxBody + 1: http.StatusRequestEntityTooLarge, 10 * maxBody: http.StatusRequestEntityTooLarge} {
		query := `{"query":"{catalogs{name}}"}`
		resp, body := do(t, http.MethodPost, url, query+strings.Repeat(" ", size-len(query)), "Content-Type", "application/json")
		if resp.StatusCode != want {
			t.Errorf("a body of %d bytes: status %d, want %d: %.200s", size, resp.StatusCode, want, body)
		}
		if err := wellFormed(resp.StatusCode, resp.Header, body, http.MethodPost); err != nil {
			t.Error(err)
		}
	}
}
