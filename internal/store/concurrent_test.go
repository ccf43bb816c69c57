package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// version returns a catalog whose blobs all name its version. Sizes differ, and so do offsets.
func version(n int) files {
	out := files{}
	for i := range 20 {
		out[fmt.Sprintf("%d.json", i)] = fmt.Sprintf(`{"schema":"s%d","name":"n%d","version":"%d","text":%q}`, i%3,
			i, n, strings.Repeat("x", n*(i+1)))
	}
	return out
}

// checkVersion checks that all lines belong to the snapshot that returned them.
func checkVersion(snap *Snapshot, content []byte, count int) error {
	n, err := strconv.ParseInt(strings.TrimPrefix(snap.Info().Digest, "sha256:"), 16, 64)
	if err != nil {
		return err
	}
	want := fmt.Appendf(nil, `"version":"%d"`, n)
	if got := bytes.Count(content, want); got != count || bytes.Count(content, []byte("\n")) != count {
		return fmt.Errorf("%d of %d lines are of version %d, want %d", got, bytes.Count(content, []byte("\n")), n, count)
	}
	return nil
}

// readOnce reads the catalog in three ways, in small pieces, so that commits happen in between.
func readOnce(c Catalog) error {
	snap := c.Snapshot
	f, err := snap.OpenAll()
	if err != nil {
		return err
	}
	defer f.Close()
	for _, from := range []struct {
		r     io.Reader
		count int
	}{{snap.Select(Query{}), 20}, {snap.Select(Query{Schema: "s1"}), 7}, {snap.Select(Query{Name: "n3"}), 1}, {f, 20}} {
		var content bytes.Buffer
		if _, err := io.CopyBuffer(struct{ io.Writer }{&content}, struct{ io.Reader }{from.r}, make([]byte, 1000)); err != nil {
			return err
		}
		if err := checkVersion(snap, content.Bytes(), from.count); err != nil {
			return err
		}
	}
	return nil
}

// During commits a reader gets the bytes of one snapshot, and later readers never an older one.
func TestReadersDuringCommits(t *testing.T) {
	const commits, readers = 30, 20
	s := open(t, t.TempDir(), newClock())
	commit(t, s, "cat", 1, version(1))
	commit(t, s, "same", 1, version(1))
	stop := make(chan struct{})
	errs := make([]error, readers)
	var done sync.WaitGroup
	for i := range readers {
		name := []string{"cat", "same"}[i%2]
		done.Go(func() {
			var last Catalog
			for {
				c, ok := s.Catalog(name)
				if !ok || c.Since.Before(last.Since) || len(s.Catalogs()) != 2 {
					errs[i] = fmt.Errorf("%s is served: %v, since %s, before it since %s", name, ok, c.Since, last.Since)
					return
				}
				last = c
				if errs[i] = readOnce(c); errs[i] != nil {
					return
				}
				digest := c.Snapshot.Info().Digest // which is kept, as the clock stands still
				if at, ok := s.CatalogAt(name, digest); !ok || at.Snapshot.Info().Digest != digest {
					errs[i] = fmt.Errorf("%s at %s is served: %v", name, digest, ok)
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	var writers sync.WaitGroup
	writeErrs := make([]error, 2)
	writers.Go(func() { writeErrs[0] = commitVersions(s, "cat", commits, 1) })
	writers.Go(func() { writeErrs[1] = commitVersions(s, "same", commits, 4) }) // some of the same images, at the same time
	writers.Wait()
	close(stop)
	done.Wait()
	if err := errors.Join(append(errs, writeErrs...)...); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"cat", "same"} {
		if c, _ := s.Catalog(name); c.Snapshot.Info().Digest != digest(commits) { // 30 is 2 + 7*4
			t.Errorf("%s ends with %s", name, c.Snapshot.Info().Digest)
		}
	}
}

func commitVersions(s *Store, name string, commits, step int) error {
	for n := 2; n <= commits; n += step {
		st, err := s.Stage(name, source(1).Image)
		if err != nil {
			return err
		}
		for file, text := range version(n) {
			if err := st.Root().WriteFile(file, []byte(text), 0o644); err != nil {
				return err
			}
		}
		if _, err := st.Commit(context.Background(), source(n)); err != nil {
			return err
		}
		if err := errors.Join(st.Discard(), s.Sweep()); err != nil {
			return err
		}
	}
	return nil
}
