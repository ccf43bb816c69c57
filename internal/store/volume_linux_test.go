package store

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// mounts is an environment variable with the name of the test that runs in its own mount namespace.
const mounts = "CATALOGD_TEST_MOUNTS"

// withMounts runs the test in a process with its own mounts.
func withMounts(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if os.Getenv(mounts) == t.Name() {
		must.Succeed(t, syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
		test(t)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), mounts+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("a mount takes the right to make one (root, or CAP_SYS_ADMIN)")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// A volume that became read-only, as ext4 makes it after an error, is served after a restart.
func TestReadOnlyVolume(t *testing.T) {
	withMounts(t, func(t *testing.T) {
		dir := t.TempDir()
		s := open(t, dir, newClock())
		commit(t, s, "cat", 1, blobs("old"))
		must.Succeed(t, s.Close())
		must.Succeed(t, syscall.Mount(dir, dir, "", syscall.MS_BIND, ""))
		defer func() { must.Succeed(t, syscall.Unmount(dir, syscall.MNT_DETACH)) }() // snapshots hold files open
		must.Succeed(t, syscall.Mount("", dir, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))

		s, err := Open(dir, Options{})
		must.Succeed(t, err)
		serves(t, s, "cat", "old")
		if _, err := s.Stage("cat", source(1).Image); !errors.Is(err, syscall.EROFS) {
			t.Errorf("a stage on a read-only volume: error %v", err)
		}
		serves(t, s, "cat", "old")
		if _, err := Open(dir, Options{}); err == nil {
			t.Error("a second process can open the volume")
		}
		must.Succeed(t, s.Close())
	})
}

// A full volume is still served, also after a restart, and accepts new content once there is space.
func TestFullVolume(t *testing.T) {
	withMounts(t, func(t *testing.T) {
		dir, clock := t.TempDir(), newClock()
		must.Succeed(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"))
		defer func() { must.Succeed(t, syscall.Unmount(dir, syscall.MNT_DETACH)) }() // snapshots hold files open
		s := open(t, dir, clock)
		commit(t, s, "cat", 1, blobs("old"))
		filler := filepath.Join(dir, "filler")
		if err := os.WriteFile(filler, bytes.Repeat([]byte{1}, 1<<20), 0o644); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("the volume is not full: %v", err)
		}
		for range 2 { // before and after a restart
			stage, err := s.Stage("cat", source(1).Image)
			if err == nil {
				err = stage.Root().WriteFile("catalog.json", []byte(blobs("new")["c.json"]), 0o644)
				if err == nil {
					_, err = stage.Commit(t.Context(), source(2))
				}
				must.Succeed(t, stage.Discard())
			}
			if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("new content on a full volume: error %v", err)
			}
			s.RecordRefusal("key", Refusal{Message: "wrong"})
			if reason, refused := s.Refused("key"); refused {
				t.Errorf("refused for the reason %q, which did not fit", reason)
			}
			serves(t, s, "cat", "old")
			s = reopen(t, s, dir, clock)
			serves(t, s, "cat", "old")
		}
		must.Succeed(t, os.Remove(filler))
		commit(t, s, "cat", 2, blobs("new"))
		must.Succeed(t, s.Sweep())
		wantNames(t, filepath.Join(dir, "snapshots"), oldKey, newKey)
		must.Succeed(t, s.Reclaim())
		wantNames(t, filepath.Join(dir, "snapshots"), newKey)
		serves(t, s, "cat", "new")
		must.Succeed(t, s.Close())
	})
}

// On a full volume a catalog is served uncompressed. This is logged once and leaves nothing behind. Once there is
// space, the forms are written.
func TestFullVolumeServesUncompressed(t *testing.T) {
	withMounts(t, func(t *testing.T) {
		dir := t.TempDir()
		must.Succeed(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"))
		defer func() { must.Succeed(t, syscall.Unmount(dir, syscall.MNT_DETACH)) }() // snapshots hold files open
		s := open(t, dir, newClock())
		commit(t, s, "cat", 1, blobs("old"))
		filler := filepath.Join(dir, "filler")
		if err := os.WriteFile(filler, bytes.Repeat([]byte{1}, 1<<20), 0o644); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("the volume is not full: %v", err)
		}
		logged, log := compressNow(t, s, nil)
		if strings.Count(log, "\n") != 1 || !strings.Contains(log, "the volume has 0 free") {
			t.Errorf("logged %q, want one line", log)
		}
		if logged, log = compressNow(t, s, logged); log != "" {
			t.Errorf("logged again: %q", log)
		}
		serves(t, s, "cat", "old")
		wantNames(t, filepath.Join(dir, "stage"))
		wantNames(t, filepath.Join(dir, "snapshots", oldKey), "catalog.jsonl", "index", "packages", "snapshot.json")
		must.Succeed(t, os.Remove(filler))
		compressNow(t, s, logged)
		wantForms(t, s, "cat")
		must.Succeed(t, s.Close())
	})
}
