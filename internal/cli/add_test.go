package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
)

// runPlugin runs the plugin without a cluster.
func runPlugin(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	streams, _, stdout, stderr := genericiooptions.NewTestIOStreams()
	code = Run(t.Context(), args, streams, "test")
	return code, stdout.String(), stderr.String()
}

func TestAddSetsSpecFromFlags(t *testing.T) {
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
			"{image: c, registry: {caBundle: {kind: Secret, name: x, key: y.crt}, mirrors: [{location: m.example}, {source: quay.io/a, " +
				"location: m.example/b}]}}"},
		{"mine c --ca-file testdata/ca.crt", "{image: c, registry: {caBundle: {kind: ConfigMap, name: mine-ca, key: ca.crt}}}"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			code, out, errs := runPlugin(t, append([]string{"add", "--dry-run=client", "-o=yaml"}, strings.Fields(tt.args)...)...)
			if code != exit.OK {
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
		{"", exit.Usage, "specify a name and an image"},
		{"mine", exit.Usage, "specify the image"},
		{"mine a b", exit.Usage, "too many arguments"},
		{"mine a --image-template b", exit.Usage, "not both"},
		{"mine a --ca-bundle pod/x", exit.Usage, "valid kinds are configmap, secret"},
		{"mine a --ca-bundle secret/", exit.Usage, "has no name"},
		{"mine a --ca-bundle x --ca-file y", exit.Usage, "not both"},
		{"mine a --interval soon", exit.Usage, "--interval"},
		{"mine a --dry-run=maybe", exit.Usage, "dry-run"},
		{"mine a --output=table", exit.Usage, "table"},
		{"mine a --ca-file testdata/none", exit.NotFound, `--ca-file: file "testdata/none" not found`},
		{"registry.example/c:v1 mine", exit.Usage, "the name comes first: kubectl catalog add NAME IMAGE"},
		{"registry.example/c:v1", exit.Usage, "the name comes first"},
		{
			"mine https://quay.io/foo/bar:v1",
			exit.Usage,
			`"https://quay.io/foo/bar:v1" is not a valid image reference: write registry/repository:tag, without https://`,
		},
		{
			"mine quay.io/foo/bar:la!test",
			exit.Usage,
			`"quay.io/foo/bar:la!test" is not a valid image reference: write registry/repository:tag, all lower case except the tag`,
		},
		{"mine quay.io/foo/bar:", exit.Usage, "is not a valid image reference"},
		{"mine quay.io/Foo/bar:v1", exit.Usage, "is not a valid image reference"},
		{"mine quay.io/foo/bar@sha256:abc", exit.Usage, "registry/repository@sha256: and 64 hex digits"},
		{"a.b c", exit.Usage, `invalid name "a.b"`},
		{"Mine c", exit.Usage, "lower-case"},
		{"mine a --ca-file add_test.go", exit.Failure, "contains no PEM block"},
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
