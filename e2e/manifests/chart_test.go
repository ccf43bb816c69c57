package manifests

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

var chart = filepath.Join(root, "charts", "catalogd")

// The chart renders the objects of config/default, except the Namespace, which Helm creates.
func TestChartIsDefault(t *testing.T) {
	want := render(t, filepath.Join(root, "config", "default"))
	want = slices.DeleteFunc(want, func(object *unstructured.Unstructured) bool { return object.GetKind() == "Namespace" })
	got := template(t, "catalogd-system", "--include-crds")
	if diff := cmp.Diff(byKey(want), byKey(got)); diff != "" {
		t.Errorf("-config/default +chart:\n%s", diff)
	}
}

// With clusterCatalogs.enabled, the chart renders the objects of the component, too.
func TestChartClusterCatalogs(t *testing.T) {
	const value = "clusterCatalogs.enabled=true"
	want := without(byKey(render(t, together(t, "cluster-catalogs"))), byKey(render(t, filepath.Join(root, "config", "default"))))
	got := without(byKey(template(t, "catalogd-system", "--set", value)), byKey(template(t, "catalogd-system")))
	if len(want) != 7 {
		t.Errorf("the component changes %d objects, want the StatefulSet, two roles with their bindings, and two for users", len(want))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-component +chart:\n%s", diff)
	}
	for _, arg := range containerArgs(t, template(t, "ns", "--set", value+",clusterCatalogs.anonymousRead=false")) {
		if arg == "--anonymous-read" {
			t.Error("catalogd still allows anonymous clients")
		}
	}
}

// With olmV0.enabled, the chart renders the objects of the component, too.
func TestChartOLMv0(t *testing.T) {
	const value = "olmV0.enabled=true"
	want := without(byKey(render(t, together(t, "olm-v0"))), byKey(render(t, filepath.Join(root, "config", "default"))))
	got := without(byKey(template(t, "catalogd-system", "--set", value)), byKey(template(t, "catalogd-system")))
	if len(want) != 7 {
		t.Errorf("the component changes %d objects, want StatefulSet, Service, NetworkPolicy, and two roles with their bindings", len(want))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-component +chart:\n%s", diff)
	}
}

// With bundleContent.enabled, the chart renders the objects of the component, too.
func TestChartBundleContent(t *testing.T) {
	const value = "bundleContent.enabled=true"
	want := without(byKey(render(t, together(t, "bundle-content"))), byKey(render(t, filepath.Join(root, "config", "default"))))
	got := without(byKey(template(t, "catalogd-system", "--set", value)), byKey(template(t, "catalogd-system")))
	if len(want) != 2 {
		t.Errorf("the component changes %d objects, want the StatefulSet and a role for users", len(want))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-component +chart:\n%s", diff)
	}
	args := containerArgs(t, template(t, "ns", "--set", value+",bundleContent.registries={a.example,b.example:5}"))
	if !slices.Contains(args, "--bundle-registries=a.example,b.example:5") {
		t.Errorf("catalogd gets the arguments %q", args)
	}
}

// With page.enabled, the chart renders the objects of the component, too.
func TestChartPage(t *testing.T) {
	const value = "page.enabled=true"
	want := without(byKey(render(t, together(t, "page"))), byKey(render(t, filepath.Join(root, "config", "default"))))
	got := without(byKey(template(t, "catalogd-system", "--set", value)), byKey(template(t, "catalogd-system")))
	if len(want) != 1 {
		t.Errorf("the component changes %d objects, want the StatefulSet", len(want))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-component +chart:\n%s", diff)
	}
}

// without returns the objects that are not equal in other.
func without(objects, other map[string]map[string]any) map[string]map[string]any {
	maps.DeleteFunc(objects, func(key string, object map[string]any) bool { return cmp.Equal(object, other[key]) })
	return objects
}

// The port of the Service that clients use has a number: kubectl operator, which forwards to it, refuses a name.
func TestServicePort(t *testing.T) {
	for _, kustomization := range kustomizations(t) {
		objects := render(t, kustomization)
		i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Service" && o.GetName() == "catalogd" })
		ports, _, _ := unstructured.NestedSlice(objects[i].Object, "spec", "ports")
		containers, _, _ := unstructured.NestedSlice(statefulSet(t, objects).Object, "spec", "template", "spec", "containers")
		contentPort := containers[0].(map[string]any)["ports"].([]any)[0].(map[string]any)["containerPort"]
		if got := ports[0].(map[string]any)["targetPort"]; got != contentPort {
			t.Errorf("%s: the Service leads to port %v, want %v", kustomization, got, contentPort)
		}
	}
}

// For OpenShift's console everything is in the namespace in which it looks for the Service, which service-ca certifies.
func TestOpenShiftConsole(t *testing.T) {
	objects := render(t, filepath.Join(root, "config", "overlays", "openshift-console"))
	for key, object := range byKey(objects) {
		if reaches(object, "catalogd-system") {
			t.Errorf("%s names the default namespace:\n%v", key, object)
		}
	}
	service := byKey(objects)["/v1, Kind=Service openshift-catalogd/catalogd-service"]
	annotations, _, _ := unstructured.NestedStringMap(service, "metadata", "annotations")
	ports, _, _ := unstructured.NestedSlice(service, "spec", "ports")
	if diff := cmp.Diff(map[string]string{"service.beta.openshift.io/serving-cert-secret-name": "catalogd-tls"}, annotations); diff != "" {
		t.Errorf("annotations of the Service: %s", diff)
	}
	if diff := cmp.Diff([]any{map[string]any{"name": "https", "port": int64(443), "targetPort": int64(8443)}}, ports); diff != "" {
		t.Errorf("ports of the Service: %s", diff)
	}
	if url := "--external-url=https://catalogd-service.openshift-catalogd.svc"; !slices.Contains(containerArgs(t, objects), url) {
		t.Errorf("catalogd has the flags %q, want %s", containerArgs(t, objects), url)
	}
}

// The objects for the Prometheus Operator are those of the overlay.
func TestChartMonitor(t *testing.T) {
	monitoring := func(objects []*unstructured.Unstructured) map[string]map[string]any {
		return byKey(slices.DeleteFunc(objects, func(object *unstructured.Unstructured) bool {
			return object.GroupVersionKind().Group != "monitoring.coreos.com"
		}))
	}
	want := monitoring(render(t, filepath.Join(root, "config", "overlays", "prometheus")))
	got := monitoring(template(t, "catalogd-system", "--set", "serviceMonitor.enabled=true,prometheusRule.enabled=true"))
	if len(want) != 2 {
		t.Errorf("the overlay has %d objects of the Prometheus Operator, want a ServiceMonitor and a PrometheusRule", len(want))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-overlay +chart:\n%s", diff)
	}
}

// Two installations share no object, and neither refers to the namespace of the other.
func TestChartTwice(t *testing.T) {
	first := byKey(template(t, "catalogd-system"))
	for key, object := range byKey(template(t, "elsewhere")) {
		if first[key] != nil {
			t.Errorf("both have %s", key)
		}
		if reaches(object, "catalogd-system") {
			t.Errorf("%s names the other namespace:\n%v", key, object)
		}
	}
}

// Helm installs the chart beside config/rbac, and twice if each installation has a selector. It refuses a second installation
// in the same namespace, which would share the lease.
func TestChartInstalls(t *testing.T) {
	for _, step := range []struct{ action, release, namespace, selector, refusal string }{
		{"install", "catalogd", "one", "", ""},
		{"install", "another", "one", "", "invalid ownership metadata"},
		{"install", "catalogd", "two", "", "namespace one has a catalogd too"},
		{"install", "catalogd", "two", "shard=a", "namespace one has a catalogd too"},
		{"upgrade", "catalogd", "one", "shard notin (a)", ""},
		{"install", "catalogd", "two", "shard=a", ""},
		{"install", "another", "two", "shard=a", "invalid ownership metadata"},
		{"upgrade", "catalogd", "two", "", "namespace one has a catalogd too"},
	} {
		args := []string{
			step.action,
			step.release,
			chart,
			"--kubeconfig",
			shared.Kubeconfig,
			"--namespace",
			step.namespace,
			"--set",
			"catalogSelector=" + step.selector,
		}
		if step.action == "install" {
			args = append(args, "--create-namespace")
		}
		_, err := helm(t, args...)
		if step.refusal == "" && err != nil || step.refusal != "" && (err == nil || !strings.Contains(err.Error(), step.refusal)) {
			t.Fatalf("%+v: got error %v", step, err)
		}
	}
	for _, namespace := range []string{"one", "two"} {
		_, err := helm(t, "uninstall", "catalogd", "--kubeconfig", shared.Kubeconfig, "--namespace", namespace)
		must.Succeed(t, err)
	}
}

// For all values, the API server accepts the objects, in another namespace too, and catalogd accepts the flags.
func TestChartValues(t *testing.T) {
	const namespace = "by-values"
	_, err := shared.Kubectl(t.Context(), "create", "namespace", namespace)
	must.Succeed(t, err)
	_, err = shared.Kubectl(t.Context(), "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted",
		"pod-security.kubernetes.io/warn=restricted")
	must.Succeed(t, err)
	for name, values := range map[string]string{
		"defaults": ``,
		"all": `
image: {repository: registry.example/catalogd, digest: "sha256:0123456789012345678901234567890123456789012345678901234567890123", pullPolicy: Always}
imagePullSecrets: [{name: pull}]
serviceAccount: {annotations: {a: b}, imagePullSecrets: [{name: pull}, {name: another}]}
replicas: 1
externalURL: https://catalogs.example
extraArgs: [--default-polling-interval=1h, --storage-limit=10Gi]
tls: {secretName: catalogd-tls}
service: {type: NodePort, annotations: {a: b}}
storage: {size: 1Gi, className: fast}
resources: {requests: {cpu: 1}, limits: {memory: 3Gi}}
priorityClassName: system-cluster-critical
podAnnotations: {a: b}
podLabels: {a: b}
nodeSelector: {disk: fast}
tolerations: [{operator: Exists}]
affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: Exists}]}}]}}
topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app.kubernetes.io/name: catalogd}}}]
networkPolicy: {enabled: false}
clusterCatalogs: {enabled: true, anonymousRead: false}
bundleContent: {enabled: true, registries: [a.example]}
page: {enabled: true}
admissionPolicy: {enabled: false}
catalogSelector: "shard in (a, b)"
leaderElection: {leaseDuration: 30s, renewDeadline: 20s, retryPeriod: 3s}
`,
		"alone":     `{replicas: 1, leaderElection: {enabled: false}}`,
		"OpenShift": `podSecurityContext: {runAsUser: null, runAsGroup: null, fsGroup: null}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "values.yaml")
			must.Succeed(t, os.WriteFile(path, []byte(values), 0o600))
			objects := template(t, namespace, "--values", path)
			_, err := shared.Kubectl(t.Context(), "apply", "--dry-run=server", "--validate=strict", "--warnings-as-errors", "-f",
				file(t, objects...))
			must.Succeed(t, err)
			_, err = shared.Kubectl(t.Context(), "create", "--dry-run=server", "--validate=strict", "--warnings-as-errors", "-f",
				file(t, pod(t, objects)))
			must.Succeed(t, err)
			knowsFlags(t, containerArgs(t, objects))
		})
	}
}

// Each value becomes a single flag without shell quoting.
func TestChartArgs(t *testing.T) {
	for values, want := range map[string][]string{
		"":                                 {"--external-url=https://catalogd.ns.svc"},
		"externalURL=http://x":             {"--external-url=http://x"},
		"catalogSelector=shard in (a\\,b)": {"--external-url=https://catalogd.ns.svc", "--catalog-selector=shard in (a,b)"},
		"replicas=1,leaderElection.enabled=false": {"--external-url=https://catalogd.ns.svc", "--leader-elect=false"},
		"leaderElection.leaseDuration=60s,leaderElection.renewDeadline=40s,leaderElection.retryPeriod=5s": {
			"--external-url=https://catalogd.ns.svc", "--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=40s",
			"--leader-elect-retry-period=5s",
		},
		"extraArgs={--log-level=debug}": {"--external-url=https://catalogd.ns.svc", "--log-level=debug"},
	} {
		got := containerArgs(t, template(t, "ns", "--set", values))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", values, diff)
		}
	}
}

// Helm rejects unknown and malformed values, and names each of them.
func TestChartRejectsInvalidValues(t *testing.T) {
	for _, value := range []string{
		"replica=1", "image.name=x", "replicas=many", "leaderElection.enabled=maybe",
		"leaderElection.leaseDuration=5x", "leaderElection.renewDeadline=10", "leaderElection.retryPeriod=2 s",
		"storage.size=abc", "storage.size=0", "storage.size=10GB", "storage.className=A_b",
		"image.tag=a/b", "image.digest=sha256:1", "image.repository=a@b", "externalURL=catalogs.example",
		"tls.secretName=A_b", "imagePullSecrets=pull", "imagePullSecrets[0]=pull", "extraArgs=--log-level=debug",
		"resources.limits.memory=2Gx", "resources.limit.memory=2Gi", "podLabels.a=1", "serviceMonitor.interval=5x",
	} {
		out, err := helm(t, "template", "catalogd", chart, "--set", value)
		key, _, _ := strings.Cut(value, "=")
		key, _, _ = strings.Cut(key, "[")
		parent, name, nested := strings.Cut(key, ".")
		if !nested {
			parent, name = "", key
		}
		if err == nil {
			t.Errorf("%s is accepted: %s", value, out)
		} else if text := err.Error(); !strings.Contains(text, parent) || !strings.Contains(text, name[:strings.IndexByte(name+".", '.')]) {
			t.Errorf("%s: the error does not name the value: %v", value, err)
		}
	}
}

// The schema describes every value of the chart, and no other.
func TestChartSchemaIsComplete(t *testing.T) {
	var schema schemaNode
	raw, err := os.ReadFile(filepath.Join(chart, "values.schema.json"))
	must.Succeed(t, err)
	must.Succeed(t, json.Unmarshal(raw, &schema))
	delete(schema.Properties, "global") // of Helm, absent from values.yaml
	raw, err = os.ReadFile(filepath.Join(chart, "values.yaml"))
	must.Succeed(t, err)
	var values map[string]any
	must.Succeed(t, yaml.Unmarshal(raw, &values))
	schema.describes(t, "", values)
}

// schemaNode is a part of a JSON schema.
type schemaNode struct {
	Description string
	Properties  map[string]schemaNode
}

// describes compares the properties of a schema with a value.
func (n schemaNode) describes(t *testing.T, path string, value any) {
	t.Helper()
	object, _ := value.(map[string]any)
	if len(n.Properties) == 0 || path == ".resources" {
		if n.Description == "" {
			t.Errorf("%s has no description", path)
		}
		return
	}
	for name := range object {
		if _, ok := n.Properties[name]; !ok {
			t.Errorf("%s.%s is not in the schema", path, name)
		}
	}
	for name, property := range n.Properties {
		if _, ok := object[name]; !ok {
			t.Errorf("%s.%s is not in values.yaml", path, name)
		}
		property.describes(t, path+"."+name, object[name])
	}
}

// Several replicas need leader election.
func TestChartWantsALeader(t *testing.T) {
	const want = "set leaderElection.enabled=true, or replicas=1"
	if _, err := helm(t, "template", "catalogd", chart, "--set", "leaderElection.enabled=false"); err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("three replicas without leader election: got error %v, want %q", err, want)
	}
}

// template returns the objects of an installation in namespace.
func template(t *testing.T, namespace string, args ...string) []*unstructured.Unstructured {
	t.Helper()
	out, err := helm(t, append([]string{"template", "release-of-" + namespace, chart, "--namespace", namespace}, args...)...)
	must.Succeed(t, err)
	return parse(t, out)
}

// byKey returns the objects by kind, namespace and name.
func byKey(objects []*unstructured.Unstructured) map[string]map[string]any {
	keyed := map[string]map[string]any{}
	for _, object := range objects {
		keyed[object.GroupVersionKind().String()+" "+object.GetNamespace()+"/"+object.GetName()] = object.Object
	}
	return keyed
}

// reaches reports whether a value contains a string.
func reaches(value any, text string) bool {
	switch value := value.(type) {
	case map[string]any:
		for _, of := range value {
			if reaches(of, text) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(value, func(of any) bool { return reaches(of, text) })
	case string:
		return strings.Contains(value, text)
	}
	return false
}
