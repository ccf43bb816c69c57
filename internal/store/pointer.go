package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path"
	"strings"
	"time"
)

// pointer is the content of a file in catalogs/.
type pointer struct {
	pointed
	Previous []pointed `json:"previous,omitempty"` // newest first; their snapshots may be deleted
}

// pointed is a snapshot that a catalog serves or served.
type pointed struct {
	Snapshot string    `json:"snapshot"`
	Image    string    `json:"image"`
	Endpoint string    `json:"endpoint,omitempty"`
	Basis    string    `json:"basis,omitempty"`
	Owner    string    `json:"owner,omitempty"` // missing in files of earlier releases
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
	return pointed{
		Snapshot: c.Snapshot.Key(), Image: c.Image, Endpoint: c.Endpoint, Basis: c.Basis, Owner: c.Owner, Since: c.Since,
	}
}

func (p pointed) catalog(name string, snap *Snapshot) Catalog {
	return Catalog{
		Name: name, Image: p.Image, Endpoint: p.Endpoint, Basis: p.Basis, Owner: p.Owner, Snapshot: snap, Since: p.Since,
	}
}

func (p pointed) equal(q pointed) bool {
	same := p.Since.Equal(q.Since)
	p.Since, q.Since = time.Time{}, time.Time{}
	return same && p == q
}

// A pointer file is a pointer as JSON. Its first field is the checksum of the rest. Files of earlier releases have none and
// begin with the snapshot.
const unsummedPointer = `{"snapshot":"`

func pointerFile(catalog string, p pointer) ([]byte, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	rest := append(text[1:], '\n')
	return append([]byte(pointerHead(catalog, rest)), rest...), nil
}

// pointerHead returns the first field of a pointer file, from the name of the catalog and the rest of the file. The checksum
// covers the name, too: the pointer of another catalog is invalid.
func pointerHead(catalog string, rest []byte) string {
	sum := crc32.Update(crc32.Checksum(rest, castagnoli), castagnoli, []byte(catalog))
	return fmt.Sprintf(`{"crc32c":"%08x",`, sum)
}

// pointers are the files in catalogs/. To change one, the caller holds the volume's publishing.
type pointers struct {
	volume *volume
	unsure map[string]bool // catalogs whose file may differ from the inventory, as changing it failed; guarded by publishing
}

func (ps *pointers) read(catalog string) (p pointer, err error) {
	b, err := ps.volume.ReadFile(path.Join(catalogsDir, catalog))
	if err != nil {
		return p, err
	}
	if head := len(pointerHead("", nil)); !bytes.HasPrefix(b, []byte(unsummedPointer)) &&
		(len(b) < head || string(b[:head]) != pointerHead(catalog, b[head:])) {
		return p, fmt.Errorf("reading the pointer of %s: checksum mismatch", catalog)
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return pointer{}, fmt.Errorf("reading the pointer of %s: %w", catalog, err)
	}
	return p, nil
}

func (ps *pointers) write(c Catalog, previous []Catalog) error {
	b, err := pointerFile(c.Name, newPointer(c, previous))
	if err != nil {
		return err
	}
	ps.unsure[c.Name] = true
	if err := ps.volume.writeDurably(path.Join(catalogsDir, c.Name), b); err != nil {
		return err
	}
	delete(ps.unsure, c.Name)
	return nil
}

func (ps *pointers) remove(catalog string) error {
	ps.unsure[catalog] = true
	if err := ignoreMissing(ps.volume.Remove(path.Join(catalogsDir, catalog))); err != nil {
		return err
	}
	if err := ps.volume.syncDir(catalogsDir); err != nil {
		return err
	}
	delete(ps.unsure, catalog)
	return nil
}

// keys returns the keys that pointer files name. These can be more than the served ones: a snapshot could not be opened at
// start, or a replaced pointer may not be durable. If a pointer is damaged, complete is false: it may name any snapshot.
func (ps *pointers) keys() (keys map[string]bool, complete bool, err error) {
	entries, err := fs.ReadDir(ps.volume.FS(), catalogsDir)
	if err != nil {
		return nil, false, err
	}
	keys, complete = map[string]bool{}, true
	for _, e := range entries {
		p, err := ps.read(e.Name())
		if err == nil {
			keys[p.Snapshot] = true
		} else if !strings.HasPrefix(e.Name(), tempPrefix) {
			complete = false
		}
	}
	return keys, complete, nil
}
