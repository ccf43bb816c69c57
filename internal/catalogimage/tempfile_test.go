package catalogimage

import (
	"io"
	"os"
	"testing"
)

func TestTempFileLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"TMPDIR", "TMP"} { // of Windows the latter
		t.Setenv(name, dir)
	}
	file, err := TempFile()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString("text"); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(io.NewSectionReader(file, 0, 4)); err != nil || string(text) != "text" {
		t.Errorf("read %q, %v", text, err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
}
