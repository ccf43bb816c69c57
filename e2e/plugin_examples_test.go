package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPluginExamples runs the commands of docs/plugin.md with the sample catalog, as `make run` serves it.
func TestPluginExamples(t *testing.T) {
	w := pluginWorld(t)
	w.waitCompressed(t, "sample")
	t.Setenv("PATH", filepath.Dir(pluginBinary(t))+string(filepath.ListSeparator)+os.Getenv("PATH"))
	const doc = "../docs/plugin.md"
	for _, section := range sectionsOf(t, doc) {
		t.Run(section, func(t *testing.T) {
			runExamples(t, examplesOf(t, doc, section), "KUBECONFIG="+w.Kubeconfig, "REGISTRY="+w.registry.address)
		})
	}
}
