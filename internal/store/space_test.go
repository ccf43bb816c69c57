package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// limited returns an option.
func limited(limit int64) func(*Options) { return func(o *Options) { o.Limit = limit } }

func usage(t *testing.T, s *Store) Usage {
	t.Helper()
	u, err := s.Usage()
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestUsage(t *testing.T) {
	v := testVolume{t, t.TempDir()}
	s := open(t, v.dir, newClock(), limited(1<<20))
	before := usage(t, s)
	snap := commit(t, s, "cat", 1, blobs("one"))
	want := int64(0)
	for _, text := range v.contents() {
		want += int64(len(text))
	}
	u := usage(t, s)
	if u.Used != want || u.Limit != 1<<20 || u.Free != u.Limit-want || u.Used < before.Used+snap.Info().Bytes {
		t.Errorf("got %+v, want %d used; before it was %+v", u, want, before)
	}
	if err := os.WriteFile(v.path("stage", "large"), make([]byte, 1<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	if u := usage(t, s); u.Free != 0 || u.Used != want+1<<20 {
		t.Errorf("got %+v, want nothing free", u)
	}
	s = reopen(t, s, v.dir, newClock()) // which empties the stage
	if u := usage(t, s); u.Limit != 0 || u.Used != want || u.Free < 1 {
		t.Errorf("without a limit: got %+v", u)
	}
}

// Files appear and vanish while the store is measured.
func TestUsageWhileFilesVanish(t *testing.T) {
	v := testVolume{t, t.TempDir()}
	s := open(t, v.dir, newClock())
	commit(t, s, "cat", 1, blobs("one"))
	least := usage(t, s).Used
	ctx, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	for i := range 2 {
		others.Go(func() {
			for dir := v.path("stage", fmt.Sprint("x", i)); ctx.Err() == nil; {
				for n := range 20 {
					sub := filepath.Join(dir, fmt.Sprint(n))
					_ = os.MkdirAll(sub, 0o755) // it is only there to vanish
					_ = os.WriteFile(filepath.Join(sub, "file"), []byte("x"), 0o644)
				}
				_ = os.RemoveAll(dir)
			}
		})
	}
	for range 300 {
		if u := usage(t, s); u.Used < least || u.Used > least+40 {
			t.Errorf("got %d bytes, want %d to %d", u.Used, least, least+40)
		}
	}
	cancel()
	others.Wait()
}

// Content that does not fit is refused before anything is written, with a helpful message. The served content stays,
// and there is room once another catalog is removed.
func TestLimit(t *testing.T) {
	long := strings.Repeat("long ", 2000)
	v := testVolume{t, t.TempDir()}
	s := open(t, v.dir, newClock())
	snap := commit(t, s, "cat", 1, blobs(long))
	commit(t, s, "other", 2, blobs(long+"other"))
	limit := usage(t, s).Used + snap.Info().Bytes // half of what it takes to unpack the one again
	s = reopen(t, s, v.dir, newClock(), limited(limit))
	before := tree(t, v.dir)
	for range 2 {
		_, err := s.Stage("cat", source(1).Image)
		var full *noRoomError
		if !errors.As(err, &full) || full.need != 2*snap.Info().Bytes || full.usage.Limit != limit || !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("got error %v", err)
		}
		for _, word := range []string{"--storage-limit", fmt.Sprint(limit), fmt.Sprint(full.need), fmt.Sprint(full.usage.Free)} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("the error %q does not say %q", err, word)
			}
		}
	}
	if diff := cmp.Diff(before, tree(t, v.dir)); diff != "" {
		t.Errorf("it was written, -before +after:\n%s", diff)
	}
	serves(t, s, "cat", long)
	serves(t, s, "other", long+"other")

	st, err := s.Stage("new", source(1).Image) // the size of new content is unknown
	if err != nil {
		t.Fatal(err)
	}
	if got, most := st.Room(), snap.Info().Bytes/2; got < 1 || got > most {
		t.Errorf("there is room for %d bytes, want up to %d", got, most)
	}
	want := fmt.Sprintf("more than %d bytes are needed; %d of the limit of %d are free (--storage-limit)", 2*st.Room(), st.usage.Free, limit)
	if err := st.NoRoom(); !errors.Is(err, syscall.ENOSPC) || err.Error() != want {
		t.Errorf("got error %v", err)
	}
	if err := st.Discard(); err != nil {
		t.Fatal(err)
	}

	if err := s.Remove("other"); err != nil {
		t.Fatal(err)
	}
	commit(t, s, "cat", 3, blobs(long+"new"))
	serves(t, s, "cat", long+"new")
	if _, err := s.Stage("cat", source(1).Image); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got error %v, want the earlier snapshot to take the room", err)
	}
	if err := s.Reclaim(); err != nil {
		t.Fatal(err)
	}
	commit(t, s, "cat", 4, blobs(long+"newer"))
	if u := usage(t, s); u.Used > limit {
		t.Errorf("it takes %d bytes of %d", u.Used, limit)
	}
}

// Compressed forms stay within the limit, too. Without room the catalog is served uncompressed.
func TestCompressedFormsStayWithinLimit(t *testing.T) {
	v := testVolume{t, t.TempDir()}
	s := open(t, v.dir, newClock())
	snap := commit(t, s, "cat", 1, blobs("one"))
	s = reopen(t, s, v.dir, newClock(), limited(usage(t, s).Used+10))
	_, log := compressNow(t, s, nil)
	if strings.Count(log, "\n") != 1 || !strings.Contains(log, "--storage-limit") {
		t.Errorf("logged %q, want one line with the cause", log)
	}
	wantNames(t, v.path("stage"))
	wantNames(t, v.path("snapshots", snap.Key()), "catalog.jsonl", "index", "packages", "snapshot.json")
	s = reopen(t, s, v.dir, newClock())
	compressNow(t, s, nil)
	wantForms(t, s, "cat")
}

// The expanded content of files stays within the limit, too.
func TestExpandedContentStaysWithinLimit(t *testing.T) {
	s := open(t, t.TempDir(), newClock(), limited(1<<20))
	bomb := "schema: a\nx: &x \"" + strings.Repeat("x", 10_000) + "\"\ny: [" + strings.Repeat("*x, ", 90) + "*x]\n"
	_, err := tryCommit(t, s, "cat", source(1), files{"a.yaml": bomb})
	var full *noRoomError
	if !errors.As(err, &full) {
		t.Errorf("got error %v", err)
	}
	if u := usage(t, s); u.Used > u.Limit/2 {
		t.Errorf("it takes %+v", u)
	}
}

// The limits of the index apply while files are read, not only at the end.
func TestIndexLimitsApplyWhileReading(t *testing.T) {
	for name, fill := range map[string]func(in *intake){
		"blobs": func(in *intake) { in.total.blobs = maxBlobs },
		"facts": func(in *intake) { in.total.facts = maxFacts },
		"keys":  func(in *intake) { in.keys.size = maxKeyBytes },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir(), newClock())
			st, err := s.Stage("cat", "")
			if err != nil {
				t.Fatal(err)
			}
			fill(st.intake) // nothing is read yet
			if err := st.Root().WriteFile("c.json", []byte(validFoo), 0o644); err != nil {
				t.Fatal(err)
			}
			st.Add("c.json")
			var where *scan.Error
			if _, err := st.Commit(t.Context(), source(1)); !errors.As(err, &where) || where.Path != "c.json" ||
				!strings.Contains(err.Error(), "exceeds the limit of") {
				t.Errorf("got error %v", err)
			}
			if err := st.Discard(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A file that is added again, replaced or not, counts once.
func TestLimitsCountFilesOnce(t *testing.T) {
	s := open(t, t.TempDir(), newClock())
	commit(t, s, "cat", 1, files{"a.json": validFoo, "b.json": invalidBar})
	st := stage(t, s, "cat", files{"a.json": validFoo, "b.json": invalidBar, "c.json": validFoo + invalidBar})
	for range 3 {
		st.Add("a.json")
		st.Add("c.json")
	}
	must.Succeed(t, st.files.WriteFile("d.json", []byte(validFoo), 0o644)) // not added
	must.Succeed(t, st.write(t.Context(), source(2)))
	if st.intake.total.blobs != 3+1+4+3 || st.intake.total.facts != 3 {
		t.Errorf("there are %d blobs and %d facts", st.intake.total.blobs, st.intake.total.facts)
	}
	must.Succeed(t, st.Discard())
}

// The size of the served content is no estimate for another image.
func TestLimitIgnoresSizeOfAnotherImage(t *testing.T) {
	s := open(t, t.TempDir(), newClock())
	commit(t, s, "cat", 1, blobs(strings.Repeat("long ", 2000)))
	s.space.limit = usage(t, s).Used + 5000
	if _, err := s.Stage("cat", source(1).Image); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the same image: got error %v", err)
	}
	st, err := s.Stage("cat", "example.com/smaller")
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Discard(); err != nil {
		t.Fatal(err)
	}
}
