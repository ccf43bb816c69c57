package store

import (
	"crypto/sha256"
	"io"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// A file reads the same from the buffer and from the stage. Its hash covers content and extension.
func TestLoad(t *testing.T) {
	const most = 16
	for _, size := range []int{0, 1, most - 1, most, most + 1, 5 * most} {
		content := strings.Repeat("x", size)
		in := &intake{fsys: fstest.MapFS{"a.json": {Data: []byte(content)}}, buffer: make([]byte, most)}
		fsys, got, err := in.load("a.json")
		must.Succeed(t, err)
		if sum := sha256.Sum256([]byte(".json\x00" + content)); got != fbc.Hash(sum[:fbc.HashSize]) {
			t.Errorf("%d bytes: got another hash", size)
		}
		for range 2 {
			f, err := fsys.Open("a.json")
			must.Succeed(t, err)
			if b, err := io.ReadAll(f); string(b) != content || err != nil {
				t.Errorf("%d bytes: got %q, %v", size, b, err)
			}
			must.Succeed(t, f.Close())
		}
		if _, held := fsys.(heldFile); held != (size < most) {
			t.Errorf("%d bytes: held: %t", size, held)
		}
		if _, _, err := in.load("b.json"); !isMissing(err) {
			t.Errorf("of a file that is not there, got %v", err)
		}
	}
}

func isMissing(err error) bool { return err != nil && ignoreMissing(err) == nil }
