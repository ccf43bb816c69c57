package store

import (
	"context"
	"io"
	"sync"
	"testing"
)

// A disk that hangs in an operation of a writer blocks no reader of any catalog.
func TestSlowDiskDoesNotBlockReaders(t *testing.T) {
	type call func(context.Context, *Store) error
	commits := func(ctx context.Context, s *Store) error {
		st, err := s.Stage("cat", source(1).Image)
		if err != nil {
			return err
		}
		defer func() { _ = st.Discard() }() // Commit is what counts
		if err := st.Root().WriteFile("c.json", []byte(blobs("new")["c.json"]), 0o644); err != nil {
			return err
		}
		_, err = st.Commit(ctx, source(2))
		return err
	}
	for name, c := range map[string]struct {
		call call
		harm func(v testVolume)
	}{
		"commit":  {call: commits},
		"remove":  {call: func(_ context.Context, s *Store) error { return s.Remove("gone") }},
		"reclaim": {call: func(_ context.Context, s *Store) error { return s.Reclaim() }},
		"compress": {call: func(ctx context.Context, s *Store) error {
			snap, _ := s.Catalog("cat")
			return s.compressor.compress(ctx, snap.Snapshot, codecs()[0])
		}},
		"scrub": {
			call: func(ctx context.Context, s *Store) error { _, err := s.Scrub(ctx); return err },
			harm: func(v testVolume) {
				v.remove("snapshots", key, indexFile)
				v.remove("snapshots", key, snapshotFile)
				v.remove("snapshots", key, packagesFile)
				v.remove("catalogs", "cat")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := testVolume{t, t.TempDir()}
			disk := &slowDisk{reached: make(chan operation), goOn: make(chan struct{})}
			s := open(t, v.dir, newClock(), func(o *Options) { o.step = disk.step })
			commit(t, s, "gone", 3, blobs("gone"))
			commit(t, s, "cat", 4, blobs("before"))
			commit(t, s, "cat", 1, blobs("one"))
			commit(t, s, "other", 5, blobs("other"))
			if c.harm != nil {
				c.harm(v)
			}
			before := s.Catalogs()
			disk.hang(true)
			done := make(chan error, 1)
			go func() { done <- c.call(t.Context(), s) }()
			stops := 0
			for running := true; running; {
				select {
				case <-disk.reached:
					stops++
					readsAll(t, s, before)
					disk.goOn <- struct{}{}
				case err := <-done:
					if err != nil {
						t.Error(err)
					}
					running = false
				}
			}
			disk.hang(false)
			if stops < 2 {
				t.Errorf("the disk was asked %d times only", stops)
			}
		})
	}
}

// slowDisk blocks each operation until the test releases it.
type slowDisk struct {
	mu      sync.Mutex
	hangs   bool
	reached chan operation
	goOn    chan struct{}
}

func (d *slowDisk) hang(hangs bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hangs = hangs
}

func (d *slowDisk) step(op operation) error {
	d.mu.Lock()
	hangs := d.hangs
	d.mu.Unlock()
	if hangs {
		d.reached <- op
		<-d.goOn
	}
	return nil
}

// readsAll reads the earlier and the served catalogs in every way.
func readsAll(t *testing.T, s *Store, before []Catalog) {
	t.Helper()
	for _, c := range append(s.Catalogs(), before...) {
		want := text(t, c.Snapshot)
		f, err := c.Snapshot.OpenAll()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		_ = f.Close() // read only
		if err != nil || string(b) != want {
			t.Errorf("%s: the file has %q, %v, want %q", c.Name, b, err, want)
		}
		s.CatalogAt(c.Name, c.Snapshot.Version())
		s.Snapshot(c.Snapshot.Key())
		summaries(t, c.Snapshot)
	}
	if c, ok := s.Catalog("other"); !ok || text(t, c.Snapshot) != blobs("other")["c.json"]+"\n" {
		t.Error("the other catalog is not served")
	}
	usage(t, s)
	s.Changed()
}
