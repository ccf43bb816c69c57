package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// scenario is some work on a volume, stopped before each of its operations in turn.
type scenario struct {
	before func(t *testing.T, s *Store)     // what was done and is durable; nil: the volume is empty, and opening it is part of the work
	harm   func(t *testing.T, d harmed)     // what happened to the volume after that
	work   []func(s *Store, c *clock) error // calls; each may be done again after it failed
	serves map[string]int                   // in the end: the number of the source by catalog
	large  bool                             // and slow: there is no second crash, and one kind of failure
	forms  bool                             // compressed forms are there in the end
	opens  bool                             // Open is part of the work; until the work is done, catalogs may be missing
}

// harmed is a volume that no process has open.
type harmed struct {
	t   *testing.T
	dir string
}

// flip flips a bit in the middle of a file.
func (d harmed) flip(elem ...string) {
	name := filepath.Join(append([]string{d.dir}, elem...)...)
	b, err := os.ReadFile(name)
	must.Succeed(d.t, err)
	b[len(b)/2] ^= 1
	must.Succeed(d.t, os.WriteFile(name, b, 0o644))
}

func (d harmed) remove(elem ...string) {
	must.Succeed(d.t, os.Remove(filepath.Join(append([]string{d.dir}, elem...)...)))
}

// matrix is the result of an undisturbed scenario, against which others are checked.
type matrix struct {
	*testing.T
	scenario
	base      diskTree
	states    []map[string]string // what each catalog points to, as a key: before the work, and after each call
	times     []time.Time         // when that was
	contents  map[string][]string // by key: what may be read of it, as readAll gives it
	validated map[string][]string // by key: possible results of readPackages
	final     diskTree
	count     int // operations of the work
	order     []operation

	scratch   string
	dirs      int
	dark      map[string]bool     // keys that are pointed to before the work, and cannot be served
	formFiles map[string][]string // by path: what a compressed form or a derived file may have

	seed                    maphash.Seed
	seen                    map[string]bool
	points, worlds, checked int
	failures                int
}

var errStopped = errors.New("the process is stopped")

// newMatrix does the work once, undisturbed.
func newMatrix(t *testing.T, sc scenario) *matrix {
	m := &matrix{
		T: t, scenario: sc, base: diskTree{}, contents: map[string][]string{}, validated: map[string][]string{},
		dark: map[string]bool{}, formFiles: map[string][]string{}, scratch: memoryDir(t), seed: maphash.MakeSeed(), seen: map[string]bool{},
	}
	if sc.before != nil {
		dir := m.place(diskTree{})
		s, _ := m.open(dir, 0, nil)
		sc.before(t, s)
		must.Succeed(t, s.Close())
		if sc.harm != nil {
			sc.harm(t, harmed{t, dir})
		}
		m.base = readTree(t, dir)
	}
	d, s, c := m.begin(func(_ int, op operation) error {
		m.order = append(m.order, op)
		return nil
	})
	m.note(s, c, d.dir)
	for _, call := range sc.work {
		must.Succeed(t, call(s, c))
		m.note(s, c, d.dir)
	}
	m.count = d.count
	must.Succeed(t, d.settle())
	must.Succeed(t, m.finish(s, c))
	m.final = m.left(d.dir)
	for name, n := range sc.serves {
		if got := m.states[len(m.states)-1][name]; got != source(n).Key() {
			t.Fatalf("undisturbed, %s points to %q, want %q", name, got, source(n).Key())
		}
	}
	return m
}

// memoryDir returns a directory in memory, if possible.
func memoryDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "matrix")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// place creates a volume from a tree.
func (m *matrix) place(tree diskTree) string {
	dir := filepath.Join(m.scratch, fmt.Sprint(m.dirs))
	m.dirs++
	tree.put(m.T, dir)
	return dir
}

// tryOpen opens a volume after this many calls.
func (m *matrix) tryOpen(dir string, acked int, step func(operation) error) (*Store, *clock, error) {
	c := newClock()
	if acked > 0 {
		c.now = m.times[acked]
	}
	s, err := Open(dir, Options{Logger: slog.New(slog.DiscardHandler), Now: c.Now, CacheBytes: 1000, step: step})
	return s, c, err
}

func (m *matrix) open(dir string, acked int, step func(operation) error) (*Store, *clock) {
	m.Helper()
	s, c, err := m.tryOpen(dir, acked, step)
	must.Succeed(m.T, err)
	return s, c
}

// begin opens a volume with the content from before the work. stop is that of the lossyDisk; it sees the operations of
// Open only if they are the work. The store is nil if Open was stopped.
func (m *matrix) begin(stop func(int, operation) error) (*lossyDisk, *Store, *clock) {
	m.Helper()
	dir := m.place(m.base)
	var d *lossyDisk
	step := func(op operation) error {
		if d == nil {
			return nil
		}
		return d.step(op)
	}
	arm := func() {
		d = newLossyDisk(m.T, dir)
		if stop != nil {
			d.stop = stop
		}
	}
	opens := m.before == nil || m.opens
	if opens {
		arm()
	}
	s, c, err := m.tryOpen(dir, 0, step)
	if !opens {
		must.Succeed(m.T, err)
		arm()
	}
	if err != nil {
		return d, nil, c
	}
	return d, s, c
}

// note records the served content as what may be served.
func (m *matrix) note(s *Store, c *clock, dir string) {
	m.Helper()
	tree := readTree(m.T, dir)
	pointers, err := pointersOf(tree)
	must.Succeed(m.T, err)
	m.states, m.times = append(m.states, pointers), append(m.times, c.Now())
	for name, key := range pointers {
		if _, ok := s.Catalog(name); !ok && len(m.states) > 1 {
			m.Fatalf("undisturbed, %s is not served", name)
		} else if !ok || m.opens {
			m.dark[key] = true
		}
	}
	for name, content := range tree {
		if form := string(content); isForm(name) && !slices.Contains(m.formFiles[name], form) {
			m.formFiles[name] = append(m.formFiles[name], form)
		}
	}
	for _, c := range s.Catalogs() {
		key := c.Snapshot.Key()
		for _, content := range m.readAll(c.Snapshot) {
			if !slices.Contains(m.contents[key], content) {
				m.contents[key] = append(m.contents[key], content)
			}
		}
		if c.Snapshot.Validated() {
			m.validated[key] = append(m.validated[key], readPackages(c.Snapshot))
		}
	}
}

// finish does what a process does in time: it writes missing files, deletes unreferenced ones, and closes the store.
func (m *matrix) finish(s *Store, c *clock) error {
	var errs []error
	errs = append(errs, scrub(s, c))
	for _, cat := range s.Catalogs() {
		errs = append(errs, s.Serve(m.Context(), cat.Name, Source{Image: cat.Image, Endpoint: cat.Endpoint}, cat.Snapshot))
	}
	if m.forms {
		errs = append(errs, compressAll(m.Context(), s))
	}
	errs = append(errs, s.Sweep())
	c.advance(time.Hour)
	return errors.Join(append(errs, s.Sweep(), s.Close())...)
}

// left returns what is on the volume, without the lock.
func (m *matrix) left(dir string) diskTree {
	tree := readTree(m.T, dir)
	delete(tree, lockFile)
	return tree
}

// pointersOf reads the pointers by catalog.
func pointersOf(tree diskTree) (map[string]string, error) {
	out := map[string]string{}
	for name, content := range tree {
		if dir, base := path.Split(name); dir == catalogsDir+"/" && !strings.HasPrefix(base, tempPrefix) {
			var p pointer
			if err := json.Unmarshal(content, &p); err != nil || p.Snapshot == "" {
				return nil, fmt.Errorf("the pointer %s is not whole: %q", base, content)
			}
			out[base] = p.Snapshot
		}
	}
	return out, nil
}

// isForm reports whether a name is that of a compressed form, or of a derived file.
func isForm(name string) bool {
	return path.Dir(path.Dir(name)) == snapshotsDir && (strings.HasPrefix(path.Base(name), catalogFile+".") || path.Base(name) == OLMv0File)
}

// readAll reads all blobs of a snapshot, damaged or not, through the index and as a file. Equal texts mean equal
// content or equal errors.
func (m *matrix) readAll(snap *Snapshot) []string {
	var h maphash.Hash
	h.SetSeed(m.seed)
	read := func(blobs *Blobs) {
		i := 0
		for blob, err := range snap.readBlobs(blobs.numbers) {
			fmt.Fprintf(&h, "%+v %s %v\n", blobs.Entry(i), blob, err)
			i++
		}
		_, err := io.Copy(&h, blobs)
		fmt.Fprintln(&h, err)
	}
	all := snap.Select(Query{})
	read(all)
	for i := range all.Len() {
		e := all.Entry(i)
		read(snap.Select(Query{Schema: e.Schema, Package: e.Package, Name: e.Name}))
		read(snap.Package(e.Package))
	}
	info, _ := json.Marshal(snap.Info())
	blobs := fmt.Sprintf("%d blobs, %x, info %s", all.Len(), h.Sum64(), info)
	f, err := snap.OpenAll()
	if err != nil {
		return []string{blobs, err.Error()}
	}
	defer f.Close() // read only
	h.Reset()
	n, err := io.Copy(&h, f)
	return []string{blobs, fmt.Sprintf("a file of %d bytes, %x, %v", n, h.Sum64(), err)}
}

// readPackages reads all validation results of a snapshot. The text can be that of an error.
func readPackages(snap *Snapshot) string {
	var out strings.Builder
	invalid, err := snap.InvalidPackages()
	fmt.Fprintf(&out, "%+v %+v %v", snap.Packages(), invalid, err)
	for summary, err := range snap.Summaries() {
		fmt.Fprintf(&out, " %+v %v", summary, err)
	}
	return out.String()
}

// compressAll writes the forms of all served catalogs.
func compressAll(ctx context.Context, s *Store) error {
	var errs []error
	for _, c := range s.Catalogs() {
		for _, codec := range codecs() {
			errs = append(errs, s.compressor.compress(ctx, c.Snapshot, codec))
		}
	}
	return errors.Join(errs...)
}
