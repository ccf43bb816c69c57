package unpack

import (
	"net/http"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/testing/registry"
)

// Progress counts the compressed bytes of all layers and starts over with each call.
func TestProgress(t *testing.T) {
	first := gzipped(t, archive(t, file("configs/a", noise(1<<20))))
	second := gzipped(t, archive(t, file("configs/b", noise(100))))
	digest, err := imageLayer(t, second).Digest()
	if err != nil {
		t.Fatal(err)
	}
	suffix, progress := digest.String(), &Progress{}
	all := int64(len(first) + len(second))
	ref := push(t, registry.Start(t, alter(&suffix, func(w http.ResponseWriter, body []byte) {
		if done, total := progress.Bytes(); done != int64(len(first)) || total != all {
			t.Errorf("before the second layer: %d of %d bytes, want %d of %d", done, total, len(first), all)
		}
		_, _ = w.Write(body)
	})), imageOf(t, "/configs", first, second))
	for range 2 {
		if _, err := Image(t.Context(), ref, newScratch(t).root, Options{Progress: progress}); err != nil {
			t.Fatal(err)
		}
		if done, total := progress.Bytes(); done != all || total != all {
			t.Errorf("at the end: %d of %d bytes, want %d", done, total, all)
		}
	}
}
