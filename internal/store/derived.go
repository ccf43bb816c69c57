package store

import (
	"io"
	"os"
	"path"
)

// OLMv0File is the derived file of package olmv0.
const OLMv0File = "olmv0"

// Derive writes a file that is made of a snapshot beside the snapshot's own files, completely or not at all, and replaces
// another of that name. It is deleted with the snapshot. If the snapshot is deleted meanwhile, that is no error.
func (s *Store) Derive(snap *Snapshot, name string, write func(io.Writer) error) error {
	u, err := s.space.usage()
	if err != nil {
		return err
	}
	err = s.volume.replaceFile(snap.dir, name, func(w io.Writer) error { return write(&bounded{w, u}) })
	if err == nil {
		s.inventory.notify()
	}
	return err
}

// OpenDerived opens a file that Derive wrote. The caller closes it. The error is fs.ErrNotExist if there is none, or the
// snapshot is deleted.
func (s *Snapshot) OpenDerived(name string) (*os.File, error) {
	return s.volume.Open(path.Join(s.dir, name))
}
