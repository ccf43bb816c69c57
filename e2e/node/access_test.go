package node

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// readerToken is the token of a service account that may read all catalogs.
func readerToken(t *testing.T) string {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "e2e-reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "catalogd-content-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "reader"}},
	}
	must(t, client.IgnoreAlreadyExists(installed.Create(t.Context(), binding)))
	token, err := installed.token(t.Context(), "reader")
	must(t, err)
	return token
}

// TestInstalled: every replica serves every catalog, and the same.
func TestInstalled(t *testing.T) {
	eventually(t, "all replicas and catalogs are ready", installed.allReady)
	pods, err := installed.pods(t.Context())
	must(t, err)
	token := readerToken(t)
	var first content
	for _, pod := range pods {
		known, err := installed.learn(t.Context(), pod.Status.PodIP+":8443", token)
		must(t, err)
		if first == nil {
			first = known
		}
		if diff := cmp.Diff(first, known, cmp.AllowUnexported(answer{})); diff != "" {
			t.Errorf("%s serves other content than %s (-, +):\n%s", pod.Name, pods[0].Name, diff)
		}
	}
}

// TestAccess: through the Service, who is known and allowed gets the content, nobody else does.
func TestAccess(t *testing.T) {
	address, err := installed.serviceAddress(t.Context())
	must(t, err)
	web, err := installed.clientOf(t.Context(), address)
	must(t, err)
	stranger, err := installed.token(t.Context(), "stranger")
	must(t, err)
	for _, c := range []struct {
		who, token string
		want       int
	}{
		{"a reader", readerToken(t), http.StatusOK},
		{"nobody", "", http.StatusUnauthorized},
		{"an invented token", "invented", http.StatusUnauthorized},
		{"an account without the role", stranger, http.StatusForbidden},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("https://%s/catalogs/%s/api/v1/all", service, installed.catalogs[0]), nil)
		must(t, err)
		if c.token != "" {
			request.Header.Set("Authorization", "Bearer "+c.token)
		}
		response, err := web.Do(request)
		must(t, err)
		must(t, response.Body.Close())
		if response.StatusCode != c.want {
			t.Errorf("%s gets %s, want %d", c.who, response.Status, c.want)
		}
	}
}
