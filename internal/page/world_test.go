package page

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/operator-catalogs/catalogd/internal/limit"
	"github.com/operator-catalogs/catalogd/internal/serve"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// sampleCatalog is the catalog of `make run`.
const sampleCatalog = "../../config/samples/catalog"

// newPage returns the page over the real API and a store with the catalogs of directories.
func newPage(tb testing.TB, dirs ...string) http.Handler {
	tb.Helper()
	return pageOf(tb, newAPI(tb, dirs...))
}

// pageOf returns the page over an API.
func pageOf(tb testing.TB, api http.Handler) http.Handler {
	return New(Config{
		Source: func(r *http.Request) Source { return Inside(api, r) }, Version: "test", Logger: slog.New(slog.NewTextHandler(tb.Output(), nil)),
	})
}

func newAPI(tb testing.TB, dirs ...string) http.Handler {
	tb.Helper()
	st := openStore(tb)
	for _, dir := range dirs {
		commit(tb, st, filepath.Base(dir), dir)
	}
	return apiOf(st)
}

func openStore(tb testing.TB) *store.Store {
	tb.Helper()
	st, err := store.Open(tb.TempDir(), store.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = st.Close() })
	return st
}

// apiOf returns the API over a store.
func apiOf(st *store.Store) http.Handler {
	return serve.New(serve.Config{
		Catalogs: st,
		Polls:    func(string) (last, next time.Time) { return last, next },
		Priority: func(string) int32 { return 0 },
		Awaited:  func(string) serve.Awaited { return serve.Awaited{} },
		Expected: func() []string { return nil },
		Limits:   limit.New(32),
		BaseURL:  "https://catalogd.example",
		Logger:   slog.New(slog.DiscardHandler),
	})
}

// commit stores a directory as the content of a catalog with a configDir. Its digest is made of the name.
func commit(tb testing.TB, st *store.Store, name, dir string) {
	tb.Helper()
	commitVersion(tb, st, name, store.Source{Digest: digestOf(name), ConfigDir: "/configs"}, dir)
}

func digestOf(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }

func commitVersion(tb testing.TB, st *store.Store, name string, source store.Source, dir string) {
	tb.Helper()
	stage, err := st.Stage(name, "")
	if err != nil {
		tb.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		relative, _ := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return stage.Root().MkdirAll(relative, 0o755)
		case !strings.Contains(".json.yaml.yml", filepath.Ext(path)):
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return stage.Root().WriteFile(relative, content, 0o644)
	})
	if err != nil {
		tb.Fatal(err)
	}
	source.Image = "registry.example/" + name + ":latest"
	if _, err := stage.Commit(context.Background(), source); err != nil {
		tb.Fatal(err)
	}
	if err := stage.Discard(); err != nil {
		tb.Error(err)
	}
}

// TestLook serves the page for manual tests until it is interrupted:
//
//	PAGE_ADDRESS=127.0.0.1:8090 PAGE_CATALOGS=DIR,DIR go test ./internal/page -run TestLook -timeout 0
func TestLook(t *testing.T) {
	address := os.Getenv("PAGE_ADDRESS")
	if address == "" {
		t.Skip("PAGE_ADDRESS is not set")
	}
	dirs := []string{sampleCatalog}
	if more := os.Getenv("PAGE_CATALOGS"); more != "" {
		dirs = append(dirs, strings.Split(more, ",")...)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	server := &http.Server{Handler: newPage(t, dirs...), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	<-ctx.Done()
}
