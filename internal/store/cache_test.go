package store

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

func openCached(t *testing.T, dir string, opts Options) *Store {
	t.Helper()
	opts.Logger = slog.New(slog.DiscardHandler)
	s, err := Open(dir, opts)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func wantCached(t *testing.T, s *Store, want map[string]int) {
	t.Helper()
	got, sum := map[string]int{}, int64(0)
	entries, err := fs.ReadDir(s.volume.FS(), cacheDir)
	must.Succeed(t, err)
	for _, e := range entries {
		b, err := s.volume.ReadFile(cacheDir + "/" + e.Name())
		must.Succeed(t, err)
		got[e.Name()], sum = len(b), sum+int64(len(b))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cached files (-want +got):\n%s", diff)
	}
	if u := s.Cache().Usage(); u.Bytes != sum || u.Files != len(want) {
		t.Errorf("the cache reports %+v, and has %d bytes in %d files", u, sum, len(want))
	}
}

func TestCache(t *testing.T) {
	dir := t.TempDir()
	s := openCached(t, dir, Options{CacheBytes: 1000})
	put := func(key string, n int) { t.Helper(); must.Succeed(t, cacheFile(key, n)(s, nil)) }
	use := func(key string) {
		t.Helper()
		f, err := s.Cache().Open(key)
		must.Succeed(t, err)
		must.Succeed(t, f.Close())
	}
	if _, err := s.Cache().Open("a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: got error %v", err)
	}
	put("a", 400)
	put("b", 400)
	use("a")
	put("c", 400)
	wantCached(t, s, map[string]int{"a": 400, "c": 400})
	if !s.Cache().Fits(200) || s.Cache().Fits(201) {
		t.Error("200 bytes should fit, and 201 not")
	}
	put("c", 600)
	wantCached(t, s, map[string]int{"a": 400, "c": 600})
	if err := cacheFile("d", 1001)(s, nil); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a file over the limit: got error %v", err)
	}
	if err := s.Cache().Put("d", 100, func(w io.Writer) error {
		_, err := w.Write(make([]byte, 101))
		return err
	}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a file that is larger than announced: got error %v", err)
	}
	failed := errors.New("failed")
	if err := s.Cache().Put("d", 100, func(w io.Writer) error {
		_, _ = io.WriteString(w, "part")
		return failed
	}); !errors.Is(err, failed) {
		t.Errorf("got error %v, want %v", err, failed)
	}
	wantCached(t, s, map[string]int{"a": 400, "c": 600})
	must.Succeed(t, s.Cache().Remove("c"))
	must.Succeed(t, s.Cache().Remove("missing"))
	put("e", 500)
	if got := s.Cache().Usage().Evicted; got != 1 {
		t.Errorf("got %d evicted files, want 1", got)
	}

	must.Succeed(t, os.Chtimes(filepath.Join(dir, cacheDir, "a"), time.Now(), time.Now().Add(time.Hour))) // the newest
	must.Succeed(t, s.Close())
	s = openCached(t, dir, Options{CacheBytes: 450})
	wantCached(t, s, map[string]int{"a": 400})
	must.Succeed(t, s.Close())
	wantCached(t, openCached(t, dir, Options{}), map[string]int{})
}

// The cache gives way to snapshots, and evicts its own files before it reports that the volume is full.
func TestCacheGivesWay(t *testing.T) {
	dir := t.TempDir()
	s := openCached(t, dir, Options{})
	commit(t, s, "cat", 1, one())
	used, err := s.Usage()
	must.Succeed(t, err)
	must.Succeed(t, s.Close())

	limit := used.Used + 1000
	s = openCached(t, dir, Options{CacheBytes: 5000, Limit: limit})
	must.Succeed(t, cacheFile("a", 600)(s, nil))
	must.Succeed(t, cacheFile("b", 300)(s, nil))
	must.Succeed(t, cacheFile("c", 600)(s, nil))
	wantCached(t, s, map[string]int{"b": 300, "c": 600})
	if err := cacheFile("d", 1100)(s, nil); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "--storage-limit") {
		t.Errorf("a file that does not fit: got error %v", err)
	}
	must.Succeed(t, cacheFile("e", 900)(s, nil))
	if _, err := s.Stage("cat", source(1).Image); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("a stage beside a full cache: got error %v", err)
	}
	must.Succeed(t, s.Reclaim())
	wantCached(t, s, map[string]int{})
	if _, ok := s.Catalog("cat"); !ok {
		t.Error("the catalog is gone")
	}
	st, err := s.Stage("cat", source(1).Image)
	must.Succeed(t, err)
	must.Succeed(t, st.Discard())
}
