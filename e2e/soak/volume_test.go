package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// volume is a small tmpfs that the test can fill and empty.
type volume struct {
	dir    string
	filler string
}

// newVolume mounts a volume of a size in bytes. It needs root, and otherwise returns an error that says so.
func newVolume(t *testing.T, size int64) (*volume, error) {
	t.Helper()
	v := &volume{dir: t.TempDir()}
	v.filler = filepath.Join(v.dir, "filler") // beside the data directory
	if err := syscall.Mount("tmpfs", v.dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		return nil, fmt.Errorf("mounting a small volume, which takes root: %w", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(v.dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmounting %s: %v", v.dir, err)
		}
	})
	return v, os.Mkdir(v.data(), 0o755)
}

// data returns the data directory of catalogd.
func (v *volume) data() string { return filepath.Join(v.dir, "data") }

// fill uses up all free space.
func (v *volume) fill() error {
	f, err := os.OpenFile(v.filler, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("filling the volume: %w", err)
	}
	defer f.Close() // filler
	for block := make([]byte, 1<<20); len(block) > 0; {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			return fmt.Errorf("filling the volume: %w", err)
		}
	}
	return nil
}

// empty frees the space.
func (v *volume) empty() error {
	if err := os.Remove(v.filler); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("emptying the volume: %w", err)
	}
	return nil
}

// reclaim fills the volume, so that catalogd deletes content in its grace period, and empties it again. Then the
// volume has the served snapshots and one more: of the catalog that was replaced for this.
func (w *world) reclaim(ctx context.Context, v *volume) error {
	if err := v.fill(); err != nil {
		return err
	}
	name := w.ledger.names[0]
	if err := w.publish(ctx, name); err != nil {
		return err
	}
	if err := w.pollNow(ctx, name); err != nil {
		return err
	}
	err := w.shrinks(ctx, "snapshots", len(w.ledger.names)+1)
	if err := errors.Join(err, v.empty()); err != nil {
		return fmt.Errorf("having filled the volume: %w", err)
	}
	if err := w.settle(ctx); err != nil {
		return err
	}
	return w.shrinks(ctx, "stage", 0)
}
