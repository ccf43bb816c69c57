package bundle

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// blob returns a bundle of a catalog with objects.
func blob(objects ...string) []byte {
	var properties []string
	for _, object := range objects {
		data, _ := json.Marshal(map[string]string{"data": base64.StdEncoding.EncodeToString([]byte(object))})
		properties = append(properties, fmt.Sprintf(`{"type":"olm.bundle.object","value":%s}`, data))
	}
	return fmt.Appendf(nil, `{"schema":"olm.bundle","name":"foo.v1","package":"foo","image":"example.com/foo:v1","properties":[%s]}`,
		strings.Join(properties, ","))
}

// The objects of a catalog are files, whose names are those of the objects.
func TestFromCatalog(t *testing.T) {
	role := `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"r"}}`
	b, err := ReadBlob(blob(someCSV, role, role, "a: [", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"../x"}}`))
	must.Succeed(t, err)
	if b.Package != "foo" || b.Image != "example.com/foo:v1" || !b.HasContent() {
		t.Errorf("got %+v", b)
	}
	a, err := b.Archive()
	must.Succeed(t, err)
	defer a.Close()
	got := map[string]string{}
	for _, f := range a.Content.Files {
		data, _ := a.File(f.Path)
		got[f.Path] = read(t, data)
	}
	want := map[string]string{
		"manifests/foo.v1.0.0.clusterserviceversion.yaml": someCSV,
		"manifests/r.role.json":                           role,
		"manifests/0002-r.role.json":                      role,
		"manifests/0003.yaml":                             "a: [",
		"manifests/0004.yaml":                             `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"../x"}}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if c := a.Content; !c.FromCatalog || c.Pinned || c.Digest != "" || len(c.Faults()) != 1 {
		t.Errorf("got %+v", c)
	}
	for _, text := range []string{`[]`, string(blob())[:20], `{"properties":[{"type":"olm.bundle.object","value":{"data":"%"}}]}`} {
		if _, err := ReadBlob([]byte(text)); err == nil {
			t.Errorf("%s is a bundle", text)
		}
	}
	if b, err := ReadBlob(blob()); err != nil || b.HasContent() {
		t.Errorf("without objects: got %+v, %v", b, err)
	}
}

func FuzzArchive(f *testing.F) {
	var out bytes.Buffer
	content := func() ([]byte, error) { return []byte(someCSV), nil }
	must.Succeed(f, Write(&out, Content{Image: "x"}, []Source{{"manifests/x.yaml", true, content}}))
	f.Add(out.Bytes())
	f.Fuzz(func(_ *testing.T, data []byte) {
		x, err := ReadIndex(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		a := x.Open(bytes.NewReader(data))
		_, _ = a.Objects("", "")
		for _, file := range x.Content.Files {
			if data, err := a.File(file.Path); err == nil {
				_, _ = io.Copy(io.Discard, data)
			}
		}
	})
}
