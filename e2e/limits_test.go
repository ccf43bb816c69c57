package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestLimits uses an image for each limit that exceeds only this limit. The condition has a reason of its own and
// names the limit and its flag. A catalog within the limits is served.
func TestLimits(t *testing.T) {
	const mebi = 1 << 20
	limits := map[string]int{"--max-unpacked-bytes": 20 * mebi, "--max-file-bytes": 19 * mebi, "--max-files": 20,
		"--max-compression-ratio": 10, "--max-blob-bytes": mebi, "--max-database-bytes": 100 << 10}
	cases := map[string]struct {
		image        v1.Image
		flag, reason string
	}{
		"total":    {filesImage(t, map[string][]byte{"a.json": noise(42), "b.json": noise(42)}), "--max-unpacked-bytes", "CatalogTooLarge"},
		"file":     {filesImage(t, map[string][]byte{"a.json": noise(78)}), "--max-file-bytes", "FileTooLarge"},
		"files":    {filesImage(t, manyFiles(21)), "--max-files", "TooManyFiles"},
		"ratio":    {filesImage(t, map[string][]byte{"a.json": repeated(18 * mebi)}), "--max-compression-ratio", "CompressionRatioExceeded"},
		"blob":     {filesImage(t, map[string][]byte{"a.json": repeated(2 * mebi)}), "--max-blob-bytes", "BlobTooLarge"},
		"database": {legacyImage(t), "--max-database-bytes", "DatabaseTooLarge"},
	}
	var args []string
	for _, flag := range slices.Sorted(maps.Keys(limits)) {
		args = append(args, flag, fmt.Sprint(limits[flag]))
	}
	w := newWorld(t, shared, args...)
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		ref, _ := w.registry.push(t, name, cases[name].image)
		w.createCatalog(t, name, ref, nil)
	}
	sound, digest := w.registry.push(t, "sound", catalogImage(t, soundDir))
	w.createCatalog(t, "sound", sound, nil)
	w.waitTogether()
	w.waitReady(t, "sound", digest)
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			w.eventuallyCatalog(t, name, "refused", func(c *unstructured.Unstructured) error {
				ready, _ := conditionOf(c, "Ready")
				progress, _ := conditionOf(c, "Progressing")
				if ready.status != "False" || ready.reason != test.reason || progress.reason != "Blocked" {
					return fmt.Errorf("Ready is %+v, want False, %s; Progressing is %+v, want Blocked", ready, test.reason, progress)
				}
				for _, part := range []string{test.flag, fmt.Sprint(limits[test.flag])} {
					if !strings.Contains(ready.message, part) {
						return fmt.Errorf("the message %q does not say %q", ready.message, part)
					}
				}
				return nil
			})
		})
	}
}

// filesImage builds an index image of files below /configs.
func filesImage(t *testing.T, files map[string][]byte) v1.Image {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		writeFile(t, dir, name, content)
	}
	return catalogImage(t, dir)
}

func manyFiles(n int) map[string][]byte {
	files := map[string][]byte{}
	for i := range n {
		files[fmt.Sprintf("%d.json", i)] = []byte(`{"schema":"example.com.text"}`)
	}
	return files
}

// repeated returns one blob of this size, which compresses well.
func repeated(size int) []byte {
	return fmt.Appendf(nil, `{"schema":"example.com.text","text":%q}`, strings.Repeat("a", size))
}
