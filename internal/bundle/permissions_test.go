package bundle

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

func TestRisks(t *testing.T) {
	for _, c := range []struct {
		groups, resources, verbs string
		want                     []string
	}{
		{"", "pods", "get,list", nil},
		{"apps", "secrets", "get", nil},
		{"", "secrets", "create", []string{RiskSecrets}},
		{"", "*", "get", []string{RiskAnyResource, RiskSecrets, RiskNodesProxy}},
		{"*", "pods", "*", []string{RiskAnyVerb, RiskAnyGroup}},
		{"", "nodes/proxy", "get", []string{RiskNodesProxy}},
		{"", "nodes/*", "get", []string{RiskNodesProxy}},
		{"", "nodes", "get", nil},
		{"rbac.authorization.k8s.io", "roles", "escalate,bind", []string{RiskEscalate, RiskBind}},
		{"rbac.authorization.k8s.io", "clusterroles", "*", []string{RiskAnyVerb, RiskEscalate, RiskBind}},
		{"rbac.authorization.k8s.io", "rolebindings", "escalate", nil},
		{"", "users,groups", "impersonate", []string{RiskImpersonate}},
		{"authentication.k8s.io", "userextras/scopes", "impersonate", []string{RiskImpersonate}},
		{"apps", "deployments", "impersonate", nil},
		{"*", "*", "*", []string{
			RiskAnyVerb, RiskAnyResource, RiskAnyGroup, RiskEscalate, RiskBind, RiskImpersonate, RiskSecrets, RiskNodesProxy, RiskTokens,
		}},
		{"", "*/proxy", "get", []string{RiskNodesProxy}},
		{"", "serviceaccounts/token", "create", []string{RiskTokens}},
		{"", "*/token", "get", nil},
	} {
		rule := rbacv1.PolicyRule{
			APIGroups: strings.Split(c.groups, ","), Resources: strings.Split(c.resources, ","), Verbs: strings.Split(c.verbs, ","),
		}
		if got := risksOf(rule); !slices.Equal(got, c.want) {
			t.Errorf("%s %s %s: got %q, want %q", c.groups, c.resources, c.verbs, got, c.want)
		}
	}
	for _, url := range []string{"*", "/*"} {
		rule := rbacv1.PolicyRule{NonResourceURLs: []string{url}, Verbs: []string{"get"}}
		if got := risksOf(rule); !slices.Equal(got, []string{RiskAnyURL}) {
			t.Errorf("%s: got %q", url, got)
		}
	}
}

var update = flag.Bool("update", false, "write the permissions of testdata again")

// TestPermissionsOf compares testdata/permissions/NAME.json with the permissions of the objects in NAME.yaml.
func TestPermissionsOf(t *testing.T) {
	files, err := filepath.Glob("testdata/permissions/*.yaml")
	must.Succeed(t, err)
	if len(files) == 0 {
		t.Fatal("there are no test data")
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		must.Succeed(t, err)
		b := &builder{}
		b.add("manifests/x.yaml", data, true)
		if faults := b.content.Faults(); faults != nil {
			t.Fatal(b.content.Files[0].Fault)
		}
		got, err := PermissionsOf(linesOf(b))
		must.Succeed(t, err)
		golden := strings.TrimSuffix(file, ".yaml") + ".json"
		if *update {
			text, err := json.MarshalIndent(got, "", "  ")
			must.Succeed(t, err)
			must.Succeed(t, os.WriteFile(golden, append(text, '\n'), 0o644))
		}
		want, err := os.ReadFile(golden)
		must.Succeed(t, err)
		var wanted Permissions
		must.Succeed(t, json.Unmarshal(want, &wanted))
		if diff := cmp.Diff(wanted, got); diff != "" {
			text, _ := json.MarshalIndent(got, "", "  ")
			t.Errorf("%s (-want +got):\n%s\n%s", golden, diff, text)
		}
	}
}

func linesOf(b *builder) (lines [][]byte) {
	for line := range strings.Lines(b.lines.String()) {
		lines = append(lines, []byte(line))
	}
	return lines
}

// Faulty objects are errors that name them.
func TestPermissionsOfFaultyObjects(t *testing.T) {
	for _, object := range []string{
		`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"foo"},"rules":1}`,
		`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"foo"},"subjects":1}`,
		`{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"foo"},"spec":{"install":{"spec":{"permissions":1}}}}`,
	} {
		if _, err := PermissionsOf([][]byte{[]byte(object)}); err == nil || !strings.Contains(err.Error(), " foo: ") {
			t.Errorf("got error %v for %s", err, object)
		}
	}
}

func FuzzManifest(f *testing.F) {
	for _, text := range foo() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b := &builder{}
		b.add("manifests/x.yaml", data, true)
		lines := linesOf(b)
		if len(lines) != len(b.content.Files[0].Objects) {
			t.Fatalf("%d lines for %d objects", len(lines), len(b.content.Files[0].Objects))
		}
		for _, line := range lines {
			if !json.Valid(line) {
				t.Fatalf("%q is not JSON", line)
			}
		}
		_, _ = PermissionsOf(lines) // it may fail, but not panic
	})
}

// All objects that a cluster would get are read, whatever the name and the syntax of their file.
func TestObjectsOfManifests(t *testing.T) {
	const role = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"r"}}`
	const configMap = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`
	for _, c := range []struct {
		file, text, want string // want: the kinds, then a fault
	}{
		{"role", role, "ClusterRole"},
		{"role.YAML", role, "ClusterRole"},
		{".hidden.yaml", role, ""},
		{"stream.yaml", configMap + "\n" + role, "ConfigMap ClusterRole"},
		{"end.yaml", "apiVersion: v1\nkind: ConfigMap\n...\n" + role, "ConfigMap yaml: line 3: did not find expected <document start>"},
		{"list.json", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleList","items":[` + role + `]}`, "ClusterRole"},
		{"lists.json", `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"List","items":[` + role + `]}]}`, "ClusterRole"},
		{"case.json", strings.Replace(role, `"metadata"`, `"Kind":"ConfigMap","metadata"`, 1), "ClusterRole"},
		{"many.json", strings.Repeat(`{"apiVersion":"v1","kind":"List","items":[`, 9) + role + strings.Repeat("]}", 9), "document 1: nesting of lists exceeds the limit of 5"},
		{"name.json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + strings.Repeat("x", 1000) + `"}}`, "document 1: its apiVersion, kind, name"},
		{"README.md", "Read me.", "document 1: it is not a Kubernetes object"},
	} {
		b := &builder{}
		b.add("manifests/"+c.file, []byte(c.text), true)
		var got []string
		for _, object := range b.content.Files[0].Objects {
			got = append(got, object.Kind)
		}
		if fault := b.content.Files[0].Fault; fault != "" {
			got = append(got, fault)
		}
		if text := strings.Join(got, " "); !strings.HasPrefix(text, c.want) || (c.want == "") != (text == "") {
			t.Errorf("%s: got %q, want %q", c.file, text, c.want)
		}
	}
}

// A small bundle cannot make large results: of aliases, of roles bound many times, of webhooks, of rules.
func TestBoundedResults(t *testing.T) {
	const csv = `{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"foo"},"spec":%s}`
	const rbac = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"%s","metadata":{"name":"foo"},%s}`
	list := func(n int, item string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
	}
	for name, test := range map[string]struct{ objects, want string }{
		"aliases": {
			"apiVersion: v1\nkind: ConfigMap\na: &a " + strings.Repeat("x", 500_000) + "\nb: " + list(100_000, "*a"),
			"it has more than 1572864 bytes",
		},
		"nested aliases": {
			"kind: ConfigMap\na: &a [x,x,x,x,x,x,x,x]\n" + nested(30) + "apiVersion: v1\n",
			"the aliases of the document exceed the limit of",
		},
		"roles and bindings": {
			fmt.Sprintf(rbac, "RoleBinding", `"roleRef":{"kind":"Role","name":"foo"},"subjects":`+list(20_000, `{"kind":"ServiceAccount","name":"a"}`)) +
				"\n---\n" + strings.Repeat(fmt.Sprintf(rbac, "Role", `"rules":[]`)+"\n---\n", 5_000),
			"the permissions of the bundle exceed the limit of",
		},
		"webhooks": {
			fmt.Sprintf(csv, `{"webhookdefinitions":[{"rules":[{"apiGroups":`+list(50_000, `"group"`)+`,"resources":`+list(50_000, `"r"`)+`}]}]}`),
			"the permissions of the bundle exceed the limit of",
		},
		"rules": {
			fmt.Sprintf(csv, `{"install":{"spec":{"permissions":[{"rules":[{"verbs":`+list(100, `"get"`)+`,"apiGroups":`+list(100, `"g"`)+
				`,"resources":`+list(100, `"r"`)+`}]}]}}}`),
			"the permissions exceed the limit of 200000 combinations",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := &builder{}
			b.add("manifests/x.yaml", []byte(test.objects), true)
			_, err := Compare(linesOf(b), nil)
			if fault := b.content.Files[0].Fault; fault != "" {
				err = errors.New(fault)
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}

// nested returns anchors that each double the one before.
func nested(levels int) string {
	var out strings.Builder
	before := "a"
	for i := range levels {
		fmt.Fprintf(&out, "b%d: &b%d [*%s, *%s]\n", i, i, before, before)
		before = fmt.Sprintf("b%d", i)
	}
	return out.String()
}
