package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/operator-catalogs/catalogd/internal/testing/httpscript"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// TestHTTP runs the script of internal/serve against the built program.
func TestHTTP(t *testing.T) {
	const testdata = "../internal/serve/testdata"
	script, err := os.ReadFile(filepath.Join(testdata, "http.txt"))
	must.Succeed(t, err)
	steps, err := httpscript.Parse(string(script))
	must.Succeed(t, err)

	w := newWorld(t, shared)
	for name, edit := range map[string]func(*unstructured.Unstructured){
		"small": nil,
		"icons": func(c *unstructured.Unstructured) {
			must.Succeed(t, unstructured.SetNestedField(c.Object, "configs", "spec", "extractContent", "configDir"))
		},
	} {
		ref, _ := w.registry.push(t, name, catalogImage(t, filepath.Join(testdata, name)))
		w.createCatalog(t, name, ref, edit)
	}
	for _, name := range []string{"small", "icons"} {
		w.eventuallyCatalog(t, name, "served", func(c *unstructured.Unstructured) error { // the packages of icons are invalid
			return wantCondition(c, "Serving", "True")
		})
		w.waitCompressed(t, name)
	}
	httpscript.Run(t, "http://"+w.content, steps)
}
