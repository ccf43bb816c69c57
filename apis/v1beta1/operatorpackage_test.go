package v1beta1_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// TestOperatorPackageRoundTrip writes every field through the typed client and compares the stored object with the file.
// Neither the Go types nor the schema may lose or change a value.
func TestOperatorPackageRoundTrip(t *testing.T) {
	raw, err := os.ReadFile("testdata/operatorpackage.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := object(t, string(raw)).Object
	pkg := &v1beta1.OperatorPackage{}
	if err := yaml.UnmarshalStrict(raw, pkg); err != nil {
		t.Fatal(err)
	}
	create(t, pkg)

	got := object(t, "{apiVersion: catalogd.operatorframework.io/v1beta1, kind: OperatorPackage}")
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(pkg), got); err != nil {
		t.Fatal(err)
	}
	ignored := func(key string, _ any) bool {
		return slices.Contains([]string{"creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"}, key)
	}
	if diff := cmp.Diff(want, got.Object, cmpopts.IgnoreMapEntries(ignored)); diff != "" {
		t.Errorf("after a round trip (-want +got):\n%s", diff)
	}

	stored := &v1beta1.OperatorPackage{}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(pkg), stored); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(pkg.Status, stored.Status); diff != "" {
		t.Errorf("status after a round trip (-want +got):\n%s", diff)
	}
}

// The file of the round trip sets every field of the types.
func TestOperatorPackageRoundTripIsWhole(t *testing.T) {
	raw, err := os.ReadFile("testdata/operatorpackage.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd, err := os.ReadFile(crdDirectory + "/catalogd.operatorframework.io_operatorpackages.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema schemaNode `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(crd, &schema); err != nil {
		t.Fatal(err)
	}
	root := schema.Spec.Versions[0].Schema.OpenAPIV3Schema
	if len(root.Properties["status"].Properties) == 0 {
		t.Fatal("found no status in the CRD")
	}
	for _, path := range root.missing("", object(t, string(raw)).Object) {
		t.Errorf("testdata/operatorpackage.yaml has no %s", path)
	}
}

// schemaNode is the part of an OpenAPI schema with the fields.
type schemaNode struct {
	Properties map[string]schemaNode `json:"properties"`
	Items      *schemaNode           `json:"items"`
}

// missing returns the paths of unset fields.
func (s schemaNode) missing(path string, values ...any) (paths []string) {
	if s.Items != nil {
		var items []any
		for _, value := range values {
			list, _ := value.([]any)
			items = append(items, list...)
		}
		return s.Items.missing(path+"[]", items...)
	}
	for name, property := range s.Properties {
		var found []any
		for _, value := range values {
			if child, ok := value.(map[string]any)[name]; ok {
				found = append(found, child)
			}
		}
		if len(found) == 0 {
			paths = append(paths, path+"."+name)
			continue
		}
		paths = append(paths, property.missing(path+"."+name, found...)...)
	}
	return paths
}

// Fields that clients of PackageManifest read unconditionally are present in every package.
func TestOperatorPackageShape(t *testing.T) {
	pkg := operatorPackage("poor", "community", 0)
	pkg.Status = v1beta1.OperatorPackageStatus{Channels: []v1beta1.PackageChannel{{Entries: []v1beta1.ChannelEntry{}}}}
	create(t, pkg)
	got := object(t, "{apiVersion: catalogd.operatorframework.io/v1beta1, kind: OperatorPackage}")
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(pkg), got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"catalogSource": "", "catalogSourceDisplayName": "", "catalogSourcePublisher": "", "catalogSourceNamespace": "",
		"packageName": "", "defaultChannel": "", "provider": map[string]any{},
		"channels": []any{map[string]any{
			"name": "", "currentCSV": "", "entries": []any{},
			"currentCSVDesc": map[string]any{
				"provider": map[string]any{}, "customresourcedefinitions": map[string]any{}, "apiservicedefinitions": map[string]any{},
			},
		}},
	}
	if diff := cmp.Diff(want, got.Object["status"]); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

// All of these values occur in real catalogs.
func TestOperatorPackageTakesRealData(t *testing.T) {
	description := v1beta1.CSVDescription{
		Keywords:        []string{"database", "database", "", "Ünicode, with: everything"},
		Links:           []v1beta1.AppLink{{Name: "x", URL: "not a url"}, {Name: "x", URL: "not a url"}},
		Maintainers:     []v1beta1.Maintainer{{Name: "x"}, {Name: "x"}, {Email: "no-address"}},
		Annotations:     map[string]string{"not a/legal/annotation key!": strings.Repeat("x", 100_000), "": ""},
		LongDescription: strings.Repeat("# Markdown\n", 20_000),
		Version:         "not.semver",
		InstallModes:    []v1beta1.InstallMode{{Type: "Whatever"}, {Type: "Whatever", Supported: true}},
		RelatedImages:   slices.Repeat([]string{"quay.io/x/y@sha256:00"}, 500),
	}
	entries := slices.Repeat([]v1beta1.ChannelEntry{{Name: "x.v1", Version: "1.0.0"}}, 2000)
	channel := v1beta1.PackageChannel{Name: "no label value, " + strings.Repeat("x", 300), CurrentCSVDesc: description, Entries: entries}
	pkg := operatorPackage("real", "community", 0)
	pkg.Status.Channels = []v1beta1.PackageChannel{channel, channel}
	want := pkg.Status.DeepCopy()
	create(t, pkg)
	if diff := cmp.Diff(*want, pkg.Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestOperatorPackageFieldSelectors(t *testing.T) {
	create(t, operatorPackage("etcd", "first", 0))
	create(t, operatorPackage("etcd", "second", 10))
	create(t, operatorPackage("other", "second", 10))
	for selector, want := range map[string][]string{
		"spec.catalog=second":                       {"etcd.second", "other.second"},
		"spec.packageName=etcd":                     {"etcd.first", "etcd.second"},
		"spec.packageName=etcd,spec.catalog=second": {"etcd.second"},
		"spec.priority=10":                          {"etcd.second", "other.second"},
		"spec.priority=0":                           {"etcd.first"},
		"spec.catalog=third":                        nil,
	} {
		var list v1beta1.OperatorPackageList
		if err := api.List(t.Context(), &list, &client.ListOptions{Raw: &metav1.ListOptions{FieldSelector: selector}}); err != nil {
			t.Errorf("%s: %v", selector, err)
			continue
		}
		var got []string
		for _, pkg := range list.Items {
			got = append(got, pkg.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", selector, diff)
		}
	}
}

func TestOperatorPackageColumns(t *testing.T) {
	pkg := operatorPackage("etcd", "community", 0)
	pkg.Status.Summary = v1beta1.PackageSummary{DisplayName: "etcd", Catalog: "Community Operators", Channel: "stable", Version: "0.9.4"}
	create(t, pkg)
	cells, columns := table(t, "operatorpackages", "etcd.community")
	if diff := cmp.Diff([]string{"Name", "Display Name", "Catalog", "Channel", "Version", "Age"}, columns); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	if cells["Age"] == "" {
		t.Error("no age")
	}
	delete(cells, "Age")
	want := map[string]any{
		"Name": "etcd.community", "Display Name": "etcd", "Catalog": "Community Operators", "Channel": "stable", "Version": "0.9.4",
	}
	if diff := cmp.Diff(want, cells); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
}

func TestDiscovery(t *testing.T) {
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	list, err := d.ServerResourcesForGroupVersion(v1beta1.GroupVersion.String())
	if err != nil {
		t.Fatal(err)
	}
	type resource struct {
		ShortNames, Categories []string
		Namespaced             bool
	}
	got := map[string]resource{}
	for _, r := range list.APIResources {
		got[r.Name] = resource{r.ShortNames, r.Categories, r.Namespaced}
	}
	want := map[string]resource{
		"catalogsources":        {[]string{"catd"}, []string{"catalogd"}, false},
		"catalogsources/status": {},
		"operatorpackages":      {[]string{"opkg"}, []string{"catalogd"}, false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}

func operatorPackage(name, catalog string, priority int32) *v1beta1.OperatorPackage {
	return &v1beta1.OperatorPackage{
		ObjectMeta: metav1.ObjectMeta{Name: name + "." + catalog},
		Spec:       v1beta1.OperatorPackageSpec{PackageName: name, Catalog: catalog, Priority: priority},
	}
}

// A nil list must not become null, which the API server rejects.
func TestOperatorPackageNilLists(t *testing.T) {
	raw, err := json.Marshal(v1beta1.OperatorPackage{Status: v1beta1.OperatorPackageStatus{Channels: []v1beta1.PackageChannel{{}}}})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), "null") {
		t.Errorf("got a null in %s", raw)
	}
}
