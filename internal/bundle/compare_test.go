package bundle

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// objectsOf returns the objects of YAML documents.
func objectsOf(t *testing.T, text string) [][]byte {
	t.Helper()
	b := &builder{}
	b.add("manifests/x.yaml", []byte(text), true)
	if fault := b.content.Files[0].Fault; fault != "" {
		t.Fatal(fault)
	}
	return linesOf(b)
}

func compareTexts(t *testing.T, from, to string) Difference {
	t.Helper()
	d, err := Compare(objectsOf(t, from), objectsOf(t, to))
	must.Succeed(t, err)
	return d
}

func TestCompare(t *testing.T) {
	csv := func(verbs, image, mode, webhook string) string {
		return fmt.Sprintf(`apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: foo}
spec:
  installModes: [{type: %s, supported: true}, {type: MultiNamespace, supported: false}]
  relatedImages: [{name: a, image: a:v1}]
  webhookdefinitions: [{type: ValidatingAdmissionWebhook, generateName: %s}]
  install:
    spec:
      deployments: [{name: d, spec: {template: {spec: {containers: [{image: "%s"}]}}}}]
      clusterPermissions: [{serviceAccountName: m, rules: [{apiGroups: [""], resources: [secrets, pods], verbs: [%s]}]}]
`, mode, webhook, image, verbs)
	}
	crd := func(name string, versions ...string) string {
		text := fmt.Sprintf("---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s}\nspec: {scope: Namespaced, versions: [", name)
		for _, v := range versions {
			text += fmt.Sprintf("{name: %s, served: true, schema: {openAPIV3Schema: {type: object}}},", v)
		}
		return text + "]}\n"
	}
	got := compareTexts(t,
		csv("get", "m:v1", "AllNamespaces", "w1")+crd("a", "v1alpha1", "v1")+crd("old", "v1"),
		csv("get, list", "m:v2", "OwnNamespace", "w2")+crd("a", "v1", "v2")+crd("new", "v1"))
	want := Difference{
		RightsGained: []Right{{"m", ScopeCluster, "pods", []string{"list"}}, {"m", ScopeCluster, "secrets", []string{"list"}}},
		RightsLost:   []Right{},
		CRDsAdded:    []string{"new"}, CRDsRemoved: []string{"old"},
		Versions: []CRDVersion{{"a", "v2", true}, {"a", "v1alpha1", false}}, Breaking: []CRDChange{},
		ImagesAdded: []string{"m:v2"}, ImagesRemoved: []string{"m:v1"},
		WebhooksAdded: []string{"ValidatingAdmissionWebhook w2"}, WebhooksRemoved: []string{"ValidatingAdmissionWebhook w1"},
		InstallModesAdded: []string{"OwnNamespace"}, InstallModesRemoved: []string{"AllNamespaces"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("difference (-want +got):\n%s", diff)
	}
	if same := compareTexts(t, csv("get", "m", "x", "w"), csv("get", "m", "x", "w")); !same.IsEmpty() {
		t.Errorf("equal bundles differ: %+v", same)
	}
}

// Rights that a wildcard, a rule without names or a cluster-wide rule gave before are not gained.
func TestCompareRights(t *testing.T) {
	csv := func(kind, rules string) string {
		return fmt.Sprintf(`{apiVersion: operators.coreos.com/v1alpha1, kind: ClusterServiceVersion, metadata: {name: foo},
  spec: {install: {spec: {%s: [{serviceAccountName: m, rules: [%s]}]}}}}`, kind, rules)
	}
	const cluster, namespace = "clusterPermissions", "permissions"
	for _, c := range []struct{ name, from, to, want string }{
		{"any verb", csv(cluster, `{apiGroups: [""], resources: [pods], verbs: ["*"]}`), csv(cluster, `{apiGroups: [""], resources: [pods], verbs: [get]}`), ""},
		{"any resource", csv(cluster, `{apiGroups: [""], resources: ["*"], verbs: [get]}`), csv(cluster, `{apiGroups: [""], resources: [pods], verbs: [get]}`), ""},
		{"any group", csv(cluster, `{apiGroups: ["*"], resources: [pods], verbs: [get]}`), csv(cluster, `{apiGroups: [""], resources: [pods], verbs: [get]}`), ""},
		{"any name", csv(cluster, `{apiGroups: [""], resources: [pods], verbs: [get]}`), csv(cluster, `{apiGroups: [""], resources: [pods], resourceNames: [x], verbs: [get]}`), ""},
		{"the cluster", csv(cluster, `{apiGroups: [""], resources: [pods], verbs: [get]}`), csv(namespace, `{apiGroups: [""], resources: [pods], verbs: [get]}`), ""},
		{"not the cluster", csv(namespace, `{apiGroups: [""], resources: [pods], verbs: [get]}`), csv(cluster, `{apiGroups: [""], resources: [pods], verbs: [get]}`), "Cluster get pods"},
		{"one name", csv(cluster, `{apiGroups: [""], resources: [pods], resourceNames: [x], verbs: [get]}`), csv(cluster, `{apiGroups: [""], resources: [pods], verbs: [get]}`), "Cluster get pods"},
		{"all verbs", csv(cluster, ``), csv(cluster, `{apiGroups: [apps], resources: [pods], verbs: ["*", get]}`), "Cluster * pods.apps"},
		{"URLs", csv(cluster, `{nonResourceURLs: [/a], verbs: [get]}`), csv(cluster, `{nonResourceURLs: [/a, /b], verbs: [get]}`), "Cluster get /b"},
		{"any URL", csv(cluster, `{nonResourceURLs: ["*"], verbs: [get]}`), csv(cluster, `{nonResourceURLs: [/b], verbs: [get]}`), ""},
	} {
		var got []string
		for _, r := range compareTexts(t, c.from, c.to).RightsGained {
			got = append(got, fmt.Sprintf("%s %s %s", r.Scope, strings.Join(r.Verbs, ","), r.On))
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s: got %q, want %q", c.name, text, c.want)
		}
	}
}

func TestCompareSchemas(t *testing.T) {
	for _, c := range []struct{ name, from, to, want string }{
		{"equal", `a: {type: string}`, `a: {type: string}`, ""},
		{"added", `a: {type: string}`, `a: {type: string}, b: {type: string}`, ""},
		{"removed", `a: {type: string}, b: {type: object, properties: {c: {type: string}}}`, `b: {type: object, properties: {}}`, "a is removed; b.c is removed"},
		{"removed, but kept", `b: {type: object, properties: {c: {type: string}}}`, `b: {type: object, x-kubernetes-preserve-unknown-fields: true}`, ""},
		{"required", `b: {type: object}`, `b: {type: object, required: [c]}`, "b.c becomes required"},
		{"required with a default", `b: {type: object}`, `b: {type: object, required: [c], properties: {c: {type: string, default: x}}}`, ""},
		{"type", `a: {type: string}`, `a: {type: integer}`, "a the type changes from string to integer"},
		{"items", `a: {type: array, items: {type: object}}`, `a: {type: array, maxItems: 3, items: {type: object, required: [x]}}`, "a gets the maximum number of items 3; a[].x becomes required"},
		{"enum", `a: {type: string, enum: [x, y]}, b: {type: string}`, `a: {type: string, enum: [y, z]}, b: {type: string, enum: [x]}`, `a may no longer be "x"; b becomes an enum`},
		{"limits", `a: {type: integer, minimum: 1, maximum: 5}`, `a: {type: integer, minimum: 2, maximum: 4}`, "a gets the maximum 4; a gets the minimum 2"},
		{"wider limits", `a: {type: integer, minimum: 1, maximum: 5, pattern: x}`, `a: {type: integer, minimum: 0}`, ""},
		{"patterns", `a: {type: string, nullable: true}`, `a: {type: string, pattern: ^x, format: date}`, "a must match ^x; a must have the format date; a may no longer be null"},
		{"rules", `a: {type: object}`, `a: {type: object, x-kubernetes-validations: [{rule: "has(self.x)"}]}`, "a must satisfy the rule has(self.x)"},
		{"minimum", `a: {type: integer}, b: {type: integer, minimum: -10}`, `a: {type: integer, minimum: 0}, b: {type: integer, minimum: -5}`, "a gets the minimum 0; b gets the minimum -5"},
		{"no minimum", `a: {type: string}`, `a: {type: string, minLength: 0}`, ""},
		{"exclusive", `a: {type: integer, minimum: 1}`, `a: {type: integer, minimum: 1, exclusiveMinimum: true, multipleOf: 2}`, "a no longer allows the limit itself (exclusive maximum or minimum); a must be a multiple of 2"},
		{"unknown fields", `a: {type: object, x-kubernetes-preserve-unknown-fields: true}, b: {type: object, additionalProperties: {type: string}}`, `a: {type: object}, b: {type: object, properties: {}}`, "a no longer preserves unknown fields; b no longer preserves unknown fields"},
		{"conditions", `a: {type: object, anyOf: [{required: [x]}]}`, `a: {type: object, anyOf: [{required: [w]}], not: {required: [z]}}`, "a has changed conditions in anyOf; a has changed conditions in not"},
		{"sets", `a: {type: array}`, `a: {type: array, x-kubernetes-list-type: set}`, "a must have unique items"},
		{"maps", `a: {type: object, additionalProperties: {type: string}}`, `a: {type: object, additionalProperties: {type: integer}}`, "a{} the type changes from string to integer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			crd := func(properties string) string {
				return fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: foos}, spec: {scope: Cluster, versions: [
  {name: v1, served: true, schema: {openAPIV3Schema: {type: object, properties: {%s}}}}]}}`, properties)
			}
			var got []string
			for _, change := range compareTexts(t, crd(c.from), crd(c.to)).Breaking {
				got = append(got, change.Path+" "+change.Change)
			}
			if text := strings.Join(got, "; "); text != c.want {
				t.Errorf("got %q, want %q", text, c.want)
			}
		})
	}
}
