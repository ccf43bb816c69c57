package v1beta1_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

const (
	tag    = "quay.io/operatorhubio/catalog:latest"
	digest = "quay.io/operatorhubio/catalog@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// rules lists specs that each rule of the CatalogSource schema rejects, and specs that it barely accepts.
var rules = []struct {
	rule   string
	says   string   // the error message
	refuse []string // specs, as YAML flow mappings without the braces
	accept []string
}{{
	rule:   "one way of polling",
	says:   "pollingInterval and pollingSchedule are mutually exclusive: remove one of them",
	refuse: []string{`image: "` + tag + `", pollingInterval: 45m, pollingSchedule: "@daily"`},
	accept: []string{`image: "` + tag + `"`, `image: "` + tag + `", pollingInterval: 45m`, `image: "` + tag + `", pollingSchedule: "@daily"`},
}, {
	rule:   "include is not empty",
	says:   "include must not be empty: add a rule, such as {package: foo}, or remove it",
	refuse: []string{`image: x, include: []`},
	accept: []string{`image: x, include: [{package: foo}, {package: foo, channels: [a], onlyHeads: true}]`},
}, {
	rule:   "exclude is not empty",
	says:   "exclude must not be empty: add a rule, such as {package: foo}, or remove it",
	refuse: []string{`image: x, exclude: []`},
	accept: []string{`image: x, exclude: [{package: foo}, {package: bar, channels: [a]}]`, `image: x, include: [{package: foo}], exclude: [{package: bar}]`},
}, {
	rule:   "the default channel is included",
	says:   "defaultChannel is not in channels: add it there, or choose another one",
	refuse: []string{`image: x, include: [{package: foo, channels: [a], defaultChannel: b}]`},
	accept: []string{`image: x, include: [{package: foo, channels: [a, b], defaultChannel: b}, {package: bar, defaultChannel: c}]`},
}, {
	rule:   "a lower bound is a version",
	says:   "minVersion must be a semantic version, such as 1.2.0",
	refuse: []string{`image: x, include: [{package: foo, minVersion: v1.2.0}]`, `image: x, include: [{package: foo, minVersion: "1.2"}]`, `image: x, include: [{package: foo, minVersion: 01.2.0}]`},
	accept: []string{`image: x, include: [{package: foo, minVersion: 1.2.0}]`, `image: x, include: [{package: foo, minVersion: 1.2.0-rc.1+5}]`},
}, {
	rule:   "an upper bound is a version",
	says:   "maxVersion must be a semantic version, such as 1.2.0",
	refuse: []string{`image: x, include: [{package: foo, maxVersion: latest}]`},
	accept: []string{`image: x, include: [{package: foo, minVersion: 1.0.0, maxVersion: 1.2.0}]`},
}, {
	rule:   "no default channel of an excluded package",
	says:   "defaultChannel has no effect if the whole package is excluded: name channels, or remove it",
	refuse: []string{`image: x, exclude: [{package: foo, defaultChannel: a}]`},
	accept: []string{`image: x, exclude: [{package: foo, channels: [b], defaultChannel: a}]`},
}, {
	rule:   "no interval with a digest",
	says:   "a digest reference is never polled: remove spec.pollingInterval or name the image by tag",
	refuse: []string{`image: "` + digest + `", pollingInterval: 45m`},
	accept: []string{`image: "` + digest + `"`, `image: "` + digest + `", imageTemplate: "x:{kube_minor_version}", pollingInterval: 45m`},
}, {
	rule:   "no schedule with a digest",
	says:   "a digest reference is never polled: remove spec.pollingSchedule or name the image by tag",
	refuse: []string{`image: "` + digest + `", pollingSchedule: "@daily"`},
	accept: []string{`image: "` + digest + `"`},
}, {
	rule:   "image is there",
	says:   "neither image nor imageTemplate is set: name a catalog image, such as quay.io/operatorhubio/catalog:latest",
	refuse: []string{`displayName: x`},
	accept: []string{`image: x`, `imageTemplate: x`, `image: x, imageTemplate: z`},
}, {
	rule:   "image is not empty",
	says:   "image must not be empty: name a catalog image, such as quay.io/operatorhubio/catalog:latest",
	refuse: []string{`image: ""`},
	accept: []string{`image: x`},
}, {
	rule:   "image without white space",
	says:   "image must not contain white space: remove it",
	refuse: []string{`image: " x"`, `image: "x "`, `image: "x y"`, `image: "x\n"`, `image: "\t"`},
	accept: []string{`image: localhost:5000/x/y_z--0:V1.2-3`},
}, {
	rule:   "image without scheme",
	says:   "image must not begin with a scheme: write registry/repository:tag without https:// or docker://",
	refuse: []string{`image: "https://quay.io/x:y"`, `image: "docker://x"`},
	accept: []string{`image: "quay.io/x:y"`, `image: "127.0.0.1:5005/x"`, `image: "[::1]:5000/x"`},
}, {
	rule:   "image is of bounded length",
	says:   "spec.image: Too long: may not be more than 1000 bytes",
	refuse: []string{`image: ` + strings.Repeat("x", 1001)},
	accept: []string{`image: ` + strings.Repeat("x", 1000)},
}, {
	rule:   "imageTemplate is not empty",
	says:   "imageTemplate must not be empty: name a catalog image with variables, or remove it",
	refuse: []string{`imageTemplate: ""`, `image: x, imageTemplate: ""`},
	accept: []string{`imageTemplate: "x:{kube_major_version}.{kube_minor_version}"`},
}, {
	rule:   "imageTemplate without white space",
	says:   "imageTemplate must not contain white space: remove it",
	refuse: []string{`imageTemplate: "x:{ kube_major_version }"`, `imageTemplate: "x\n"`},
	accept: []string{`imageTemplate: "x:{anything}"`},
}, {
	rule:   "imageTemplate without scheme",
	says:   "imageTemplate must not begin with a scheme: write registry/repository:tag without https:// or docker://",
	refuse: []string{`imageTemplate: "docker://x:{kube_major_version}"`},
	accept: []string{`imageTemplate: "127.0.0.1:5005/x:{kube_major_version}"`},
}, {
	rule:   "imageTemplate is of bounded length",
	says:   "spec.imageTemplate: Too long: may not be more than 1000 bytes",
	refuse: []string{`imageTemplate: ` + strings.Repeat("x", 1001)},
	accept: []string{`imageTemplate: ` + strings.Repeat("x", 1000)},
}, {
	rule:   "pull secrets have names",
	says:   "spec.registry.pullSecrets[0].name: Required value",
	refuse: []string{`image: x, registry: {pullSecrets: [{}]}`},
	accept: []string{`image: x, registry: {pullSecrets: [{name: a}, {name: b}]}`, `image: x, registry: {}`},
}, {
	rule:   "pull secrets are few",
	says:   "spec.registry.pullSecrets: Too many: 17: must have at most 16 items",
	refuse: []string{`image: x, registry: {pullSecrets: [` + strings.Repeat("{name: a},", 17) + `]}`},
	accept: []string{`image: x, registry: {pullSecrets: [` + strings.Repeat("{name: a},", 16) + `]}`},
}, {
	rule:   "a CA bundle is in a ConfigMap or a Secret",
	says:   `spec.registry.caBundle.kind: Unsupported value: "File": supported values: "ConfigMap", "Secret"`,
	refuse: []string{`image: x, registry: {caBundle: {kind: File, name: a}}`},
	accept: []string{`image: x, registry: {caBundle: {name: a}}`, `image: x, registry: {caBundle: {kind: Secret, name: a, key: tls.crt}}`},
}, {
	rule:   "mirror source without scheme",
	says:   "source must not begin with a scheme: write registry[:port][/namespace[/repository]]",
	refuse: []string{`image: x, registry: {mirrors: [{source: "https://quay.io", location: m}]}`},
	accept: []string{`image: x, registry: {mirrors: [{source: quay.io, location: m}, {location: "mirror.example:5000/quay"}]}`},
}, {
	rule:   "mirror location without scheme",
	says:   "location must not begin with a scheme: write registry[:port][/namespace[/repository]]",
	refuse: []string{`image: x, registry: {mirrors: [{location: "https://mirror.example"}]}`},
	accept: []string{`image: x, registry: {mirrors: [{location: "mirror.example:5000/quay", insecure: true}]}`},
}, {
	rule:   "mirrors are asked for known references",
	says:   `spec.registry.mirrors[0].pullFrom: Unsupported value: "digests": supported values: "all", "digest-only", "tag-only"`,
	refuse: []string{`image: x, registry: {mirrors: [{location: m, pullFrom: digests}]}`},
	accept: []string{`image: x, registry: {mirrors: [` +
		`{location: m, pullFrom: digest-only}, {location: z, pullFrom: tag-only}, {location: m, pullFrom: all}]}`},
}, {
	rule: "pollingInterval is a duration",
	says: "pollingInterval must be a duration, such as 30s, 45m or 1h30m",
	refuse: []string{
		`image: x, pollingInterval: ""`, `image: x, pollingInterval: "15"`, `image: x, pollingInterval: -5m`,
		`image: x, pollingInterval: 1d`, `image: x, pollingInterval: 5 m`, `image: x, pollingInterval: daily`,
	},
	accept: []string{`image: x, pollingInterval: 45m`, `image: x, pollingInterval: 1h0m0s`, `image: x, pollingInterval: 1.5h`},
}, {
	rule:   "pollingInterval is a string",
	says:   `spec.pollingInterval: Invalid value: "integer": spec.pollingInterval in body must be of type string`,
	refuse: []string{`image: x, pollingInterval: 15`},
	accept: []string{`image: x, pollingInterval: "15s"`},
}, {
	rule:   "pollingInterval has a minimum",
	says:   "pollingInterval must be at least 1s: choose a longer one",
	refuse: []string{`image: x, pollingInterval: 0s`, `image: x, pollingInterval: 999ms`, `image: x, pollingInterval: 0h0m0.5s`},
	accept: []string{`image: x, pollingInterval: 1s`, `image: x, pollingInterval: 1000ms`},
}, {
	rule:   "pollingInterval is of bounded length",
	says:   "spec.pollingInterval: Too long: may not be more than 64 bytes",
	refuse: []string{`image: x, pollingInterval: ` + strings.Repeat("1m", 33)},
	accept: []string{`image: x, pollingInterval: ` + strings.Repeat("1m", 32)},
}, {
	rule: "pollingSchedule has cron's form",
	says: "pollingSchedule must have five cron fields (minute, hour, day of month, month, day of week) " +
		"or be a word such as @daily; CRON_TZ=<zone> may precede it",
	refuse: []string{
		`image: x, pollingSchedule: ""`, `image: x, pollingSchedule: " "`, `image: x, pollingSchedule: "* * * *"`,
		`image: x, pollingSchedule: "0 0 3 * * *"`, `image: x, pollingSchedule: daily`, `image: x, pollingSchedule: "CRON_TZ=UTC"`,
		`image: x, pollingSchedule: "@reboot"`, `image: x, pollingSchedule: "CRON_TZ=UTC 0 3 * *"`, `image: x, pollingSchedule: "* * * * *\n"`,
	},
	accept: []string{
		`image: x, pollingSchedule: "0 3 * * *"`, `image: x, pollingSchedule: "*/5 1,2 1-7 JAN MON-FRI"`, `image: x, pollingSchedule: "@daily"`,
		`image: x, pollingSchedule: "CRON_TZ=Europe/Prague 0 3 * * *"`, `image: x, pollingSchedule: "CRON_TZ=UTC @hourly"`,
		`image: x, pollingSchedule: "@every 90m"`,
	},
}, {
	rule:   "pollingSchedule is of bounded length",
	says:   "spec.pollingSchedule: Too long: may not be more than 256 bytes",
	refuse: []string{`image: x, pollingSchedule: "* * * * ` + strings.Repeat("1", 249) + `"`},
	accept: []string{`image: x, pollingSchedule: "* * * * ` + strings.Repeat("1", 248) + `"`},
}, {
	rule:   "priority is an int32",
	says:   "Checked value must be of type integer with format int32 in spec.priority",
	refuse: []string{`image: x, priority: 2147483648`},
	accept: []string{`image: x, priority: 2147483647`, `image: x, priority: -2147483648`},
}, {
	rule:   "displayName is of bounded length",
	says:   "spec.displayName: Too long: may not be more than 256 bytes",
	refuse: []string{`image: x, displayName: ` + strings.Repeat("x", 257)},
	accept: []string{`image: x, displayName: ` + strings.Repeat("x", 256)},
}, {
	rule:   "publisher is of bounded length",
	says:   "spec.publisher: Too long: may not be more than 256 bytes",
	refuse: []string{`image: x, publisher: ` + strings.Repeat("x", 257)},
	accept: []string{`image: x, publisher: ` + strings.Repeat("x", 256)},
}, {
	rule:   "description is of bounded length",
	says:   "spec.description: Too long: may not be more than 4096 bytes",
	refuse: []string{`image: x, description: ` + strings.Repeat("x", 4097)},
	accept: []string{`image: x, description: ` + strings.Repeat("x", 4096)},
}, {
	rule: "configDir stays in the image",
	says: "configDir must not contain '..': name the directory by its path from the image's root",
	refuse: []string{
		`image: x, extractContent: {configDir: ".."}`, `image: x, extractContent: {configDir: ../configs}`,
		`image: x, extractContent: {configDir: /a/../b}`, `image: x, extractContent: {configDir: a/..}`,
	},
	accept: []string{
		`image: x, extractContent: {configDir: /configs}`, `image: x, extractContent: {configDir: a/b/}`,
		`image: x, extractContent: {configDir: "a..b/...c/.d"}`, `image: x, extractContent: {}`,
	},
}, {
	rule:   "configDir is of bounded length",
	says:   "spec.extractContent.configDir: Too long: may not be more than 1024 bytes",
	refuse: []string{`image: x, extractContent: {configDir: ` + strings.Repeat("x", 1025) + `}`},
	accept: []string{`image: x, extractContent: {configDir: ` + strings.Repeat("x", 1024) + `}`},
}, {
	rule:   "cacheDir is of bounded length",
	says:   "spec.extractContent.cacheDir: Too long: may not be more than 1024 bytes",
	refuse: []string{`image: x, extractContent: {cacheDir: ` + strings.Repeat("x", 1025) + `}`},
	accept: []string{`image: x, extractContent: {cacheDir: ` + strings.Repeat("x", 1024) + `}`},
}, {
	rule:   "availability is known",
	says:   `spec.availability: Unsupported value: "Disabled": supported values: "Available", "Unavailable"`,
	refuse: []string{`image: x, availability: Disabled`},
	accept: []string{`image: x, availability: Available`, `image: x, availability: Unavailable`},
}, {
	rule:   "olmv0 names namespaces",
	says:   "spec.olmv0.namespaces",
	refuse: []string{`image: x, olmv0: {}`, `image: x, olmv0: {namespaces: [A]}`, `image: x, olmv0: {namespaces: [a, a]}`},
	accept: []string{`image: x, olmv0: {namespaces: []}`, `image: x, olmv0: {namespaces: [olm, "0"]}`},
}, {
	rule:   "icon is complete and of bounded size",
	says:   "spec.icon",
	refuse: []string{`image: x, icon: {base64data: eA==}`, `image: x, icon: {mediatype: x, base64data: ` + strings.Repeat("x", 262145) + `}`},
	accept: []string{`image: x, icon: {mediatype: image/png, base64data: eA==}`},
}}

func TestCatalogSourceRules(t *testing.T) {
	for _, test := range rules {
		t.Run(test.rule, func(t *testing.T) {
			for _, spec := range test.refuse {
				expectRefused(t, catalogSource(t, "x", spec), test.says)
			}
			for _, spec := range test.accept {
				if err := api.Create(t.Context(), catalogSource(t, "x", spec), client.DryRunAll); err != nil {
					t.Errorf("%.100s: %v", spec, err)
				}
			}
		})
	}
}

const nameRule = "metadata.name must be a DNS-1123 label, as it is part of URLs and of OperatorPackage names: " +
	"use at most 63 lower-case letters, digits and '-', no dots, beginning and ending with a letter or digit"

const serviceRule = "metadata.name must begin with a letter, as spec.olmv0 needs a Service of that name: " +
	"create the catalog under another name, or remove spec.olmv0"

func TestCatalogSourceName(t *testing.T) {
	const offered = "image: x, olmv0: {namespaces: [olm]}"
	expectRefused(t, catalogSource(t, "0", offered), serviceRule)
	if err := api.Create(t.Context(), catalogSource(t, "a0", offered), client.DryRunAll); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"a.b", strings.Repeat("x", 64)} {
		expectRefused(t, catalogSource(t, name, "image: x"), nameRule)
	}
	for _, name := range []string{"a", "0", "a-b", strings.Repeat("x", 63)} {
		if err := api.Create(t.Context(), catalogSource(t, name, "image: x"), client.DryRunAll); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every CEL rule has a test above.
func TestCatalogSourceRulesAreTested(t *testing.T) {
	tested := map[string]bool{nameRule: true, serviceRule: true}
	for _, test := range rules {
		tested[test.says] = true
	}
	raw, err := os.ReadFile(filepath.Join(crdDirectory, "catalogd.operatorframework.io_catalogsources.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var crd any
	if err := yaml.Unmarshal(raw, &crd); err != nil {
		t.Fatal(err)
	}
	sentences := celMessages(crd)
	if len(sentences) == 0 {
		t.Fatal("found no CEL rule in the CRD")
	}
	for _, sentence := range sentences {
		if !tested[sentence] {
			t.Errorf("no test of the rule that says %q", sentence)
		}
	}
}

func TestCatalogSourceDefaults(t *testing.T) {
	catalog := catalogSource(t, "defaults", "image: x")
	create(t, catalog)
	want := map[string]any{"image": "x", "priority": int64(0), "availability": "Available"}
	if diff := cmp.Diff(want, catalog.Object["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestCatalogSourceStatusAndColumns(t *testing.T) {
	catalog := &v1beta1.CatalogSource{
		ObjectMeta: metav1.ObjectMeta{Name: "community"},
		Spec: v1beta1.CatalogSourceSpec{
			Image:           tag,
			PollingInterval: &metav1.Duration{Duration: 45 * time.Minute},
			Priority:        -7,
			DisplayName:     "Community",
			Publisher:       "The community",
			Description:     "All of it",
			ExtractContent:  &v1beta1.ExtractContent{ConfigDir: "/configs", CacheDir: "/cache"},
			Availability:    v1beta1.AvailabilityAvailable,
			Suspend:         true,
		},
	}
	create(t, catalog)
	generation := catalog.Generation
	now := metav1.NewTime(time.Now().Truncate(time.Second).Add(-time.Hour))
	catalog.Status = v1beta1.CatalogSourceStatus{
		ObservedGeneration: generation,
		Conditions: []metav1.Condition{
			{
				Type: v1beta1.ServingCondition, Status: metav1.ConditionTrue,
				Reason: v1beta1.AvailableReason, Message: "Served.", LastTransitionTime: now,
			},
			{
				Type: v1beta1.ReadyCondition, Status: metav1.ConditionTrue,
				Reason: v1beta1.SucceededReason, Message: "319 packages are served.", LastTransitionTime: now,
			},
		},
		Image:  tag,
		Digest: "sha256:e3b0",
		URLs:   &v1beta1.CatalogSourceURLs{Base: "http://127.0.0.1:8080/catalogs/community"},
		Content: &v1beta1.CatalogContent{
			Packages: 319, Channels: 700, Bundles: 5000, Blobs: 6019, Bytes: 1 << 33, UnpackedAt: &now,
			InvalidPackages: []v1beta1.InvalidPackage{{Name: "bad", Reason: "it has no channel"}}, InvalidPackageCount: 21,
		},
		Poll: &v1beta1.PollStatus{LastChangeTime: &now, Requested: "1"},
	}
	want := catalog.DeepCopy()
	if err := api.Status().Update(t.Context(), catalog); err != nil {
		t.Fatal(err)
	}
	got := &v1beta1.CatalogSource{}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(catalog), got); err != nil {
		t.Fatal(err)
	}
	ignored := []cmp.Option{
		cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ResourceVersion", "ManagedFields"), cmpopts.IgnoreTypes(metav1.TypeMeta{}),
	}
	if diff := cmp.Diff(want, got, ignored...); diff != "" {
		t.Errorf("after a round trip (-want +got):\n%s", diff)
	}
	got.Status = v1beta1.CatalogSourceStatus{}
	if err := api.Update(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	if got.Status.Digest == "" {
		t.Error("an update of the object cleared the status: it is no subresource")
	}

	cells, columns := table(t, "catalogsources", "community")
	if diff := cmp.Diff([]string{"Name", "Image", "Packages", "Ready", "Reason", "Status*", "Last Change*", "Age"}, columns); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	if cells["Age"] == "" {
		t.Error("no age")
	}
	delete(cells, "Age")
	wantCells := map[string]any{
		"Name": "community", "Image": tag, "Packages": 319.0, "Ready": "True",
		"Status": "319 packages are served.", "Reason": "Succeeded", "Last Change": "60m",
	}
	if diff := cmp.Diff(wantCells, cells); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
}

func catalogSource(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	const format = "{apiVersion: catalogd.operatorframework.io/v1beta1, kind: CatalogSource, metadata: {name: %q}, spec: {%s}}"
	return object(t, fmt.Sprintf(format, name, spec))
}

// expectRefused creates obj and expects a rejection with the single cause says.
func expectRefused(t *testing.T, obj client.Object, says string) {
	t.Helper()
	err := api.Create(t.Context(), obj, client.DryRunAll)
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) {
		t.Errorf("%s: got %v, want it refused as invalid", describe(obj), err)
		return
	}
	// After a schema error, the API server skips some CEL rules and adds a cause that reports this.
	causes := slices.DeleteFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return strings.Contains(c.Message, "some validation rules were not checked")
	})
	if len(causes) != 1 || !strings.Contains(causes[0].Field+": "+causes[0].Message, says) {
		t.Errorf("%s: got the causes %+v, want one that says %q", describe(obj), causes, says)
	}
}

func describe(obj client.Object) string {
	return fmt.Sprintf("%.200v", obj.(*unstructured.Unstructured).Object["spec"])
}

// celMessages returns the message of every CEL rule at or below node.
func celMessages(node any) (messages []string) {
	switch node := node.(type) {
	case []any:
		for _, child := range node {
			messages = append(messages, celMessages(child)...)
		}
	case map[string]any:
		for key, child := range node {
			if key != "x-kubernetes-validations" {
				messages = append(messages, celMessages(child)...)
				continue
			}
			for _, rule := range child.([]any) {
				message, _ := rule.(map[string]any)["message"].(string)
				messages = append(messages, message)
			}
		}
	}
	return messages
}
