package store

import (
	"fmt"
	"io/fs"
	"math"
	"syscall"
)

// Usage is what a store takes on its volume, in bytes.
type Usage struct {
	Used  int64 // by all files of the store, those being unpacked included
	Limit int64 // Options.Limit; 0 if there is none
	Free  int64 // what may still be written: of the limit, or of the volume if that has less
}

// Usage measures the store. What changes meanwhile may or may not count.
func (s *Store) Usage() (Usage, error) {
	u := Usage{Limit: s.opts.Limit, Free: freeBytes(s.volume)}
	err := fs.WalkDir(s.volume.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignoreMissing(err)
		}
		info, err := d.Info()
		if err == nil {
			u.Used += info.Size()
		}
		return ignoreMissing(err)
	})
	if u.Limit > 0 {
		u.Free = min(u.Free, max(u.Limit-u.Used, 0))
	}
	return u, err
}

// NoRoomError says that the content of a catalog would not fit in, found out before the volume was full. It is one with
// syscall.ENOSPC.
type NoRoomError struct {
	Need  int64 // bytes that the catalog takes while it is unpacked, as far as can be told
	Usage Usage
}

func (e *NoRoomError) Error() string {
	need := fmt.Sprintf("unpacking takes about %d bytes", e.Need)
	if e.Usage.Limit > 0 {
		return fmt.Sprintf("%s, and of the limit of %d (--storage-limit) %d are left", need, e.Usage.Limit, e.Usage.Free)
	}
	return fmt.Sprintf("%s, and the volume has %d left", need, e.Usage.Free)
}

func (e *NoRoomError) Unwrap() error { return syscall.ENOSPC }

// staged is how many bytes of the volume a byte of a catalog file may take while it is unpacked: one in the file, one in
// catalog.jsonl.
const staged = 2

// roomFor tells how many bytes the files of a catalog may have. It is a *NoRoomError if what the catalog has now would not
// fit in once more.
func (s *Store) roomFor(previous *Snapshot) (int64, error) {
	u, err := s.Usage()
	if err != nil {
		return 0, fmt.Errorf("measuring the store: %w", err)
	}
	need := int64(1) // of what was never unpacked, nothing is known
	if previous != nil {
		need = max(need, staged*previous.info.Bytes)
	}
	if u.Free < need {
		return 0, &NoRoomError{need, u}
	}
	if u.Free == math.MaxInt64 {
		return u.Free, nil
	}
	return u.Free / staged, nil
}

// NoRoom is the error for an image whose files turned out to have more than Room.
func (st *Stage) NoRoom() error {
	u, err := st.store.Usage()
	if err != nil {
		return err
	}
	return &NoRoomError{staged * st.room, u}
}
