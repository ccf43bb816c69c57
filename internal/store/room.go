package store

import (
	"fmt"
	"io"
	"io/fs"
	"math"
	"syscall"
)

// Usage is what a store takes on its volume, in bytes.
type Usage struct {
	Used  int64 // by all files of the volume's root, those being unpacked included
	Limit int64 // Options.Limit; 0 if there is none
	Free  int64 // what may still be written: of the limit, or of the volume if that has less
}

// Usage measures the store. What changes meanwhile may or may not count.
func (s *Store) Usage() (Usage, error) {
	u := Usage{Limit: s.opts.Limit, Free: freeBytes(s.volume)}
	err := fs.WalkDir(s.root().FS(), ".", func(_ string, d fs.DirEntry, err error) error {
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

// NoRoomError says that the content of a catalog, or a form of it, would not fit in, found out before the volume was full. It is
// one with syscall.ENOSPC.
type NoRoomError struct {
	Need  int64 // bytes that it takes, as far as can be told
	Usage Usage
}

func (e *NoRoomError) Error() string {
	need := fmt.Sprintf("it takes about %d bytes", e.Need)
	if e.Need <= e.Usage.Free {
		need = fmt.Sprintf("it takes more than %d bytes", e.Need)
	}
	if e.Usage.Limit > 0 {
		return fmt.Sprintf("%s, and of the limit of %d (--storage-limit) %d are left", need, e.Usage.Limit, e.Usage.Free)
	}
	return fmt.Sprintf("%s, and the volume has %d left", need, e.Usage.Free)
}

func (e *NoRoomError) Unwrap() error { return syscall.ENOSPC }

// bounded is a writer that keeps within what was free.
type bounded struct {
	w     io.Writer
	usage Usage
}

func (b *bounded) Write(p []byte) (int, error) {
	if int64(len(p)) > b.usage.Free {
		return 0, &NoRoomError{int64(len(p)), b.usage}
	}
	b.usage.Free -= int64(len(p))
	return b.w.Write(p)
}

// staged is how many bytes of the volume a byte of a catalog file may take while it is unpacked: one in the file, one in
// catalog.jsonl.
const staged = 2

// roomFor tells how many bytes are free for a catalog. It is a *NoRoomError if what the catalog has now would not fit in once
// more.
func (s *Store) roomFor(previous *Snapshot) (Usage, error) {
	u, err := s.Usage()
	if err != nil {
		return u, fmt.Errorf("measuring the store: %w", err)
	}
	need := int64(1) // of what was never unpacked, nothing is known
	if previous != nil {
		need = max(need, staged*previous.info.Bytes)
	}
	if u.Free < need {
		return u, &NoRoomError{need, u}
	}
	return u, nil
}

// Room is how many bytes the files in Root may have together, so that the store keeps within its limit and the volume. Others
// that are being unpacked may take of it too.
func (st *Stage) Room() int64 {
	if st.usage.Free == math.MaxInt64 {
		return math.MaxInt64
	}
	return st.usage.Free / staged
}

// NoRoom is the error for an image whose files turned out to have more than Room.
func (st *Stage) NoRoom() error { return &NoRoomError{staged * st.Room(), st.usage} }
