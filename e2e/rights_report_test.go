package e2e

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// asked returns an audit event of a request for an object, with a response code.
func asked(verb string, ref auditv1.ObjectReference, code int32) auditv1.Event {
	return auditv1.Event{Verb: verb, RequestURI: "/uri", ObjectRef: &ref, ResponseStatus: &metav1.Status{Code: code, Message: "why"}}
}

func lease(name string) auditv1.ObjectReference {
	return auditv1.ObjectReference{APIGroup: "coordination.k8s.io", Resource: "leases", Namespace: "ns", Name: name}
}

var leaseRules = []rbacv1.PolicyRule{
	{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
	{
		APIGroups:     []string{"coordination.k8s.io"},
		Resources:     []string{"leases"},
		ResourceNames: []string{"a", "b"},
		Verbs:         []string{"get", "update"},
	},
}

// unused is what unusedRights reports of a right of Role r.
const unused = ": Role r gives this right, and catalogd did not use it: remove the rule, or let a test need it"

func TestUnused(t *testing.T) {
	path := auditv1.Event{Verb: "get", RequestURI: "/catalogs/x?y=z"}
	status := asked("patch", auditv1.ObjectReference{APIGroup: "g", Resource: "things", Subresource: "status", Name: "x"}, 200)
	for _, test := range []struct {
		name      string
		rules     []rbacv1.PolicyRule
		namespace string
		requests  []auditv1.Event
		excused   map[string]string
		want      string
	}{
		{name: "nothing is given"},
		{
			name: "nothing is used", rules: leaseRules, namespace: "ns",
			want: `create leases.coordination.k8s.io in namespace ns` + unused + "\n" +
				`get leases.coordination.k8s.io "a" in namespace ns` + unused + "\n" +
				`get leases.coordination.k8s.io "b" in namespace ns` + unused + "\n" +
				`update leases.coordination.k8s.io "a" in namespace ns` + unused + "\n" +
				`update leases.coordination.k8s.io "b" in namespace ns` + unused,
		},
		{
			name: "all is used", rules: leaseRules, namespace: "ns",
			requests: []auditv1.Event{
				asked("create", lease(""), 201), asked("get", lease("a"), 404), asked("get", lease("b"), 200),
				asked("update", lease("a"), 409), asked("update", lease("b"), 200),
			},
		},
		{
			name: "another namespace", rules: leaseRules[:1], namespace: "other", requests: []auditv1.Event{asked("create", lease(""), 201)},
			want: "create leases.coordination.k8s.io in namespace other: Role r gives this right, and catalogd did not use it: remove the " +
				"rule, or let a test need it",
		},
		{
			name: "a subresource is not the resource", requests: []auditv1.Event{status},
			rules: []rbacv1.PolicyRule{{APIGroups: []string{"g"}, Resources: []string{"things", "things/status"}, Verbs: []string{"patch"}}},
			want:  "patch things.g" + unused,
		},
		{
			name: "another group", requests: []auditv1.Event{status},
			rules: []rbacv1.PolicyRule{{APIGroups: []string{"", "g"}, Resources: []string{"things/status"}, Verbs: []string{"patch"}}},
			want:  "patch things/status" + unused,
		},
		{
			name: "stars", requests: []auditv1.Event{status},
			rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}},
		},
		{
			name: "paths", requests: []auditv1.Event{path},
			rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/catalogs", "/catalogs/*", "/catalogs/x"}, Verbs: []string{"get"}}},
			want:  "get /catalogs" + unused,
		},
		{
			name: "excused", rules: leaseRules[:1], excused: map[string]string{"create leases.coordination.k8s.io": "because"},
		},
		{
			name: "excused and used", rules: leaseRules[:1], requests: []auditv1.Event{asked("create", lease(""), 201)},
			excused: map[string]string{"create leases.coordination.k8s.io": "because"},
			want:    "create leases.coordination.k8s.io: this right is excused and used: remove the excuse",
		},
		{
			name: "excused and not given", excused: map[string]string{"create leases.coordination.k8s.io": "because"},
			want: "create leases.coordination.k8s.io: this right is excused and given by no role: remove the excuse",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			rights := map[accessRight]string{}
			for _, right := range rightsOf(test.rules, test.namespace) {
				rights[right] = "Role r"
			}
			if diff := cmp.Diff(test.want, text(unusedRights(rights, test.requests, test.excused))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDenied(t *testing.T) {
	requests := []auditv1.Event{
		asked("get", lease("a"), 200), asked("get", lease("b"), 404), asked("update", lease("a"), 403), asked("update", lease("a"), 403),
		asked("create", lease(""), 403), {Verb: "get", RequestURI: "/metrics"},
	}
	want := `catalogd was refused: create leases.coordination.k8s.io in namespace ns (create /uri): why
catalogd was refused: update leases.coordination.k8s.io "a" in namespace ns (update /uri): why`
	if diff := cmp.Diff(want, text(denied(requests))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := denied(requests[:2]); err != nil {
		t.Error(err)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
