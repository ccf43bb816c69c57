package store

import (
	"fmt"
	"io"
	"io/fs"
	"math"
	"syscall"
)

// Usage is the space that a store takes on its volume, in bytes.
type Usage struct {
	Used  int64 // by all files on the volume, including stages
	Limit int64 // Options.Limit; 0 if there is none
	Free  int64 // bytes that can still be written: within the limit, or the volume's if that is less
}

// space measures a volume.
type space struct {
	root  *volume
	limit int64
}

func (sp *space) usage() (Usage, error) {
	u := Usage{Limit: sp.limit, Free: freeBytes(sp.root)}
	err := fs.WalkDir(sp.root.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
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

// require returns the usage. The error is a *noRoomError if fewer bytes than needed are free.
func (sp *space) require(need int64) (Usage, error) {
	u, err := sp.usage()
	if err != nil {
		return u, fmt.Errorf("measuring the store: %w", err)
	}
	if u.Free < need {
		return u, &noRoomError{need, u}
	}
	return u, nil
}

// noRoomError reports that content does not fit, before the volume is full. It wraps syscall.ENOSPC.
type noRoomError struct {
	need  int64 // bytes, as far as known
	usage Usage
}

func (e *noRoomError) Error() string {
	need := fmt.Sprintf("about %d bytes are needed", e.need)
	if e.need <= e.usage.Free {
		need = fmt.Sprintf("more than %d bytes are needed", e.need)
	}
	if e.usage.Limit > 0 {
		return fmt.Sprintf("%s; %d of the limit of %d are free (--storage-limit)", need, e.usage.Free, e.usage.Limit)
	}
	return fmt.Sprintf("%s; the volume has %d free", need, e.usage.Free)
}

func (e *noRoomError) Unwrap() error { return syscall.ENOSPC }

// bounded is a writer that stays within the space that was free.
type bounded struct {
	w     io.Writer
	usage Usage
}

func (b *bounded) Write(p []byte) (int, error) {
	if int64(len(p)) > b.usage.Free {
		return 0, &noRoomError{int64(len(p)), b.usage}
	}
	b.usage.Free -= int64(len(p))
	return b.w.Write(p)
}

// staged is how many bytes of the volume a byte of a catalog file can take during an unpack: one in the file, one in
// catalog.jsonl.
const staged = 2

// Room returns how many bytes the files in Root may have together, within the limit of the store and the space on the volume.
// Other stages can take some of it.
func (st *Stage) Room() int64 {
	if st.usage.Free == math.MaxInt64 {
		return math.MaxInt64
	}
	return st.usage.Free / staged
}

// NoRoom returns the error for an image whose files have more than Room.
func (st *Stage) NoRoom() error { return &noRoomError{staged * st.Room(), st.usage} }
