package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
)

// compressNow writes the missing forms and returns the log.
func compressNow(t *testing.T, s *Store, logged map[string]bool) (map[string]bool, string) {
	t.Helper()
	var log bytes.Buffer
	old := s.compressor.log
	s.compressor.log = slog.New(slog.NewTextHandler(&log, nil))
	defer func() { s.compressor.log = old }()
	return s.compressor.compressAll(t.Context(), s.Changed(), logged), log.String()
}

// decoded reads a form with the decoder of its name.
func decoded(t *testing.T, snap *Snapshot, e Encoding) string {
	t.Helper()
	f, err := snap.OpenEncoded(e)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r io.Reader
	if e == Gzip {
		r, err = gzip.NewReader(f)
	} else {
		var d *zstd.Decoder
		d, err = zstd.NewReader(f, zstd.WithDecoderMaxWindow(8<<20)) // RFC 9659, section 3: what a client has to take
		if err == nil {
			defer d.Close()
		}
		r = d
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func hasForms(snap *Snapshot) (has int) {
	for _, e := range []Encoding{Zstd, Gzip} {
		if f, err := snap.OpenEncoded(e); err == nil {
			_ = f.Close() // read only
			has++
		}
	}
	return has
}

// wantForms checks both forms of what a catalog serves.
func wantForms(t *testing.T, s *Store, name string) {
	t.Helper()
	c, ok := s.Catalog(name)
	if !ok {
		t.Fatalf("%s is not served", name)
	}
	for _, e := range []Encoding{Zstd, Gzip} {
		if got, want := decoded(t, c.Snapshot, e), text(t, c.Snapshot); got != want {
			t.Errorf("%s as %s has %d bytes when decoded, want %d", name, e, len(got), len(want))
		}
	}
}

func TestCompress(t *testing.T) {
	v, c := testVolume{t, t.TempDir()}, newClock()
	s := open(t, v.dir, c)
	commit(t, s, "empty", 1, files{".indexignore": ""})
	commit(t, s, "small", 2, filesOf(t, smallCatalog))
	// more than the window
	commit(t, s, "large", 3, files{"c.json": strings.Repeat(`{"schema":"example.com","text":"`+strings.Repeat("x", 1000)+`"}`, 10_000)})
	small, _ := s.Catalog("small")
	for _, e := range []Encoding{Zstd, Gzip, "br", ""} {
		if _, err := small.Snapshot.OpenEncoded(e); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: got error %v before the form is made", e, err)
		}
	}
	for range 2 { // before and after a restart
		if _, log := compressNow(t, s, nil); log != "" {
			t.Errorf("logged: %s", log)
		}
		for _, name := range []string{"empty", "small", "large"} {
			wantForms(t, s, name)
		}
		wantNames(t, v.path("stage"))
		s = reopen(t, s, v.dir, c)
	}
	before := tree(t, v.path("snapshots"))
	compressNow(t, s, nil)
	if after := tree(t, v.path("snapshots")); strings.Join(before, "\n") != strings.Join(after, "\n") {
		t.Errorf("forms that exist are made again:\n%s\n%s", before, after)
	}
}

// Compress follows the served catalogs until its context ends.
func TestCompressFollowsTheCatalogs(t *testing.T) {
	v := testVolume{t, t.TempDir()}
	s := open(t, v.dir, newClock())
	commit(t, s, "cat", 1, blobs("one"))
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		if err := s.Compress(ctx); err != nil {
			t.Error(err)
		}
	})
	for n := 1; n <= 20; n++ {
		snap := commit(t, s, "cat", n, blobs(fmt.Sprint(n)))
		if n%5 == 0 { // the others are replaced as soon as they are there
			eventually.Holds(t, "the forms of the new content", func() bool { return hasForms(snap) == 2 })
			wantForms(t, s, "cat")
		}
	}
	current, _ := s.Catalog("cat")
	v.flip(-6, "snapshots", current.Snapshot.Key(), catalogFile+".zst")
	damaged, err := s.Scrub(t.Context())
	if err != nil || len(damaged) > 0 {
		t.Errorf("got %q %v: the catalog itself is intact", damaged, err)
	}
	eventually.Holds(t, "another form in the place of the damaged one", func() bool { return hasForms(current.Snapshot) == 2 })
	wantForms(t, s, "cat")
	cancel()
	done.Wait()
	wantNames(t, v.path("stage"))
}

func TestScrubOfForms(t *testing.T) {
	long := strings.Repeat("long ", 10_000)
	for name, harm := range map[string]func(string) string{
		"a bit":           func(s string) string { return s[:len(s)/2] + string([]byte{s[len(s)/2] ^ 1}) + s[len(s)/2+1:] },
		"cut off":         func(s string) string { return s[:len(s)-1] },
		"empty":           func(string) string { return "" },
		"garbage":         func(string) string { return "garbage" },
		"garbage behind":  func(s string) string { return s + "garbage" },
		"content, twice":  func(s string) string { return s + s },
		"of another text": func(string) string { return "" }, // below
	} {
		for _, c := range codecs() {
			t.Run(name+", "+string(c.encoding), func(t *testing.T) {
				v := testVolume{t, t.TempDir()}
				s := open(t, v.dir, newClock())
				commit(t, s, "cat", 1, blobs(long))
				commit(t, s, "other", 2, blobs("other"))
				compressNow(t, s, nil)
				form := []string{"snapshots", key, catalogFile + c.suffix}
				harmed := harm(v.read(form...))
				if name == "of another text" {
					harmed = v.read("snapshots", source(2).Key(), catalogFile+c.suffix)
				}
				v.write(harmed, form...)
				if names, err := s.Scrub(t.Context()); err != nil || len(names) > 0 {
					t.Errorf("got %q %v: the catalogs are intact", names, err)
				}
				cat, _ := s.Catalog("cat")
				if _, err := cat.Snapshot.OpenEncoded(c.encoding); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("the damaged form is still there: %v", err)
				}
				if hasForms(cat.Snapshot) != 1 {
					t.Error("the intact form is missing")
				}
				wantForms(t, s, "other")
				compressNow(t, s, nil)
				wantForms(t, s, "cat")
			})
		}
	}
}

// A crash leaves a complete form or none. The next start writes the missing ones.
func TestCrashWhileCompressing(t *testing.T) {
	for name, c := range map[string]struct {
		crash func(v testVolume)
		forms int
	}{
		"before": {func(v testVolume) { v.removeForms(".zst", ".gz") }, 0},
		"while the first is written": {func(v testVolume) {
			v.move("snapshots/"+key+"/catalog.jsonl.zst", "stage/catalog.jsonl.zst")
			v.removeForms(".gz")
		}, 0},
		"when half of it is written": {func(v testVolume) {
			v.removeForms(".zst", ".gz")
			v.write("\x28\xb5",
				"stage", "catalog.jsonl.zst")
		}, 0},
		"between the two":             {func(v testVolume) { v.removeForms(".gz") }, 1},
		"while the second is written": {func(v testVolume) { v.move("snapshots/"+key+"/catalog.jsonl.gz", "stage/catalog.jsonl.gz") }, 1},
		"after the second is renamed": {func(testVolume) {}, 2},
		"while both are in the grave": {func(v testVolume) { v.copy("snapshots/"+key, "stage/deleted-"+key) }, 2},
		"with a snapshot half in it":  {func(v testVolume) { v.copy("snapshots/"+key, "stage/1/snapshot"); v.removeForms(".zst") }, 1},
		"a damaged one stepped aside": {func(v testVolume) { v.move("snapshots/"+key, "snapshots/"+key+".damaged") }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			v, clock := testVolume{t, t.TempDir()}, newClock()
			s := open(t, v.dir, clock)
			commit(t, s, "cat", 1, blobs("one"))
			compressNow(t, s, nil)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			c.crash(v)
			s = open(t, v.dir, clock)
			wantNames(t, v.path("stage"))
			if got := hasForms(serves(t, s, "cat", "one").Snapshot); got != c.forms {
				t.Errorf("%d forms are there after the start, want %d", got, c.forms)
			}
			commit(t, s, "cat", 1, blobs("one"))
			compressNow(t, s, nil)
			wantForms(t, s, "cat")
			wantNames(t, v.path("snapshots"), key)
			wantNames(t, v.path("snapshots", key), "catalog.jsonl", "catalog.jsonl.gz", "catalog.jsonl.zst", "index", "packages", "snapshot.json")
		})
	}
}

func (v testVolume) removeForms(suffixes ...string) {
	v.t.Helper()
	for _, suffix := range suffixes {
		v.remove("snapshots", key, catalogFile+suffix)
	}
}

// The deletion of a snapshot during its compression is no error and leaves nothing.
func TestCompressOfADeletedSnapshot(t *testing.T) {
	v := testVolume{t, t.TempDir()}
	s := open(t, v.dir, newClock())
	snap := commit(t, s, "cat", 1, blobs("one"))
	compressNow(t, s, nil)
	f, err := snap.OpenEncoded(Zstd)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := s.Remove("cat"); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(f); err != nil || len(b) == 0 {
		t.Errorf("who had opened the form got %d bytes, %v", len(b), err)
	}
	for _, c := range codecs() {
		if err := s.compressor.compress(t.Context(), snap, c); err != nil {
			t.Errorf("%s: %v", c.encoding, err)
		}
		if _, err := snap.OpenEncoded(c.encoding); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of a deleted snapshot: got error %v", c.encoding, err)
		}
	}
	wantNames(t, v.path("stage"))
	wantNames(t, v.path("snapshots"))
}

// Damaged content is not compressed.
func TestDamagedContentIsNotCompressed(t *testing.T) {
	v := testVolume{t, t.TempDir()}
	s := open(t, v.dir, newClock())
	snap := commit(t, s, "cat", 1, blobs("one"))
	v.flip(20, "snapshots", key, catalogFile)
	logged, log := compressNow(t, s, nil)
	if strings.Count(log, "\n") != 1 || !strings.Contains(log, "catalog=cat") ||
		!strings.Contains(log, "blob 0 of 1 does not match its hash") {
		t.Errorf("logged %q, want one line with the cause", log)
	}
	if logged, log = compressNow(t, s, logged); log != "" || len(logged) != 1 {
		t.Errorf("logged again: %q", log)
	}
	if hasForms(snap) != 0 {
		t.Error("there is a form of damaged content")
	}
	wantNames(t, v.path("stage"))
	commit(t, s, "cat", 2, blobs("two"))
	if logged, _ = compressNow(t, s, logged); len(logged) != 0 {
		t.Errorf("%v is kept of what is served no longer", logged)
	}
	wantForms(t, s, "cat")
}

// Compress ends in the middle of a catalog.
func TestCompressEndsWithItsContext(t *testing.T) {
	v := testVolume{t, t.TempDir()}
	s := open(t, v.dir, newClock())
	snap := commit(t, s, "cat", 1, files{"c.json": strings.Repeat(blobs(strings.Repeat("long ", 100_000))["c.json"], 10)})
	for _, c := range codecs() {
		ctx, cancel := context.WithCancel(t.Context())
		out := &cancelAfter{cancel: cancel, reads: 3}
		if err := snap.encode(out.ctx(ctx), io.Discard, c); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got error %v, want that of the context", c.encoding, err)
		}
		if err := s.compressor.compress(ctx, snap, c); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got error %v, want that of the context", c.encoding, err)
		}
		if err := s.compressor.scrub(ctx, snap); err != nil {
			t.Errorf("%s: nothing to scrub, yet %v", c.encoding, err)
		}
	}
	wantNames(t, v.path("stage"))
	if hasForms(snap) != 0 {
		t.Error("there is half a form")
	}
}

// cancelAfter cancels a context at a number of calls of Err, in the middle of a copy.
type cancelAfter struct {
	context.Context
	cancel context.CancelFunc
	reads  int
}

func (c *cancelAfter) ctx(ctx context.Context) context.Context {
	c.Context = ctx
	return c
}

func (c *cancelAfter) Err() error {
	if c.reads--; c.reads == 0 {
		c.cancel()
	}
	return c.Context.Err()
}

// BenchmarkCompress writes and verifies both forms of a catalog of 1000 bundles.
func BenchmarkCompress(b *testing.B) {
	s := open(b, b.TempDir(), newClock())
	one, err := os.ReadFile(smallCatalog + "/syndesis/package.json")
	if err != nil {
		b.Fatal(err)
	}
	snap := commit(b, s, "cat", 1, files{"c.json": strings.Repeat(string(one), 50)})
	for _, c := range codecs() {
		b.Run(string(c.encoding), func(b *testing.B) {
			b.SetBytes(snap.Info().Bytes)
			for b.Loop() {
				if err := snap.encode(b.Context(), io.Discard, c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The compressor waits at each write while others have urgent work, in a stage or not, and no longer.
func TestCompressYieldsToUrgentWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{compressor: &compressor{}}
		var out strings.Builder
		w := s.compressor.polite(t.Context(), &out)
		waited := func() time.Duration {
			began := time.Now()
			if _, err := io.WriteString(w, "x"); err != nil {
				t.Fatal(err)
			}
			return time.Since(began)
		}
		one, two := s.Prioritize(), s.Prioritize()
		one()
		if got := waited(); got == 0 {
			t.Error("it does not wait for urgent work")
		}
		two()
		if got := waited(); got != 0 || out.String() != "xx" {
			t.Errorf("it waits %s for nothing, and has written %q", got, &out)
		}
	})
}
