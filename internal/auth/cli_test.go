package auth

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

const system = "catalogd-system"

// cliUser is a user with only Role catalogd-cli-user.
func (c *cluster) cliUser(t *testing.T, name string) *kubernetes.Clientset {
	t.Helper()
	user, err := c.Env.AddUser(envtest.User{Name: name}, nil)
	must.Succeed(t, err)
	client, err := kubernetes.NewForConfig(user.Config())
	must.Succeed(t, err)
	bindings := c.admin.RbacV1().RoleBindings(system)
	_, err = bindings.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "catalogd-cli-user"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
	}, metav1.CreateOptions{})
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, bindings.Delete(context.Background(), name, metav1.DeleteOptions{})) })
	return client
}

func createToken(ctx context.Context, client *kubernetes.Clientset, namespace, account string) (string, error) {
	seconds := int64(600)
	review, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: []string{Audience}, ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return review.Status.Token, nil
}

// A user with the role can read through the API server what catalogd-cli can read, and nothing else.
func TestCLIUser(t *testing.T) {
	a := shared.authorizer(t, nil)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := ask(a, r)
		fmt.Fprintf(w, "%s %t", got.User, got.Allowed)
	})
	path := shared.service(t, system, "catalogd", handler)
	other := shared.service(t, system, "other", handler)
	client := shared.cliUser(t, "jane")
	var token string
	eventually.Holds(t, "jane may make a token", func() (made bool) {
		var err error
		token, err = createToken(t.Context(), client, system, "catalogd-cli")
		return err == nil
	})
	send := func(verb, path string) string {
		body, err := client.CoreV1().RESTClient().Verb(verb).AbsPath(path).SetHeader(Header, "Bearer "+token).Do(t.Context()).Raw()
		if apierrors.IsForbidden(err) {
			return "forbidden"
		}
		must.Succeed(t, err)
		return string(body)
	}
	const account = "system:serviceaccount:" + system + ":catalogd-cli"
	byName := "/api/v1/namespaces/" + system + "/services/https:catalogd:https/proxy"
	eventually.Holds(t, "catalogd-cli may read", func() bool { return send(http.MethodGet, path+"/catalogs") == account+" true" })
	got := map[string]string{}
	want := map[string]string{
		"GET " + path + "/catalogs/a/api/v1/all":                              account + " true",
		"GET " + path + "/api/v1/graphql":                                     account + " true",
		"GET " + byName + "/catalogs":                                         account + " true",
		"GET " + path + "/metrics":                                            account + " false",
		"POST " + path + "/catalogs":                                          "forbidden",
		"GET " + other + "/catalogs":                                          "forbidden",
		"GET /api/v1/namespaces/" + system + "/services/catalogd/proxy/":      "forbidden",
		"GET /api/v1/namespaces/default/services/https:kubernetes:443/proxy/": "forbidden",
		"GET /api/v1/namespaces/" + system + "/services":                      "forbidden",
	}
	for request := range want {
		var verb, path string
		_, err := fmt.Sscan(request, &verb, &path)
		must.Succeed(t, err)
		got[request] = send(verb, path)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("replies (-want +got):\n%s", diff)
	}
	for _, account := range []string{"catalogd", "default"} {
		if _, err := createToken(t.Context(), client, system, account); !apierrors.IsForbidden(err) {
			t.Errorf("a token of %s: error %v, want that it is forbidden", account, err)
		}
	}
}
