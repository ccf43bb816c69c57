package store

import (
	"encoding/json"
	"fmt"
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
	return pointed{Snapshot: c.Snapshot.Key(), Image: c.Image, Endpoint: c.Endpoint, Since: c.Since}
}

func (s *Store) readPointer(name string) (pointer, error) {
	var p pointer
	b, err := s.root.ReadFile(catalogsDir + "/" + name)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return p, fmt.Errorf("reading the pointer of %s: %w", name, err)
	}
	return p, nil
}

// Point makes a catalog serve a snapshot, which Snapshot or Commit returned. It returns once that is durable. A
// catalog that serves it already, for the image, is left alone, its endpoint too: not a byte is written. It is an error when
// a sweep deleted the snapshot since it was returned: then it has to be unpacked again.
func (s *Store) Point(name, image, endpoint string, snap *Snapshot) error {
	s.publish.Lock()
	defer s.publish.Unlock()
	return s.point(name, image, endpoint, snap)
}

// point is Point for a caller that holds publish.
func (s *Store) point(name, image, endpoint string, snap *Snapshot) error {
	old, served := s.Catalog(name)
	if served && old.Snapshot == snap && old.Image == image {
		return nil
	}
	if err := s.checkPresent(snap); err != nil {
		return fmt.Errorf("pointing catalog %s to its new content: %w", name, err)
	}
	since := s.opts.Now().UTC().Truncate(time.Second)
	if served && old.Snapshot.Key() == snap.Key() {
		since = old.Since // the same content, unpacked again
	} else if served && !since.After(old.Since) {
		since = old.Since.Add(time.Second)
	}
	next := Catalog{Name: name, Image: image, Endpoint: endpoint, Snapshot: snap, Since: since}
	previous := s.previousOf(name, snap.Key())
	b, err := json.Marshal(newPointer(next, previous))
	if err != nil {
		return err
	}
	if err := writeDurably(s.root, catalogsDir+"/"+name, append(b, '\n')); err != nil {
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

// checkPresent makes sure that a snapshot has not been deleted by a sweep, for a caller that holds publish, and lets go
// of one that has.
func (s *Store) checkPresent(snap *Snapshot) error {
	_, err := s.root.Stat(path.Join(snapshotsDir, snap.Key()))
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.snapshots, snap.Key())
	}
	return err
}
