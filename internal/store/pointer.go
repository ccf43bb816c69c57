package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"path"
	"time"
)

// pointer is the content of a file in catalogs/.
type pointer struct {
	pointed
	Previous []pointed `json:"previous,omitempty"` // newest first; their snapshots may be gone
}

// pointed is a snapshot that a catalog serves, or served.
type pointed struct {
	Snapshot string    `json:"snapshot"`
	Image    string    `json:"image"`
	Endpoint string    `json:"endpoint,omitempty"`
	Basis    string    `json:"basis,omitempty"`
	Owner    string    `json:"owner,omitempty"` // none in files of earlier releases
	Since    time.Time `json:"since"`
}

func newPointer(c Catalog, previous []Catalog) pointer {
	p := pointer{pointed: newPointed(c)}
	for _, c := range previous {
		p.Previous = append(p.Previous, newPointed(c))
	}
	return p
}

func newPointed(c Catalog) pointed {
	return pointed{Snapshot: c.Snapshot.Key(), Image: c.Image, Endpoint: c.Endpoint, Basis: c.Basis, Owner: c.Owner, Since: c.Since}
}

func (p pointed) equal(q pointed) bool {
	same := p.Since.Equal(q.Since)
	p.Since, q.Since = time.Time{}, time.Time{}
	return same && p == q
}

// A pointer file is a pointer as JSON, which begins with the checksum of what follows that, as a field of its own. Files of
// earlier releases have none and begin with what is served.
const unsummedPointer = `{"snapshot":"`

func pointerFile(catalog string, p pointer) ([]byte, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	rest := append(text[1:], '\n')
	return append([]byte(pointerHead(catalog, rest)), rest...), nil
}

// pointerHead is how the pointer file of a catalog begins whose rest is given. Its checksum is of the name of the catalog too:
// the pointer of another is none.
func pointerHead(catalog string, rest []byte) string {
	sum := crc32.Update(crc32.Checksum(rest, castagnoli), castagnoli, []byte(catalog))
	return fmt.Sprintf(`{"crc32c":"%08x",`, sum)
}

func (s *Store) readPointer(name string) (p pointer, err error) {
	b, err := s.volume.ReadFile(catalogsDir + "/" + name)
	if err != nil {
		return p, err
	}
	if head := len(pointerHead("", nil)); !bytes.HasPrefix(b, []byte(unsummedPointer)) &&
		(len(b) < head || string(b[:head]) != pointerHead(name, b[head:])) {
		return p, fmt.Errorf("reading the pointer of %s: it is damaged: its checksum does not fit", name)
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return pointer{}, fmt.Errorf("reading the pointer of %s: %w", name, err)
	}
	return p, nil
}

// writePointer writes a pointer, for a caller that holds publish.
func (s *Store) writePointer(c Catalog, previous []Catalog) error {
	b, err := pointerFile(c.Name, newPointer(c, previous))
	if err != nil {
		return err
	}
	s.unsure[c.Name] = true
	if err := s.volume.writeDurably(catalogsDir+"/"+c.Name, b); err != nil {
		return err
	}
	delete(s.unsure, c.Name)
	return nil
}

// Serve makes a catalog serve a snapshot, which Snapshot or Commit returned, and describes its packages if they are not
// described yet; when it returns, that is durable. A catalog that serves other content goes on with it until the description is
// there; one that serves nothing does not wait for it (a crash from there on leaves the description to the next call).
func (s *Store) Serve(ctx context.Context, name string, src Source, snap *Snapshot) error {
	var previous *Snapshot
	if c, ok := s.Catalog(name); ok {
		previous = c.Snapshot
	} else if err := s.Point(name, src, snap); err != nil {
		return err
	}
	if err := s.describe(ctx, snap, previous); err != nil {
		return err
	}
	return s.Point(name, src, snap)
}

// Point makes a catalog serve a snapshot, which Snapshot or Commit returned. It returns once that is durable. A
// catalog that serves it already, for the image and the owner, is left alone, its endpoint too: not a byte is written. It is an error when
// a sweep deleted the snapshot since it was returned: then it has to be unpacked again.
func (s *Store) Point(name string, src Source, snap *Snapshot) error {
	s.publish.Lock()
	defer s.publish.Unlock()
	return s.point(name, src, snap)
}

// point is Point for a caller that holds publish.
func (s *Store) point(name string, src Source, snap *Snapshot) error {
	old, served := s.Catalog(name)
	decided := src.Basis != "" && src.Basis != old.Basis // anew, perhaps for what is served anyway
	if old.Snapshot == snap && old.Image == src.Image && !decided {
		if old.Owner == src.Owner && !s.unsure[name] {
			return nil
		}
		src.Endpoint, src.Basis = old.Endpoint, old.Basis
	}
	if err := s.checkPresent(snap); err != nil {
		return fmt.Errorf("pointing catalog %s to its new content: %w", name, err)
	}
	if err := s.volume.syncDir(snapshotsDir); err != nil {
		return fmt.Errorf("pointing catalog %s to its new content: %w", name, err)
	}
	since := old.Since // the same content, unpacked again
	if !served || old.Snapshot.Key() != snap.Key() || decided {
		since = s.sinceAfter(old, src)
	}
	next := Catalog{Name: name, Image: src.Image, Endpoint: src.Endpoint, Basis: src.Basis, Owner: src.Owner, Snapshot: snap, Since: since}
	previous := s.previousOf(name, snap.Key())
	if err := s.writePointer(next, previous); err != nil {
		return fmt.Errorf("pointing catalog %s to its new content: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catalogs[name], s.history[name] = next, previous
	delete(s.unpointed, snap.Key())
	if served && old.Snapshot.Key() != snap.Key() {
		s.unpointed[old.Snapshot.Key()] = s.opts.Now()
	}
	s.signal()
	return nil
}

// sinceAfter is since when a source is served after another: since when it says, or now, and later than that in any case.
func (s *Store) sinceAfter(old Catalog, src Source) time.Time {
	since := src.Since
	if since.IsZero() {
		since = s.opts.Now()
	}
	since = since.UTC().Truncate(time.Second)
	if !since.After(old.Since) {
		since = old.Since.Add(time.Second)
	}
	return since
}

// checkPresent makes sure that a snapshot has not been deleted by a sweep, for a caller that holds publish, and lets go
// of one that has.
func (s *Store) checkPresent(snap *Snapshot) error {
	_, err := s.volume.Stat(path.Join(snapshotsDir, snap.Key()))
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.snapshots, snap.Key())
	}
	return err
}
