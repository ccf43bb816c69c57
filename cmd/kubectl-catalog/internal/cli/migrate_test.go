package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMigrate(t *testing.T) {
	stdout, stderr, code := runIn(t, "migrate", "-f", filepath.Join("testdata", "migrate", "in.yaml"))
	if code != 1 {
		t.Errorf("exit code %d, want 1: two cannot be migrated", code)
	}
	for name, got := range map[string]string{"out.yaml": stdout, "err.txt": stderr} {
		want, err := os.ReadFile(filepath.Join("testdata", "migrate", name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for _, args := range [][]string{{}, {"-f", "x", "--from-cluster"}, {"-f", "x", "-A"}} {
		if _, _, code := runIn(t, append([]string{"migrate"}, args...)...); code != 2 {
			t.Errorf("%q: exit code %d, want 2", args, code)
		}
	}
	if _, _, code := runIn(t, "migrate", "-f", "nope.yaml"); code != 3 {
		t.Errorf("no file: exit code %d, want 3", code)
	}
}
