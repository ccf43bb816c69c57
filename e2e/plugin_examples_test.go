package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPluginExamples runs the commands of docs/plugin.md with the sample catalog, as `make run` serves it.
func TestPluginExamples(t *testing.T) {
	runPluginExamples(t, "../docs/plugin.md", sectionsOf(t, "../docs/plugin.md")...)
}

// TestPluginAuthors runs the commands of docs/authors.md.
func TestPluginAuthors(t *testing.T) {
	runPluginExamples(t, "../docs/authors.md", sectionsOf(t, "../docs/authors.md")...)
}

// runPluginExamples runs sections of a document, each in a shell of its own.
func runPluginExamples(t *testing.T, doc string, sections ...string) {
	t.Helper()
	w := pluginWorld(t)
	w.waitCompressed(t, "sample")
	t.Setenv("PATH", filepath.Dir(pluginBinary(t))+string(filepath.ListSeparator)+os.Getenv("PATH"))
	for _, section := range sections {
		t.Run(section, func(t *testing.T) {
			runExamples(t, examplesOf(t, doc, section), "KUBECONFIG="+w.Kubeconfig, "REGISTRY="+w.registry.address)
		})
	}
}
