package graphql

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/operator-catalogs/catalogd/internal/bundle"
	"github.com/operator-catalogs/catalogd/internal/serve/listing"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// committedAt is the time of all commits by the store's clock.
var committedAt = time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)

// openStore opens a store with two catalogs that have a package of the same name.
func openStore(tb testing.TB) *store.Store {
	tb.Helper()
	st := emptyStore(tb, tb.TempDir())
	commit(tb, st, "main", "1", os.DirFS("testdata/main"))
	commit(tb, st, "other", "2", os.DirFS("testdata/other"))
	return st
}

func emptyStore(tb testing.TB, dir string) *store.Store {
	tb.Helper()
	st, err := store.Open(dir, store.Options{Now: func() time.Time { return committedAt }, Logger: slog.New(slog.DiscardHandler)})
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
	stage, err := st.Stage(name, "")
	if err != nil {
		tb.Fatal(err)
	}
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if err := stage.Root().MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		return stage.Root().WriteFile(name, data, 0o644)
	})
	if err != nil {
		tb.Fatal(err)
	}
	source := store.Source{Image: "quay.io/example/" + name + ":v1", Digest: "sha256:" + strings.Repeat(digit, 64)}
	if _, err := stage.Commit(context.Background(), source); err != nil {
		tb.Fatal(err)
	}
}

// config returns the configuration of the tests: catalog "other" has the higher priority.
func config() Config {
	return Config{
		BaseURL: "https://catalogd.example",
		Priority: func(catalog string) int32 {
			if catalog == "other" {
				return 10
			}
			return 0
		},
		Limits:   DefaultLimits(),
		Listings: listing.NewCache(),
		Logger:   slog.New(slog.DiscardHandler),
	}
}

// startServer serves the current content of the store.
func startServer(tb testing.TB, cfg Config, st *store.Store) string {
	tb.Helper()
	return serveAll(tb, New(cfg), st.Catalogs)
}

// openObjects opens the objects of the catalog.
func openObjects(_ string, of bundle.Blob) (*bundle.Archive, error) { return of.Archive() }

func serveAll(tb testing.TB, h *Handler, catalogs func() []store.Catalog) string {
	tb.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		reply := h.Answer(r, catalogs(), openObjects)
		maps.Copy(w.Header(), reply.Header)
		w.WriteHeader(reply.Status)
		_, _ = w.Write(reply.Body)
	}))
	tb.Cleanup(server.Close)
	return server.URL
}

// reply is a response of the server.
type reply struct {
	status int
	header http.Header
	body   string
	Data   json.RawMessage
	Errors []struct {
		Message    string
		Path       []any
		Extensions struct{ Code string }
	}
}

// do sends a request whose response must be JSON.
func do(tb testing.TB, r *http.Request) reply {
	tb.Helper()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	got := reply{status: resp.StatusCode, header: resp.Header, body: string(body)}
	if r.Method != http.MethodHead {
		if err := json.Unmarshal(body, &got); err != nil {
			tb.Fatalf("%s %s: %s: %v\n%s", r.Method, r.URL, resp.Status, err, body)
		}
	}
	return got
}

func request(tb testing.TB, method, url, body string) *http.Request {
	tb.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// post sends a query, with variables as name, value, name, value.
func post(tb testing.TB, url, query string, variables ...any) reply {
	tb.Helper()
	values := map[string]any{}
	for i := 0; i < len(variables); i += 2 {
		values[variables[i].(string)] = variables[i+1]
	}
	body, err := json.Marshal(map[string]any{"query": query, "variables": values})
	if err != nil {
		tb.Fatal(err)
	}
	return do(tb, request(tb, http.MethodPost, url, string(body)))
}

// ask is post for a query that must succeed. It decodes the data as a T.
func ask[T any](tb testing.TB, url, query string, variables ...any) T {
	tb.Helper()
	got := post(tb, url, query, variables...)
	if got.status != http.StatusOK || len(got.Errors) > 0 {
		tb.Fatalf("%s: status %d: %s", query, got.status, got.body)
	}
	var data T
	if err := json.Unmarshal(got.Data, &data); err != nil {
		tb.Fatal(err)
	}
	return data
}

// wantError checks that the reply has one error with a code and texts.
func (r reply) wantError(tb testing.TB, code string, texts ...string) {
	tb.Helper()
	if len(r.Errors) != 1 || r.Errors[0].Extensions.Code != code {
		tb.Fatalf("got %.600s\nwant one error with code %s", r.body, code)
	}
	for _, text := range texts {
		if !strings.Contains(r.Errors[0].Message, text) {
			tb.Errorf("got message %q, want one with %q", r.Errors[0].Message, text)
		}
	}
}
