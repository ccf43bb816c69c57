package serve

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/operator-catalogs/catalogd/internal/limit"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
)

// TestQueriesAreBounded takes every slot. Only requests that need a slot must be refused.
func TestQueriesAreBounded(t *testing.T) {
	const maxQueries = 3
	cfg := testConfig(newTestStore(t))
	cfg.Limits = limit.New(maxQueries)
	url := startServer(t, New(cfg))
	bounded := []string{
		"/catalogs/small/api/v1/metas?schema=olm.package", "/catalogs/small/api/v1/packages", "/catalogs/small/api/v1/packages/syndesis",
		"/catalogs/small/api/v1/packages/syndesis/channels", "/catalogs/small/api/v1/packages/syndesis/bundles",
		"/catalogs/small/api/v1/channels",
		"/catalogs/small/api/v1/bundles", "/catalogs/small/api/v1/bundles/syndesis.v1.13.0", "/catalogs/small/api/v1/custom",
		"/catalogs/small/api/v1/graphql?query={catalogs{name}}", "/api/v1/graphql?query={catalogs{name}}", "/api/v1/search?q=a",
		"/catalogs/small/digests/" + digestOf("1") + "/api/v1/packages",
	}
	free := []string{
		"/catalogs", "/catalogs/small", "/openapi.json", "/version", "/catalogs/small/api/v1/all", "/catalogs/small/api/v1/metas",
		"/catalogs/icons/api/v1/packages/png/icon",
	}
	var releases []func()
	for range maxQueries {
		release, err := cfg.Limits.Queries.Acquire()
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
	for range 2 * maxQueries { // a slot that is not given back would be missed here
		for _, path := range bounded {
			if status := statusOf(t, url+path); status != http.StatusOK {
				t.Errorf("%s: status %d after the slots were given back", path, status)
			}
		}
		for _, path := range []string{
			"/catalogs/small/api/v1/packages/no", "/catalogs/small/api/v1/metas?no=1", "/api/v1/graphql?query={", "/api/v1/search?q=a&limit=no",
		} {
			if status := statusOf(t, url+path); status < http.StatusBadRequest && status != http.StatusOK {
				t.Errorf("%s: status %d", path, status)
			}
		}
	}
	if used := cfg.Limits.Queries.Used(); used != 0 {
		t.Errorf("%d slots are in use without a request", used)
	}
}

// fill returns a file of blobs that hardly compress.
func fill(blobs, size int) *fstest.MapFile {
	random, noise, out := rand.NewChaCha8([32]byte{}), make([]byte, size), bytes.Buffer{}
	for i := range blobs {
		_, _ = random.Read(noise)
		fmt.Fprintf(&out, `{"schema":"fill","name":"%d","noise":%q}`+"\n", i, base64.StdEncoding.EncodeToString(noise))
	}
	return &fstest.MapFile{Data: out.Bytes()}
}

// TestSlowReadersHoldNoSlot has many clients that do not read their responses. Others must still get responses, if not compressed ones.
func TestSlowReadersHoldNoSlot(t *testing.T) {
	st := openStore(t)
	commit(t, st, "c", "1", fstest.MapFS{"fill.json": fill(8, 1<<20), "p.json": validPackage("p", "1.0.0")})
	cfg := testConfig(st)
	cfg.Limits = limit.New(3)
	base := startServer(t, New(cfg))
	url := base + "/catalogs/c/api/v1/metas?schema=fill"
	var readers []net.Conn
	for range 40 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprint(conn,
			"GET /catalogs/c/api/v1/metas?schema=fill HTTP/1.1\r\nHost: c\r\nAccept-Encoding: gzip\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err != nil { // of the status line
			t.Fatal(err)
		}
		readers = append(readers, conn)
	}
	if got := cfg.Limits.Compressions.Used(); got != 3 {
		t.Errorf("%d encoders are in use, want 3", got)
	}
	head, _ := do(t, http.MethodHead, url, "")
	tag := strings.TrimSuffix(head.Header.Get("ETag"), `"`) + `-zstd"`
	for _, test := range []struct {
		path, accept, ifNoneMatch string
		status                    int
		encoding                  string
	}{
		{"/catalogs/c/api/v1/metas?schema=fill", "zstd", "", http.StatusOK, ""},
		{"/catalogs/c/api/v1/metas?schema=fill", "zstd, identity;q=0", "", http.StatusTooManyRequests, ""},
		{"/catalogs/c/api/v1/metas?schema=fill", "zstd, identity;q=0", tag, http.StatusNotModified, ""},
		{"/catalogs/c/api/v1/packages/p", "", "", http.StatusOK, ""},
		{"/api/v1/search?q=p", "", "", http.StatusOK, ""},
		{"/api/v1/graphql?query={__schema{types{name,description}}}", "zstd", "", http.StatusOK, "zstd"},
	} {
		resp, body := do(t, http.MethodGet, base+test.path, "", "Accept-Encoding", test.accept, "If-None-Match", test.ifNoneMatch)
		if resp.StatusCode != test.status || resp.Header.Get("Content-Encoding") != test.encoding {
			t.Errorf("%+v: status %d, header %v", test, resp.StatusCode, resp.Header)
		}
		if err := wellFormed(resp.StatusCode, resp.Header, body, http.MethodGet); err != nil {
			t.Error(err)
		}
		if test.status == http.StatusOK && test.accept == "zstd" && test.encoding == "" {
			want, plainTag := getTagged(t, url)
			if body != want || resp.Header.Get("ETag") != plainTag ||
				resp.ContentLength != int64(len(want)) || resp.Header.Get("Vary") != "Accept-Encoding" {
				t.Errorf("what is not compressed for want of an encoder: %d bytes, want %d; header %v", len(body), len(want), resp.Header)
			}
		}
	}
	for _, conn := range readers {
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	eventually.Holds(t, "the encoders to come back", func() bool { return cfg.Limits.Compressions.Used() == 0 })
	if resp, _ := do(t, http.MethodGet, url, "", "Accept-Encoding", "zstd"); resp.Header.Get("Content-Encoding") != "zstd" {
		t.Errorf("when all are gone, header %v", resp.Header)
	}
}

// TestLargeSelectionsAreBounded checks that slow readers hold a bounded number of selected blobs, and that small selections still succeed.
func TestLargeSelectionsAreBounded(t *testing.T) {
	st := openStore(t)
	commit(t, st, "c", "1", fstest.MapFS{"fill.json": fill(11, 3), "p.json": validPackage("p", "1.0.0")})
	cfg := testConfig(st)
	cfg.Limits = limit.New(3)
	cfg.Limits.Selections = limit.NewBudget(10, 20, "")
	base := startServer(t, New(cfg)) + "/catalogs/c/api/v1/"
	release, err := cfg.Limits.Selections.Acquire(11)
	if err != nil {
		t.Fatal(err)
	}
	resp, body := do(t, http.MethodGet, base+"metas?schema=fill", "")
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "1" {
		t.Errorf("status %d, header %v", resp.StatusCode, resp.Header)
	}
	if err := wellFormed(resp.StatusCode, resp.Header, body, http.MethodGet); err != nil {
		t.Error(err)
	}
	if status := statusOf(t, base+"packages"); status != http.StatusOK {
		t.Errorf("a small one: status %d", status)
	}
	release()
	for range 3 {
		get(t, base+"metas?schema=fill")
	}
	eventually.Holds(t, "the budget is released", func() bool { return isFree(cfg.Limits.Selections, 20) })
}

// TestLargeResponsesAreBounded is TestLargeSelectionsAreBounded for GraphQL.
func TestLargeResponsesAreBounded(t *testing.T) {
	st := openStore(t)
	commit(t, st, "c", "1", fstest.MapFS{"large.json": {Data: []byte(`{"schema":"large","text":"` + strings.Repeat("x", 64<<10) + `"}`)}})
	cfg := testConfig(st)
	cfg.Limits = limit.New(3)
	cfg.Limits.Responses = limit.NewBudget(64<<10, 1<<20, "")
	url := startServer(t, New(cfg)) + "/catalogs/c/api/v1/graphql?query="
	const large, small = "{blobs{nodes{content}}}", "{blobs{nodes{size}}}"
	release, err := cfg.Limits.Responses.Acquire(1<<20 - 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	resp, body := do(t, http.MethodGet, url+large, "")
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "1" {
		t.Errorf("status %d, header %v", resp.StatusCode, resp.Header)
	}
	if err := wellFormed(resp.StatusCode, resp.Header, body, http.MethodGet); err != nil {
		t.Error(err)
	}
	get(t, url+small)
	release()
	get(t, url+large)
	eventually.Holds(t, "the budget is released", func() bool { return isFree(cfg.Limits.Responses, 1<<20) })
}

// isFree reports whether a budget is unused.
func isFree(b limit.Budget, all int64) bool {
	release, err := b.Acquire(all)
	if err == nil {
		release()
	}
	return err == nil
}

// TestSlowBodyHoldsNoSlot sends half a query. Other requests must get the only slot meanwhile.
func TestSlowBodyHoldsNoSlot(t *testing.T) {
	cfg := testConfig(newTestStore(t))
	cfg.Limits = limit.New(1)
	url := startServer(t, New(cfg))
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := `{"query":"{catalogs{name}}"}`
	_, err = fmt.Fprintf(conn,
		"POST /api/v1/graphql HTTP/1.1\r\nHost: catalogd\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:10])
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if resp, text := do(t, http.MethodPost, url+"/api/v1/graphql", body, "Content-Type",
			"application/json"); resp.StatusCode != http.StatusOK {
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
	for size, want := range map[int]int{
		maxBody: http.StatusOK, maxBody + 1: http.StatusRequestEntityTooLarge, 10 * maxBody: http.StatusRequestEntityTooLarge,
	} {
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
