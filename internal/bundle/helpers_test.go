package bundle

import (
	"io"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

const someCSV = `apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
  name: foo.v1.0.0
spec: {}
`

// foo are the files of a bundle of package foo.
func foo() map[string]string {
	return map[string]string{
		"manifests/foo.csv.yaml":    someCSV,
		"manifests/two.yaml":        "# a comment\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n",
		"manifests/list.json":       `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"n"}}]}`,
		"manifests/broken.yaml":     "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n---\na: [\n",
		"manifests/README.md":       "no manifest",
		"metadata/annotations.yaml": "annotations:\n  operators.operatorframework.io.bundle.package.v1: foo\n",
		"tests/scorecard/config":    "not content",
	}
}

func read(t testing.TB, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	must.Succeed(t, err)
	return string(b)
}
