package export

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWriteFilesWritesAllOrNone(t *testing.T) {
	dir := t.TempDir()
	old, fresh := filepath.Join(dir, "old"), filepath.Join(dir, "a", "b", "fresh")
	if err := os.WriteFile(old, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, blocked := range []string{filepath.Join(dir, "z"), filepath.Join(old, "below-a-file")} {
		if blocked == filepath.Join(dir, "z") {
			if err := os.Mkdir(blocked, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := WriteFiles(map[string][]byte{old: []byte("2"), fresh: []byte("2"), blocked: []byte("2")}); err == nil {
			t.Errorf("%s was written", blocked)
		}
		if text, err := os.ReadFile(old); err != nil || string(text) != "1" {
			t.Errorf("a failure changed a file to %q, %v", text, err)
		}
		if found, _ := filepath.Glob(filepath.Join(dir, "*.tmp")); len(found) > 0 {
			t.Errorf("%q are left", found)
		}
	}
	if err := WriteFiles(map[string][]byte{old: []byte("2"), fresh: []byte("2")}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{old, fresh} {
		if text, err := os.ReadFile(path); err != nil || string(text) != "2" {
			t.Errorf("%s has %q, %v", path, text, err)
		}
	}
	if info, err := os.Stat(old); err != nil || info.Mode() != 0o600 {
		t.Errorf("the mode changed to %v, %v", info, err)
	}
}
