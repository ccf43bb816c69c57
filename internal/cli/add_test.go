package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// runPlugin runs the plugin without a cluster.
func runPlugin(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	streams, _, stdout, stderr := genericiooptions.NewTestIOStreams()
	code = Run(t.Context(), args, streams, "test")
	return code, stdout.String(), stderr.String()
}

func TestAddMakesTheSpecOfFlags(t *testing.T) {
	tests := []struct{ args, want string }{
		{"mine registry.example/c:v1", "image: registry.example/c:v1"},
		{"mine --image-template c:v{kube_major_version}", "imageTemplate: c:v{kube_major_version}"},
		{"mine c --interval 45m --priority 7 --suspend", "{image: c, pollingInterval: 45m, priority: 7, suspend: true}"},
		{"mine c --schedule @daily --display-name M --publisher P --description D --config-dir /c",
			"{image: c, pollingSchedule: '@daily', displayName: M, publisher: P, description: D, extractContent: {configDir: /c}}"},
		{"mine c --pull-secret a,b --pull-secret c --insecure",
			"{image: c, registry: {pullSecrets: [{name: a}, {name: b}, {name: c}], insecure: true}}"},
		{"mine c --ca-bundle x --client-certificate-secret y --proxy-secret z",
			"{image: c, registry: {caBundle: {name: x}, clientCertificate: {name: 'y'}, proxy: {name: z}}}"},
		{"mine c --ca-bundle Secret/x:y.crt --mirror m.example --mirror quay.io/a=m.example/b",
			"{image: c, registry: {caBundle: {kind: Secret, name: x, key: y.crt}, mirrors: [{location: m.example}, {source: quay.io/a, location: m.example/b}]}}"},
		{"mine c --ca-file testdata/ca.crt", "{image: c, registry: {caBundle: {kind: ConfigMap, name: mine-ca, key: ca.crt}}}"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			code, out, errs := runPlugin(t, append([]string{"add", "--dry-run=client", "-o=yaml"}, strings.Fields(tt.args)...)...)
			if code != exitDone {
				t.Fatalf("exit code %d: %s", code, errs)
			}
			var got v1beta1.CatalogSource
			if err := yaml.UnmarshalStrict([]byte(out), &got); err != nil {
				t.Fatal(err)
			}
			want := v1beta1.CatalogSource{TypeMeta: metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: "CatalogSource"}}
			want.Name = "mine"
			if err := yaml.UnmarshalStrict([]byte(tt.want), &want.Spec); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAddRefuses(t *testing.T) {
	tests := []struct {
		args string
		code int
		says string
	}{
		{"", exitUsage, "how the catalog is to be called"},
		{"mine", exitUsage, "of which image"},
		{"mine a b", exitUsage, "a name and an image only"},
		{"mine a --image-template b", exitUsage, "not both"},
		{"mine a --ca-bundle pod/x", exitUsage, "neither configmap nor secret"},
		{"mine a --ca-bundle secret/", exitUsage, "has no name"},
		{"mine a --ca-bundle x --ca-file y", exitUsage, "not both"},
		{"mine a --interval soon", exitUsage, "--interval"},
		{"mine a --dry-run=maybe", exitUsage, "dry-run"},
		{"mine a --output=table", exitUsage, "table"},
		{"mine a --ca-file testdata/none", exitNotFound, `--ca-file: there is no file "testdata/none"`},
		{"registry.example/c:v1 mine", exitUsage, "the name comes first: kubectl catalog add NAME IMAGE"},
		{"registry.example/c:v1", exitUsage, "the name comes first"},
		{"mine https://quay.io/foo/bar:v1", exitUsage, `"https://quay.io/foo/bar:v1" is no image reference: write registry/repository:tag, without https://`},
		{"mine quay.io/foo/bar:la!test", exitUsage, `"quay.io/foo/bar:la!test" is no image reference: write registry/repository:tag, in lower case but for the tag`},
		{"mine quay.io/foo/bar:", exitUsage, "is no image reference"},
		{"mine quay.io/Foo/bar:v1", exitUsage, "is no image reference"},
		{"mine quay.io/foo/bar@sha256:abc", exitUsage, "registry/repository@sha256: and 64 hex digits"},
		{"a.b c", exitUsage, `"a.b" cannot be a catalog's name`},
		{"Mine c", exitUsage, "lower-case"},
		{"mine a --ca-file add_test.go", exitFailure, "nothing in PEM form"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			args := append([]string{"add"}, strings.Fields(tt.args)...)
			if !strings.Contains(tt.args, "dry-run") {
				args = append(args, "--dry-run=client")
			}
			code, out, errs := runPlugin(t, args...)
			if code != tt.code || out != "" || !strings.Contains(errs, tt.says) {
				t.Errorf("exit code %d, want %d; printed %q and %q, want %q", code, tt.code, out, errs, tt.says)
			}
		})
	}
}

func TestRefusal(t *testing.T) {
	invalid := func(causes ...metav1.StatusCause) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid, Details: &metav1.StatusDetails{Causes: causes}}}
	}
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"of a field", invalid(metav1.StatusCause{Field: "spec.pollingInterval", Message: `Invalid value: "5\"ms": pollingInterval must be at least 1s`}),
			"pollingInterval must be at least 1s"},
		{"of the spec", invalid(metav1.StatusCause{Field: "spec", Message: "Invalid value: neither image nor imageTemplate is set: name one"}),
			"neither image nor imageTemplate is set: name one"},
		{"of an object", invalid(metav1.StatusCause{Field: "<nil>", Message: `Invalid value: {"a":"b"}: metadata.name must be short`}),
			"metadata.name must be short"},
		{"of the schema", invalid(
			metav1.StatusCause{Field: "spec.registry.caBundle.kind", Message: `Unsupported value: "x": supported values: "ConfigMap"`},
			metav1.StatusCause{Field: "<nil>", Message: "Invalid value: null: some validation rules were not checked because the object was invalid"}),
			`spec.registry.caBundle.kind: Unsupported value: "x": supported values: "ConfigMap"`},
		{"of a policy", apierrors.NewForbidden(v1beta1.GroupVersion.WithResource("catalogsources").GroupResource(), "mine",
			errors.New("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: name a tag")), "name a tag"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := explain(tt.err); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// A ConfigMap that somebody else made is not to go with the catalog, even if it holds the same authorities.
func TestBundleMapOfSomebodyElse(t *testing.T) {
	for _, test := range []struct {
		existed bool
		manager string
		want    bool
	}{
		{false, "", true},
		{true, fieldManager, true}, // an attempt that was interrupted
		{true, "kubectl-create", false},
	} {
		b := &bundleMap{existed: test.existed, object: &corev1.ConfigMap{}}
		b.object.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: test.manager}}
		if got := b.isOurs(); got != test.want {
			t.Errorf("%+v: got %v", test, got)
		}
		if test.want {
			continue
		}
		if err := b.own(t.Context(), &v1beta1.CatalogSource{}); err != nil || b.object.OwnerReferences != nil {
			t.Errorf("%+v: error %v, owners %v", test, err, b.object.OwnerReferences)
		}
	}
}
