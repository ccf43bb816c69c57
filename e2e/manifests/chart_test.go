package manifests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

var chart = filepath.Join(root, "charts", "catalogd")

// The chart renders what config/default is, object for object; but for the namespace, which helm makes or finds made.
func TestChartIsDefault(t *testing.T) {
	want := render(t, filepath.Join(root, "config", "default"))
	want = slices.DeleteFunc(want, func(object *unstructured.Unstructured) bool { return object.GetKind() == "Namespace" })
	got := template(t, "catalogd-system", "--include-crds")
	if diff := cmp.Diff(byKey(want), byKey(got)); diff != "" {
		t.Errorf("-config/default +chart:\n%s", diff)
	}
}

// What watches it is that of the overlay.
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

// Two installations have no object in common, and none names the namespace of the other.
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

// helm installs it beside config/rbac, which is there already, and twice, if each has a selector; but not twice in one namespace,
// where the two would take each other's lease.
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
		args := []string{step.action, step.release, chart, "--kubeconfig", shared.Kubeconfig, "--namespace", step.namespace, "--set", "catalogSelector=" + step.selector}
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

// Whatever the values, the API server takes what is rendered, in another namespace too, and catalogd the flags.
func TestChartValues(t *testing.T) {
	const namespace = "by-values"
	_, err := shared.Kubectl(t.Context(), "create", "namespace", namespace)
	must.Succeed(t, err)
	_, err = shared.Kubectl(t.Context(), "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted", "pod-security.kubernetes.io/warn=restricted")
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
			_, err := shared.Kubectl(t.Context(), "apply", "--dry-run=server", "--validate=strict", "--warnings-as-errors", "-f", file(t, objects...))
			must.Succeed(t, err)
			_, err = shared.Kubectl(t.Context(), "create", "--dry-run=server", "--validate=strict", "--warnings-as-errors", "-f", file(t, pod(t, objects)))
			must.Succeed(t, err)
			knowsFlags(t, containerArgs(t, objects))
		})
	}
}

// Values become flags, in the form that a shell would not have to take apart again.
func TestChartArgs(t *testing.T) {
	for values, want := range map[string][]string{
		"":                                 {"--external-url=https://catalogd.ns.svc"},
		"externalURL=http://x":             {"--external-url=http://x"},
		"catalogSelector=shard in (a\\,b)": {"--external-url=https://catalogd.ns.svc", "--catalog-selector=shard in (a,b)"},
		"replicas=1,leaderElection.enabled=false": {"--external-url=https://catalogd.ns.svc", "--leader-elect=false"},
		"leaderElection.leaseDuration=60s,leaderElection.renewDeadline=40s,leaderElection.retryPeriod=5s": {
			"--external-url=https://catalogd.ns.svc", "--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=40s", "--leader-elect-retry-period=5s",
		},
		"extraArgs={--log-level=debug}": {"--external-url=https://catalogd.ns.svc", "--log-level=debug"},
	} {
		got := containerArgs(t, template(t, "ns", "--set", values))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", values, diff)
		}
	}
}

// A value that the chart does not know is an error, and so one that is misspelt is not passed over.
func TestChartKnowsItsValues(t *testing.T) {
	for _, value := range []string{"replica=1", "image.name=x", "replicas=many", "leaderElection.enabled=maybe"} {
		if out, err := helm(t, "template", "catalogd", chart, "--set", value); err == nil {
			t.Errorf("%s is taken: %s", value, out)
		}
	}
}

// Replicas that all write would be in each other's way.
func TestChartWantsALeader(t *testing.T) {
	const want = "set leaderElection.enabled=true, or replicas=1"
	if _, err := helm(t, "template", "catalogd", chart, "--set", "leaderElection.enabled=false"); err == nil || !strings.Contains(err.Error(), want) {
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

// byKey gives what is in each object by what it is called.
func byKey(objects []*unstructured.Unstructured) map[string]map[string]any {
	keyed := map[string]map[string]any{}
	for _, object := range objects {
		keyed[object.GroupVersionKind().String()+" "+object.GetNamespace()+"/"+object.GetName()] = object.Object
	}
	return keyed
}

// reaches tells whether a string stands anywhere in a value.
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
