package serve

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/operator-catalogs/catalogd/internal/store"
)

// readFromRecorder stands in for the server's ResponseWriter, which turns ReadFrom into sendfile.
type readFromRecorder struct {
	*httptest.ResponseRecorder
	from io.Reader
}

func (r *readFromRecorder) ReadFrom(from io.Reader) (int64, error) {
	r.from = from
	return io.Copy(r.Body, from)
}

func TestWholeCatalogReachesSocketAsFile(t *testing.T) {
	st := newTestStore(t)
	compress(t, st)
	for _, encoding := range []string{"identity", "zstd", "gzip"} {
		w := &readFromRecorder{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequest(http.MethodGet, "/catalogs/small/api/v1/all", nil)
		r.Header.Set("Accept-Encoding", encoding)
		newHandler(st).ServeHTTP(w, r)
		limited, ok := w.from.(*io.LimitedReader)
		if !ok {
			t.Fatalf("%s: the response reads from %T, want an *io.LimitedReader", encoding, w.from)
		}
		if _, ok := limited.R.(*os.File); !ok {
			t.Errorf("%s: the response reads from a limited %T, want an *os.File: sendfile takes nothing else", encoding, limited.R)
		}
	}
}

// TestEncodedFormIsMissing sends a request before the store has the encoded forms.
func TestEncodedFormIsMissing(t *testing.T) {
	url := startServer(t, newTestHandler(t)) + "/catalogs/small/api/v1/all"
	for accept, want := range map[string]int{"zstd, gzip": http.StatusOK, "zstd, identity;q=0": http.StatusNotAcceptable} {
		resp, body := do(t, http.MethodGet, url, "", "Accept-Encoding", accept)
		if resp.StatusCode != want || resp.Header.Get("Content-Encoding") != "" || resp.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: status %d, want %d; header %v, body %.100q", accept, resp.StatusCode, want, resp.Header, body)
		}
	}
}

// do sends a request and reads its reply to the end.
func do(tb testing.TB, method, url, body string, headers ...string) (*http.Response, string) {
	tb.Helper()
	resp, data, err := try(tb, method, url, body, headers...)
	if err != nil {
		tb.Fatal(err)
	}
	return resp, data
}

func try(tb testing.TB, method, url, body string, headers ...string) (*http.Response, string, error) {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), method, url, strings.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := plain.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp, string(data), err
}

// TestTruncatedContentFails truncates the file of a catalog while it is served. The incomplete response must not look complete in any
// encoding.
func TestTruncatedContentFails(t *testing.T) {
	dir := t.TempDir()
	st, err := store.Open(dir, store.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	commit(t, st, "cut", "1", fstest.MapFS{"blobs.json": {Data: []byte(
		`{"schema":"a","fill":"` + strings.Repeat("x", 1<<20) + `"}` + "\n" + `{"schema":"a","fill":"` + strings.Repeat("y", 4096) + `"}`)}})
	files, err := filepath.Glob(filepath.Join(dir, "snapshots", "*", "catalog.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	url := startServer(t, newHandler(st)) + "/catalogs/cut/api/v1/metas?schema=a"
	for _, size := range []int64{1 << 19, 0} {
		if err := os.Truncate(files[0], size); err != nil {
			t.Fatal(err)
		}
		for _, encoding := range []string{"identity", "gzip", "zstd"} {
			resp, _, err := try(t, http.MethodGet, url, "", "Accept-Encoding", encoding)
			if err == nil && resp.StatusCode == http.StatusOK {
				t.Errorf("%s, cut to %d bytes: the reply looks whole", encoding, size)
			}
			if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
				t.Errorf("%s, cut to %d bytes: %v", encoding, size, err)
			}
		}
	}
}

// TestDamagedBlobsAreNotServed checks that a known damaged blob is not served, and all others are.
func TestDamagedBlobsAreNotServed(t *testing.T) {
	st, dir := openStoreIn(t)
	commit(t, st, "c", "1", fstest.MapFS{"c.json": {Data: []byte(`{"schema":"a","name":"good"}{"schema":"a","name":"bad"}`)}})
	damage(t, dir, `"bad"`)
	if names, err := st.Scrub(t.Context()); err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	url := startServer(t, newHandler(st)) + "/catalogs/c/api/v1/"
	for path, want := range map[string]int{
		"metas?name=good": http.StatusOK, "metas?name=bad": http.StatusInternalServerError,
		"metas?schema=a": http.StatusInternalServerError, "all": http.StatusInternalServerError,
	} {
		resp, body, err := try(t, http.MethodGet, url+path, "")
		if err != nil || resp.StatusCode != want || want != http.StatusOK && !strings.Contains(body, "damaged") {
			t.Errorf("%s: got %v %q %v, want %d", path, resp.Status, body, err, want)
		}
	}
}

// openStoreIn opens a store in a directory, for tests that damage its files.
func openStoreIn(t *testing.T) (st *store.Store, dir string) {
	t.Helper()
	dir = t.TempDir()
	st, err := store.Open(dir, store.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st, dir
}

// damage flips a bit at the end of a text in the only catalog of an open store.
func damage(t *testing.T, dir, text string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "snapshots", "*", "catalog.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(content, []byte(text))
	if at < 0 {
		t.Fatalf("%s is nowhere", text)
	}
	content[at+len(text)-2] ^= 1
	if err := os.WriteFile(files[0], content, 0o644); err != nil {
		t.Fatal(err)
	}
}
