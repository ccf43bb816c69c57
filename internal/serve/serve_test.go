package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/limit"
	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
)

// committedAt is the time of all commits by the store's clock.
var committedAt = time.Date(2026, 2, 3, 4, 5, 6, 700, time.UTC)

func openStore(tb testing.TB) *store.Store {
	tb.Helper()
	st, err := store.Open(tb.TempDir(), store.Options{Now: func() time.Time { return committedAt }})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := st.Close(); err != nil {
			tb.Error(err)
		}
	})
	return st
}

// commit commits files as the content of a catalog, with a digest of one repeated digit.
func commit(tb testing.TB, st *store.Store, name, digit string, files fs.FS) {
	tb.Helper()
	commitSource(tb, st, name, store.Source{Image: "quay.io/example/" + name + ":v1", Digest: digestOf(digit)}, files)
}

func digestOf(digit string) string { return "sha256:" + strings.Repeat(digit, 64) }

func commitSource(tb testing.TB, st *store.Store, name string, source store.Source, files fs.FS) {
	tb.Helper()
	stage, err := st.Stage(name, "")
	if err != nil {
		tb.Fatal(err)
	}
	if err := copyFiles(stage.Root(), files); err != nil {
		tb.Fatal(err)
	}
	if _, err := stage.Commit(context.Background(), source); err != nil {
		tb.Fatal(err)
	}
	if err := stage.Discard(); err != nil {
		tb.Error(err)
	}
}

func copyFiles(root *os.Root, files fs.FS) error {
	return fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		return root.WriteFile(name, data, 0o644)
	})
}

var lastPoll = time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)

func newHandler(st *store.Store) http.Handler { return New(testConfig(st)) }

func testConfig(st *store.Store) Config {
	return Config{
		Catalogs: st,
		Polls: func(catalog string) (last, next time.Time) {
			if catalog != "small" {
				return time.Time{}, time.Time{}
			}
			return lastPoll, lastPoll.Add(15 * time.Minute)
		},
		Priority:    func(string) int32 { return 0 },
		Awaited:     func(string) Awaited { return Awaited{} },
		Expected:    func() []string { return nil },
		Limits:      limit.New(32),
		Now:         func() time.Time { return committedAt },
		BaseURL:     "https://catalogd.example",
		APIVersions: []string{"v1beta1"},
		Logger:      slog.New(slog.DiscardHandler),
	}
}

// newTestHandler returns a handler for the two catalogs of testdata.
func newTestHandler(tb testing.TB) http.Handler {
	tb.Helper()
	return newHandler(newTestStore(tb))
}

// newTestStore returns a store with the two catalogs of testdata. Catalog icons has a configDir.
func newTestStore(tb testing.TB) *store.Store {
	tb.Helper()
	st := openStore(tb)
	commit(tb, st, "small", "1", os.DirFS("testdata/small"))
	commitSource(tb, st, "icons", store.Source{
		Image: "quay.io/example/icons:v1", Digest: digestOf("2"), ConfigDir: "/icons",
	}, os.DirFS("testdata/icons"))
	return st
}

// compress creates the encoded forms of current and future content until the test ends. It returns once the current ones exist.
func compress(tb testing.TB, st *store.Store) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- st.Compress(ctx) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Error(err)
		}
	})
	for _, c := range st.Catalogs() {
		for _, e := range []store.Encoding{store.Zstd, store.Gzip} {
			eventually.Holds(tb, "the form "+string(e), func() bool {
				f, err := c.Snapshot.OpenEncoded(e)
				return err == nil && f.Close() == nil
			})
		}
	}
}

func startServer(tb testing.TB, h http.Handler) string {
	tb.Helper()
	server := httptest.NewServer(h)
	tb.Cleanup(server.Close)
	return server.URL
}

func get(tb testing.TB, url string) string {
	tb.Helper()
	body, _ := getTagged(tb, url)
	return body
}

// plain requests no encoding, unless a request has its own Accept-Encoding.
var plain = &http.Client{Transport: &http.Transport{DisableCompression: true}}

func getTagged(tb testing.TB, url string) (body, tag string) {
	tb.Helper()
	resp, err := plain.Get(url)
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		tb.Fatalf("GET %s: %s\n%s", url, resp.Status, data)
	}
	return string(data), resp.Header.Get("ETag")
}

func TestListCatalogs(t *testing.T) {
	st := openStore(t)
	url := startServer(t, newHandler(st)) + "/catalogs"
	if got, want := get(t, url), `{"catalogs":[],"notServed":[]}`+"\n"; got != want {
		t.Errorf("with no catalog: got %q, want %q", got, want)
	}
	commit(t, st, "unpolled", "3", fstest.MapFS{"info.json": {Data: []byte(`{"schema":"example.com.info"}`)}})
	var list struct{ Catalogs []map[string]any }
	if err := json.Unmarshal([]byte(get(t, url)), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Catalogs) != 1 {
		t.Fatalf("got %d catalogs, want 1", len(list.Catalogs))
	}
	entry := list.Catalogs[0]
	want := map[string]any{
		"name": "unpolled", "image": "quay.io/example/unpolled:v1", "digest": "sha256:" + strings.Repeat("3", 64),
		"packages": 0.0, "channels": 0.0, "bundles": 0.0, "blobs": 1.0, "bytes": 30.0, "invalidPackages": 0.0,
		"priority": 0.0, "conditions": []any{}, "lastModified": "2026-02-03T04:05:06Z",
		"url": "https://catalogd.example/catalogs/unpolled",
	}
	if diff := cmp.Diff(want, entry); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
}

// TestCatalogsHaveConditions lists a served catalog, one that was never served, and one without an object.
func TestCatalogsHaveConditions(t *testing.T) {
	cfg := testConfig(newTestStore(t))
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ready := Condition{Type: "Ready", Status: "False", Reason: "Suspended", Message: "spec.suspend is true.", LastTransitionTime: at}
	progressing := Condition{Type: "Progressing", Status: "True", Reason: "Retrying", LastTransitionTime: at}
	cfg.Sources = func() []Source {
		return []Source{
			{Name: "small", DisplayName: "Small", Publisher: "Us", Description: "few", Priority: -1, Conditions: []Condition{ready, progressing}},
			{Name: "never", Image: "quay.io/example/never:v1", DisplayName: "Never", Conditions: []Condition{ready}},
			{Name: "fresh", Image: "quay.io/example/fresh:v1"},
		}
	}
	url := startServer(t, New(cfg))
	const readyJSON = `{"type":"Ready","status":"False","reason":"Suspended","message":"spec.suspend is true.","lastTransitionTime":"2026-01-02T03:04:05Z"}`
	const small = `"name":"small","image":"quay.io/example/small:v1","displayName":"Small","publisher":"Us","description":"few","priority":-1,` +
		`"conditions":[{"type":"Progressing","status":"True","reason":"Retrying","message":"","lastTransitionTime":"2026-01-02T03:04:05Z"},` + readyJSON + `],`
	const rest = `"notServed":[{"name":"fresh","image":"quay.io/example/fresh:v1","priority":0,"conditions":[]},` +
		`{"name":"never","image":"quay.io/example/never:v1","displayName":"Never","priority":0,"conditions":[` + readyJSON + `]}]}`
	for path, wants := range map[string][]string{
		"/catalogs":       {small, `"name":"icons","image":"quay.io/example/icons:v1","priority":0,"conditions":[],`, rest},
		"/catalogs/small": {small},
		"/catalogs/small/digests/" + digestOf("1"): {small},
	} {
		got := get(t, url+path)
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("%s: got %s, want %s", path, got, want)
			}
		}
	}
}

// TestReaderFinishesWithOldContent commits a new digest while one client reads /all and another a query, and then removes the catalog.
// Both clients must get the complete old content; later requests get the new content, then none.
func TestReaderFinishesWithOldContent(t *testing.T) {
	st := openStore(t)
	contentOf := func(version string) fstest.MapFS {
		var b bytes.Buffer
		for i := range 4000 { // 16 MB: far beyond what the sockets between us buffer
			fmt.Fprintf(&b, `{"schema":"example.com.filler","name":"%s-%d","fill":"%s"}`+"\n", version, i, strings.Repeat("x", 4096))
		}
		return fstest.MapFS{"filler.json": {Data: b.Bytes()}}
	}
	oldContent, newContent := contentOf("old"), contentOf("new")
	commit(t, st, "moving", "1", oldContent)
	url := startServer(t, newHandler(st)) + "/catalogs/moving/api/v1/"

	paths := []string{"all", "metas?schema=example.com.filler"}
	bodies := make([]io.ReadCloser, len(paths))
	for i, p := range paths {
		resp, err := plain.Get(url + p)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		bodies[i] = resp.Body
		if _, err := io.CopyN(io.Discard, resp.Body, 1); err != nil {
			t.Fatal(err)
		}
	}
	commit(t, st, "moving", "2", newContent)
	for _, p := range paths {
		if got := get(t, url+p); got != string(newContent["filler.json"].Data) {
			t.Errorf("%s: a request after the commit is not answered with the new content", p)
		}
	}
	if err := st.Remove("moving"); err != nil {
		t.Fatal(err)
	}
	for i, p := range paths {
		rest, err := io.ReadAll(bodies[i])
		if err != nil {
			t.Errorf("%s: reading on: %v", p, err)
		}
		if want := oldContent["filler.json"].Data[1:]; !bytes.Equal(rest, want) {
			t.Errorf("%s: the reader did not finish with the old content: got %d bytes more, want %d", p, len(rest), len(want))
		}
		if status := statusOf(t, url+p); status != http.StatusNotFound {
			t.Errorf("%s: status %d after the catalog was removed, want 404", p, status)
		}
	}
}

func statusOf(tb testing.TB, url string) int {
	tb.Helper()
	resp, err := http.Head(url)
	if err != nil {
		tb.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		tb.Error(err)
	}
	return resp.StatusCode
}

// TestCanceledRequestsAreNotLogged cancels requests.
func TestCanceledRequestsAreNotLogged(t *testing.T) {
	var log strings.Builder
	cfg := testConfig(newTestStore(t))
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	New(cfg).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/search?q=operator", nil))
	if log.Len() > 0 || w.Code == http.StatusOK {
		t.Errorf("status %d; the log is %q", w.Code, log.String())
	}
}

func TestUnknownErrorIsLoggedNotShown(t *testing.T) {
	var log strings.Builder
	h := responder{slog.New(slog.NewTextHandler(&log, nil))}.handle(func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("ETag", `"tag"`)
		w.Header().Set(DigestHeader, "sha256:1")
		return errors.New("opening /secret/place: no such file")
	})
	w := httptest.NewRecorder()
	h.ServeHTTP(&replyWriter{ResponseWriter: w}, httptest.NewRequest(http.MethodGet, "/catalogs", nil))
	if want := "500 Internal Server Error\nreading the content failed; the log of catalogd has the cause\n"; w.Body.String() != want {
		t.Errorf("body: got %q, want %q", w.Body, want)
	}
	want := http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "Cache-Control": {"no-store"}}
	if diff := cmp.Diff(want, w.Header()); w.Code != http.StatusInternalServerError || diff != "" {
		t.Errorf("status %d, header (-want +got):\n%s", w.Code, diff)
	}
	if !strings.Contains(log.String(), "/secret/place") {
		t.Errorf("the cause is not in the log: %q", log.String())
	}
}
