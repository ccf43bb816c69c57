package e2e

import (
	"testing"
)

// TestWithoutStreamedLists disables streaming lists, which API servers before Kubernetes 1.32, and of 1.33, do not
// support: catalogd lists, and watches from there on.
func TestWithoutStreamedLists(t *testing.T) {
	t.Setenv("KUBE_FEATURE_WatchListClient", "false") // of client-go
	w := newWorld(t, shared)
	ref, digest := w.registry.push(t, "sample", catalogImage(t, sampleCatalog))
	w.createCatalog(t, "sample", ref, nil)
	w.waitReady(t, "sample", digest)
}
