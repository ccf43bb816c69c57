package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/operator-catalogs/catalogd/internal/subset"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

type call = func(*Store, *clock) error

// put returns a call that commits files. After an error the next start deletes what Discard leaves.
func put(name string, n int, in files) call {
	return func(s *Store, _ *clock) error {
		st, err := s.Stage(name, source(1).Image)
		if err != nil {
			return err
		}
		defer func() { _ = st.Discard() }()
		for _, file := range slices.Backward(slices.Sorted(maps.Keys(in))) { // not in the order of the catalog
			if err := st.Root().MkdirAll(path.Dir(file), 0o755); err != nil {
				return err
			}
			if err := st.Root().WriteFile(file, []byte(in[file]), 0o644); err != nil {
				return err
			}
			st.Add(file)
		}
		_, err = st.Commit(context.Background(), source(n))
		return err
	}
}

// restore returns a call that commits what the store has of an image.
func restore(name string, n int) call {
	return func(s *Store, _ *clock) error {
		st, err := s.Stage(name, source(1).Image)
		if err != nil {
			return err
		}
		defer func() { _ = st.Discard() }()
		if err := st.Restore(context.Background(), source(n)); err != nil {
			return err
		}
		_, err = st.Commit(context.Background(), source(n))
		return err
	}
}

// refused returns a call whose filter leaves nothing.
func refused(commit call) call {
	return func(s *Store, c *clock) error {
		err := commit(s, c)
		if fault, ok := errors.AsType[*subset.Error](err); ok && err.Error() == fault.Error() {
			return nil
		}
		return cmp.Or(err, errors.New("the filter leaves something"))
	}
}

// point returns a call that points a catalog to a stored snapshot.
func pointTo(name string, n int) call {
	return func(s *Store, _ *clock) error {
		snap, ok := s.Snapshot(source(n).Key())
		if !ok {
			return fmt.Errorf("there is no snapshot of source %d", n)
		}
		return s.point(name, Source{Image: source(n).Image}, snap)
	}
}

// serveStored returns a call that makes a catalog serve a stored, validated snapshot.
func serveStored(name string, n int) call {
	return func(s *Store, _ *clock) error {
		snap, ok := s.Snapshot(source(n).Key())
		if !ok {
			return fmt.Errorf("there is no snapshot of source %d", n)
		}
		return s.Serve(context.Background(), name, source(n), snap)
	}
}

func remove(name string) call {
	return func(s *Store, _ *clock) error { return s.Remove(name) }
}

// sweepAll returns a call that sweeps after the grace period: always an hour after the clock began.
func sweepAll(s *Store, c *clock) error {
	err := s.Sweep()
	c.advance(newClock().Now().Add(time.Hour).Sub(c.Now()))
	return errors.Join(err, s.Sweep())
}

func reclaim(s *Store, _ *clock) error { return s.Reclaim() }

func compressBoth(s *Store, _ *clock) error { return compressAll(context.Background(), s) }

// derive writes a file beside each snapshot.
func derive(s *Store, _ *clock) error {
	var errs []error
	for _, c := range s.Catalogs() {
		errs = append(errs, s.Derive(c.Snapshot, OLMv0File, func(w io.Writer) error {
			_, err := io.WriteString(w, "of "+c.Snapshot.Key())
			return err
		}))
	}
	return errors.Join(errs...)
}

// cacheFile returns a call that caches a file of n bytes, which repeat the first letter of the key.
func cacheFile(key string, n int) call {
	return func(s *Store, _ *clock) error {
		return s.Cache().Put(key, int64(n), func(w io.Writer) error {
			_, err := io.WriteString(w, strings.Repeat(key[:1], n))
			return err
		})
	}
}

// scratch returns a call that works in a scratch directory.
func scratch(s *Store, _ *clock) error {
	root, discard, err := s.Cache().Scratch()
	if err != nil {
		return err
	}
	return errors.Join(root.WriteFile("x", []byte("x"), 0o644), discard())
}

func uncache(key string) call {
	return func(s *Store, _ *clock) error { return s.Cache().Remove(key) }
}

// checkCache checks that each file of the cache is whole and known, and within the limit unless the volume cannot be written.
func checkCache(s *Store, writable bool) error {
	entries, err := fs.ReadDir(s.volume.FS(), cacheDir)
	if err != nil {
		return ignoreMissing(err)
	}
	sum, errs := int64(0), []error{}
	for _, e := range entries {
		f, err := s.Cache().Open(e.Name())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		b, err := io.ReadAll(f)
		sum += int64(len(b))
		if err != nil || len(b)%100 != 0 || len(b) == 0 || strings.Trim(string(b), e.Name()[:1]) != "" {
			errs = append(errs, errors.Join(err, fmt.Errorf("the cached %s has %d bytes", e.Name(), len(b))))
		}
		errs = append(errs, f.Close())
	}
	if u := s.Cache().Usage(); (writable && sum > u.Limit) || u.Bytes != sum {
		errs = append(errs, fmt.Errorf("the cache has %d bytes, and reports %+v", sum, u))
	}
	return errors.Join(errs...)
}

func validateAll(s *Store, _ *clock) error {
	var errs []error
	for _, c := range s.Catalogs() {
		errs = append(errs, s.Serve(context.Background(), c.Name, Source{Image: c.Image, Endpoint: c.Endpoint}, c.Snapshot))
	}
	return errors.Join(errs...)
}

// scrub returns a call that fails while a file that can be rebuilt is damaged.
func scrub(s *Store, _ *clock) error {
	if _, err := s.Scrub(context.Background()); err != nil {
		return err
	}
	var errs []error
	for _, c := range s.Catalogs() {
		if p := c.Snapshot.validation.Load(); p != nil {
			errs = append(errs, p.verify())
		}
	}
	entries, _ := fs.ReadDir(s.volume.FS(), wholeDir)
	for _, e := range entries {
		errs = append(errs, s.wholes.verify(context.Background(), e.Name()))
	}
	return errors.Join(errs...)
}

// mend is scrub that also fails while any other file that needs no unpack is damaged.
func mend(s *Store, c *clock) error {
	err := scrub(s, c)
	for _, c := range s.Catalogs() {
		snap := c.Snapshot
		err = errors.Join(err, snap.Check())
		for name, want := range map[string][]byte{indexFile: snap.index.data, snapshotFile: snap.index.info} {
			if !s.volume.endsWith(path.Join(snap.dir, name), want, int64(len(want))) {
				err = errors.Join(err, fmt.Errorf("%s of %s is damaged", name, c.Name))
			}
		}
	}
	return err
}

// both returns one call of two.
func both(a, b call) call {
	return func(s *Store, c *clock) error {
		if err := a(s, c); err != nil {
			return err
		}
		return b(s, c)
	}
}

// made makes calls, all of which must succeed.
func made(calls ...call) func(*testing.T, *Store) {
	return func(t *testing.T, s *Store) {
		c := newClock()
		for _, call := range calls {
			must.Succeed(t, call(s, c))
		}
	}
}

// Stored catalogs. Two of them share a file.
func one() files { return files{"foo.json": validFoo, "x/bar.json": invalidBar} }

func two() files {
	return files{"foo.json": validFoo, "x/bar.json": invalidBar + `{"schema":"example.com","package":"bar","name":"text","text":"two"}`}
}

func single() files { return files{"c.json": validFoo} }

// big is larger than a write, so that writes overlap with reads.
func big(text string) files {
	out := files{"z.json": validFoo, "a.json": invalidBar}
	for i := range 2 {
		out[fmt.Sprintf("m%d.json", i)] = fmt.Sprintf(`{"schema":"example.com","name":"m%d","text":%q}`, i, strings.Repeat(text, 600_000))
	}
	return out
}

func flipped(elem ...string) func(*testing.T, harmed) {
	return func(_ *testing.T, d harmed) { d.flip(elem...) }
}

func missing(elem ...string) func(*testing.T, harmed) {
	return func(_ *testing.T, d harmed) { d.remove(elem...) }
}

// ofEarlierRelease makes a file packages one of an earlier release.
func ofEarlierRelease(elem ...string) func(*testing.T, harmed) {
	return func(t *testing.T, d harmed) {
		v := testVolume{t, d.dir}
		v.write(strings.TrimSuffix(v.read(elem...), packagesMagic)+"fbcpacks", elem...)
	}
}

func scenarios() map[string]scenario {
	first := source(1).Key()
	return map[string]scenario{
		"open a fresh directory":             {},
		"first commit, of a fresh directory": {work: []call{put("cat", 1, single())}, serves: map[string]int{"cat": 1}},
		"first commit":                       {before: made(), work: []call{put("cat", 1, one())}, serves: map[string]int{"cat": 1}},
		"commit of an empty catalog": {before: made(),
			work: []call{put("cat", 1, files{".indexignore": ""})}, serves: map[string]int{"cat": 1}},
		"commit of changed content": {before: made(put("cat", 1, one()),
			put("other", 3, single())), work: []call{put("cat", 2, two())}, serves: map[string]int{"cat": 2, "other": 3}},
		"commit of what another catalog serves": {before: made(put("cat", 1, one()), put("other", 2, two())),
			work: []call{put("cat", 2, two())}, serves: map[string]int{"cat": 2, "other": 2}},
		"commit of what was served before": {before: made(put("cat", 2, two()), put("cat", 1, one())),
			work: []call{put("cat", 2, two())}, serves: map[string]int{"cat": 2}},
		"commit over a damaged snapshot": {before: made(put("cat", 1, one())),
			harm: flipped(snapshotsDir, first, catalogFile), work: []call{both(scrub, put("cat", 1, one()))}, serves: map[string]int{"cat": 1}},
		"commit over a snapshot that cannot be opened": {before: made(put("cat", 1, one())),
			harm: flipped(snapshotsDir, first, indexFile), work: []call{put("cat", 1, one())}, serves: map[string]int{"cat": 1}},
		"point to a stored snapshot": {before: made(put("cat", 1, one()), put("other", 2, two())),
			work: []call{pointTo("cat", 2)}, serves: map[string]int{"cat": 2, "other": 2}},
		"point there and back": {before: made(put("cat", 1, one()), put("other", 2, two())),
			work: []call{pointTo("cat", 2), pointTo("cat", 1)}, serves: map[string]int{"cat": 1, "other": 2}},
		"remove": {before: made(put("cat", 1, one()), put("other", 2, two())),
			work: []call{remove("cat")}, serves: map[string]int{"other": 2}},
		"remove one of two with the same content": {before: made(put("cat", 1, one()), put("other", 1, one())),
			work: []call{remove("cat")}, serves: map[string]int{"other": 1}},
		"sweep": {before: made(put("cat", 1, one()), put("cat", 2, two())),
			work: []call{sweepAll}, serves: map[string]int{"cat": 2}},
		"reclaim": {before: made(put("cat", 1, one()), put("cat", 2, two())),
			work: []call{reclaim}, serves: map[string]int{"cat": 2}},
		"compress": {before: made(put("cat", 1, one())), work: []call{compressBoth},
			serves: map[string]int{"cat": 1}, forms: true},
		"drop a damaged form": {before: made(put("cat", 1, one()), compressBoth),
			harm: flipped(snapshotsDir, first, catalogFile+".gz"), work: []call{scrub, compressBoth}, serves: map[string]int{"cat": 1}, forms: true},
		"derive": {before: made(put("cat", 1, one())), work: []call{derive}, serves: map[string]int{"cat": 1}},
		"derive again, sweep": {before: made(put("cat", 1, one()), derive, put("cat", 2, two())),
			work: []call{derive, sweepAll, derive}, serves: map[string]int{"cat": 2}},
		"cache": {before: made(put("cat", 1, one()), cacheFile("a", 400), cacheFile("b", 400)),
			work: []call{cacheFile("c", 300), cacheFile("b", 200), uncache("c"), scratch}, serves: map[string]int{"cat": 1}},
		"cache, sweep, reclaim": {before: made(put("cat", 1, one()), cacheFile("a", 900)),
			work: []call{cacheFile("b", 1000), sweepAll, put("cat", 2, two()), reclaim, cacheFile("c", 100)}, serves: map[string]int{"cat": 2}},
		"validate": {before: made(put("cat", 1, one())),
			harm: missing(snapshotsDir, first, packagesFile), work: []call{validateAll}, serves: map[string]int{"cat": 1}},
		"validate again": {before: made(put("cat", 1, one())),
			harm: flipped(snapshotsDir, first, packagesFile), work: []call{scrub}, serves: map[string]int{"cat": 1}},
		"validate what an earlier release did": {before: made(put("cat", 1, one())),
			harm: ofEarlierRelease(snapshotsDir, first, packagesFile), work: []call{validateAll}, serves: map[string]int{"cat": 1}},
		"two catalogs with the same content": {before: made(),
			work: []call{put("cat", 1, one()), put("other", 1, one())}, serves: map[string]int{"cat": 1, "other": 1}},
		"commit of much": {before: made(put("cat", 1, single())),
			work: []call{put("cat", 2, big("x"))}, serves: map[string]int{"cat": 2}, large: true},
		"serve what is stored": {before: made(put("other", 2, two())),
			work: []call{serveStored("cat", 2)}, serves: map[string]int{"cat": 2, "other": 2}},
		"write the index again": {before: made(put("cat", 1, one())),
			harm: flipped(snapshotsDir, first, indexFile), work: []call{mend}, serves: map[string]int{"cat": 1}},
		"write snapshot.json again": {before: made(put("cat", 1, one())),
			harm: missing(snapshotsDir, first, snapshotFile), work: []call{mend}, serves: map[string]int{"cat": 1}},
		"restore a damaged catalog": {before: made(put("cat", 1, one()), compressBoth),
			harm: flipped(snapshotsDir, first, catalogFile), work: []call{mend}, serves: map[string]int{"cat": 1}, forms: true},
		"restore a missing catalog": {before: made(put("cat", 1, one()), compressBoth),
			harm: missing(snapshotsDir, first, catalogFile), opens: true, work: []call{put("cat", 1,
				one())}, serves: map[string]int{"cat": 1}, forms: true},
		"restore of the second form": {before: made(put("cat", 1, one()), compressBoth), harm: func(_ *testing.T, d harmed) {
			d.flip(snapshotsDir, first, catalogFile)
			d.flip(snapshotsDir, first, catalogFile+".zst")
		}, work: []call{mend, compressBoth}, serves: map[string]int{"cat": 1}, forms: true},
		"commit of a subset": {before: made(put("other", 3, single())),
			work: []call{put("cat", 1001, one())}, serves: map[string]int{"cat": 1001, "other": 3}},
		"another filter": {before: made(put("cat", 1001, one())),
			work: []call{restore("cat", 2001)}, serves: map[string]int{"cat": 2001}},
		"a filter, none, and again": {before: made(put("cat", 1, one())),
			work: []call{restore("cat", 3001), restore("cat", 1), sweepAll}, serves: map[string]int{"cat": 1}},
		"changed content of a subset": {before: made(put("cat", 3001, one())),
			work: []call{put("cat", 3002, two()), sweepAll}, serves: map[string]int{"cat": 3002}},
		"subsets of the same content": {before: made(put("cat", 1001, one())),
			work: []call{put("other", 2001, one()), remove("cat")}, serves: map[string]int{"other": 2001}},
		"a filter that leaves nothing": {before: made(put("cat", 1001, single())),
			work: []call{refused(put("cat", 4002, one())), restore("cat", 1002)}, serves: map[string]int{"cat": 1002}},
		"sweep subsets": {before: made(put("cat", 1001, one()), put("cat", 2002, two())),
			work: []call{sweepAll}, serves: map[string]int{"cat": 2002}},
		"remove a subset": {before: made(put("cat", 1001, one()), put("other", 2, two())),
			work: []call{remove("cat"), sweepAll}, serves: map[string]int{"other": 2}},
		"a damaged whole catalog": {before: made(put("cat", 1001, one())),
			harm: flipped(wholeDir, first), work: []call{both(scrub, put("cat", 2001, one()))}, serves: map[string]int{"cat": 2001}},
		"a life": {before: made(), work: []call{put("cat", 1, single()), compressBoth, put("cat", 2, two()),
			sweepAll, put("cat", 1, single()), remove("cat"), put("cat", 3, two())}, serves: map[string]int{"cat": 3}, large: true},
	}
}

// TestCrashMatrix stops the process before each operation of each scenario, and checks each state in which the next
// process can find the volume.
func TestCrashMatrix(t *testing.T) {
	for name, sc := range scenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMatrix(t, sc)
			for k := 0; m.crash(k); k++ {
			}
			m.log()
		})
	}
}

// TestFailureMatrix fails each operation of each scenario once.
func TestFailureMatrix(t *testing.T) {
	for name, sc := range scenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMatrix(t, sc)
			for k := range m.count {
				m.fail(k, syscall.EIO)
				if !m.large {
					m.fail(k, syscall.ENOSPC)
					m.fail(k, syscall.EROFS)
				}
			}
			m.log()
		})
	}
}

// TestAbandonedCall fails each operation of a call that is not retried, as something else is wanted by then.
func TestAbandonedCall(t *testing.T) {
	for name, work := range map[string][]call{
		"point there and back":       {pointTo("cat", 2), pointTo("cat", 1)},
		"commit, and back":           {put("cat", 3, single()), pointTo("cat", 1)},
		"remove, and no, rather not": {remove("cat"), put("cat", 1, one())},
		"point, no, remove":          {pointTo("cat", 2), remove("cat")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMatrix(t, scenario{before: made(put("cat", 1, one()), put("other", 2, two())), work: work})
			for k := range m.count {
				m.abandon(k)
			}
			m.log()
		})
	}
}

func (m *matrix) log() {
	m.Helper()
	m.Logf("%d operations; stopped or failed at %d points; %d worlds, %d of them different", m.count, m.points, m.worlds, m.checked)
}
