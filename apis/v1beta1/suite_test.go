package v1beta1_test

import (
	"context"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/testing/controlplane"
)

const crdDirectory = "../../config/crd"

// The API server that all tests share, and a client of it. Set by TestMain, read only afterwards.
var (
	config *rest.Config
	api    client.Client
)

func TestMain(m *testing.M) {
	controlplane.Main(m, filepath.Join("..", ".."), func(p *controlplane.Plane) (err error) {
		types := runtime.NewScheme()
		if err := v1beta1.AddToScheme(types); err != nil {
			return err
		}
		config = p.Admin
		api, err = client.New(config, client.Options{Scheme: types})
		return err
	})
}

// object reads one object from YAML, as a user would write it.
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("reading %s: %v", text, err)
	}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatalf("reading %s: %v", raw, err)
	}
	return u
}

// create stores obj until the test ends.
func create(t *testing.T, obj client.Object) {
	t.Helper()
	if err := api.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Delete(context.Background(), obj); err != nil {
			t.Error(err)
		}
	})
}

// table requests the table that kubectl get prints. It returns the cells of the only row by column name, and the column
// names in order, with '*' for those of wide output.
func table(t *testing.T, resource, name string) (cells map[string]any, columns []string) {
	t.Helper()
	c := rest.CopyConfig(config)
	c.GroupVersion, c.APIPath, c.NegotiatedSerializer = &v1beta1.GroupVersion, "/apis", scheme.Codecs.WithoutConversion()
	rc, err := rest.RESTClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := rc.Get().Resource(resource).Name(name).
		SetHeader("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var answer metav1.Table
	if err := yaml.Unmarshal(raw, &answer); err != nil {
		t.Fatal(err)
	}
	if len(answer.Rows) != 1 {
		t.Fatalf("got %d rows, want 1", len(answer.Rows))
	}
	cells = map[string]any{}
	for i, column := range answer.ColumnDefinitions {
		cells[column.Name] = answer.Rows[0].Cells[i]
		if column.Priority > 0 {
			column.Name += "*"
		}
		columns = append(columns, column.Name)
	}
	return cells, columns
}
