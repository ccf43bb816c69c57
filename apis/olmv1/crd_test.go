package olmv1_test

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/apis/olmv1"
	"github.com/operator-catalogs/catalogd/internal/testing/controlplane"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

const crdDirectory = "../../config/crd/olmv1"

// api is a client of the API server that all tests share. Set by TestMain, read only afterwards.
var api client.Client

func TestMain(m *testing.M) {
	controlplane.Main(m, filepath.Join("..", ".."), func(p *controlplane.Plane) error {
		types := runtime.NewScheme()
		if err := olmv1.AddToScheme(types); err != nil {
			return err
		}
		for _, args := range [][]string{
			{"create", "-k", crdDirectory},
			{"wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"},
		} {
			if _, err := p.Kubectl(context.Background(), args...); err != nil {
				return err
			}
		}
		var err error
		api, err = client.New(p.Admin, client.Options{Scheme: types})
		return err
	})
}

// TestSchema compares the Go type with the schema of the CRD: each field of the one is in the other.
func TestSchema(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(crdDirectory, "olm.operatorframework.io_clustercatalogs.yaml"))
	must.Succeed(t, err)
	var crd apiextensionsv1.CustomResourceDefinition
	must.Succeed(t, yaml.UnmarshalStrict(content, &crd))
	if len(crd.Spec.Versions) != 1 || crd.Spec.Versions[0].Name != olmv1.GroupVersion.Version || crd.Spec.Group != olmv1.GroupName {
		t.Fatalf("the CRD has other versions: %+v", crd.Spec.Versions)
	}
	compare(t, "ClusterCatalog", reflect.TypeFor[olmv1.ClusterCatalog](), *crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
}

func compare(t *testing.T, path string, goType reflect.Type, schema apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	for goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	kinds := map[reflect.Kind]string{
		reflect.String: "string", reflect.Int: "integer", reflect.Int32: "integer", reflect.Int64: "integer",
		reflect.Struct: "object", reflect.Slice: "array",
	}
	want := kinds[goType.Kind()]
	if goType == reflect.TypeFor[metav1.Time]() {
		want = "string"
	}
	if schema.Type != want {
		t.Errorf("%s: the schema has type %s, want %s", path, schema.Type, want)
	}
	switch {
	case schema.Type == "array":
		compare(t, path+"[]", goType.Elem(), *schema.Items.Schema)
	case schema.Type == "object" && goType != reflect.TypeFor[metav1.ObjectMeta]():
		properties := schema.Properties
		for name, field := range jsonFields(goType) {
			property, ok := properties[name]
			if !ok {
				t.Errorf("%s.%s is not in the schema", path, name)
				continue
			}
			compare(t, path+"."+name, field, property)
			delete(properties, name)
		}
		for name := range properties {
			t.Errorf("%s.%s is not in the Go type", path, name)
		}
	}
}

// jsonFields returns the types of a struct's fields by their names in JSON.
func jsonFields(goType reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for i := range goType.NumField() {
		field := goType.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if options == "inline" {
			for name, inlined := range jsonFields(field.Type) {
				out[name] = inlined
			}
			continue
		}
		out[name] = field.Type
	}
	return out
}

const sha = "@sha256:abcdef123456789abcdef123456789abc"

// The cases of operator-controller's tests of its CRD (api/v1/clustercatalog_types_test.go), for a real API server.
func TestValidationOfImages(t *testing.T) {
	const (
		badName  = "a valid name is required"
		badHost  = "must start with a valid domain"
		noDigest = "must end with a digest"
	)
	for _, test := range []struct {
		name     string
		ref      string
		minutes  int
		spec     string // the error for the ref in the spec; "" if it is valid
		resolved string // the same for the status
	}{
		{
			name: "digest with interval", ref: "docker.io/test-image" + sha, minutes: 1,
			spec: "cannot specify pollIntervalMinutes while using digest-based image",
		},
		{name: "digest", ref: "docker.io/test-image" + sha},
		{name: "invalid domain", ref: "-quay+docker/foo/bar" + sha, spec: badHost, resolved: badHost},
		{name: "invalid name", ref: "docker.io/FOO/BAR" + sha, spec: badName, resolved: badName},
		{
			name: "invalid algorithm", ref: "docker.io/foo/bar@99-problems:abcdef123456789abcdef123456789abc",
			spec: "digest algorithm is not valid", resolved: "digest algorithm is not valid",
		},
		{
			name: "short digest", ref: "docker.io/foo/bar@sha256:abcdef123456789",
			spec: "the encoded string must be at least 32 characters", resolved: "the encoded string must be at least 32 characters",
		},
		{
			name: "digest without hex", ref: "docker.io/foo/bar@sha256:XYZxy123456789abcdef123456789abc",
			spec: "the encoded string must only contain hex characters", resolved: "the encoded string must only contain hex characters",
		},
		{name: "no tag or digest", ref: "docker.io/foo/bar", spec: "must end with a digest or a tag", resolved: noDigest},
		{
			name: "long tag", ref: "docker.io/foo/bar:" + strings.Repeat("x", 128),
			spec: "the tag must not be more than 127 characters", resolved: noDigest,
		},
		{name: "invalid tag", ref: "docker.io/foo/bar:-foo_bar-", spec: "valid tags must begin with a word character", resolved: noDigest},
		{name: "tag", ref: "docker.io/foo/bar:v1.0.0", resolved: noDigest},
		{name: "tag with interval", ref: "docker.io/foo/bar:v1.0.0", minutes: 5, resolved: noDigest},
		{name: "only a domain with port", ref: "docker.io:8080", spec: badName, resolved: badName},
		{name: "domain with port", ref: "my-subdomain.docker.io:8080/foo/bar:latest", resolved: noDigest},
		{name: "tag that ends with a hyphen", ref: "my-subdomain.docker.io:8080/foo/bar:latest-", resolved: noDigest},
	} {
		t.Run(test.name, func(t *testing.T) {
			image := &olmv1.ImageSource{Ref: test.ref}
			if test.minutes > 0 {
				image.PollIntervalMinutes = &test.minutes
			}
			wantInvalid(t, "spec", test.spec, tryCreate(t, olmv1.CatalogSource{Type: olmv1.SourceTypeImage, Image: image}))
			wantInvalid(t, "status", test.resolved, tryStatus(t, olmv1.ClusterCatalogStatus{ResolvedSource: &olmv1.ResolvedCatalogSource{
				Type: olmv1.SourceTypeImage, Image: &olmv1.ResolvedImageSource{Ref: test.ref},
			}}))
		})
	}
}

func TestValidationOfSources(t *testing.T) {
	const missing = "image is required when source type is Image, and forbidden otherwise"
	valid := &olmv1.ImageSource{Ref: "docker.io/foo/bar:latest"}
	wantInvalid(t, "source without image", missing, tryCreate(t, olmv1.CatalogSource{Type: olmv1.SourceTypeImage}))
	wantInvalid(t, "source with image", "", tryCreate(t, olmv1.CatalogSource{Type: olmv1.SourceTypeImage, Image: valid}))
	wantInvalid(t, "another type", `supported values: "Image"`, tryCreate(t, olmv1.CatalogSource{Type: "Git", Image: valid}))
	wantInvalid(t, "resolved source without image", "image: Required value",
		tryStatus(t, olmv1.ClusterCatalogStatus{ResolvedSource: &olmv1.ResolvedCatalogSource{Type: olmv1.SourceTypeImage}}))
	wantInvalid(t, "resolved source with image", "", tryStatus(t, olmv1.ClusterCatalogStatus{ResolvedSource: &olmv1.ResolvedCatalogSource{
		Type: olmv1.SourceTypeImage, Image: &olmv1.ResolvedImageSource{Ref: "docker.io/foo/bar" + sha},
	}}))
}

func TestValidationOfURLs(t *testing.T) {
	for base, want := range map[string]string{
		"https://catalogd-service.olmv1-system.svc/catalogs/operatorhubio": "",
		"file://somefilepath": "scheme must be either http or https",
		"notevenarealURL":     "must be a valid URL",
	} {
		wantInvalid(t, base, want, tryStatus(t, olmv1.ClusterCatalogStatus{URLs: &olmv1.ClusterCatalogURLs{Base: base}}))
	}
}

// tryCreate returns what the API server says of a ClusterCatalog with a source, without creating it.
func tryCreate(t *testing.T, source olmv1.CatalogSource) error {
	t.Helper()
	c := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: "tried"}, Spec: olmv1.ClusterCatalogSpec{Source: source}}
	return api.Create(t.Context(), c, client.DryRunAll)
}

// tryStatus returns what the API server says of a status, without writing it.
func tryStatus(t *testing.T, status olmv1.ClusterCatalogStatus) error {
	t.Helper()
	c := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: "stored"}}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
		c.Spec.Source = olmv1.CatalogSource{Type: olmv1.SourceTypeImage, Image: &olmv1.ImageSource{Ref: "docker.io/foo/bar:latest"}}
		must.Succeed(t, api.Create(t.Context(), c))
	}
	c.Status = status
	return api.Status().Update(t.Context(), c, client.DryRunAll)
}

// wantInvalid checks that the API server refuses an object with an error; "": it accepts it.
func wantInvalid(t *testing.T, what, want string, err error) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: refused: %v", what, err)
	case want != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: got %v, want %q", what, err, want)
	}
}
