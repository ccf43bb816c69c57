package session

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/operator-catalogs/catalogd/apis/olmv1"
	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
)

// The suggested role allows the forbidden verb.
func TestMissingRole(t *testing.T) {
	for _, test := range []struct{ group, resource, verb, want string }{
		{v1beta1.GroupVersion.Group, "catalogsources", "list", "ClusterRole catalogd-packages-viewer"},
		{v1beta1.GroupVersion.Group, "operatorpackages", "watch", "ClusterRole catalogd-packages-viewer"},
		{v1beta1.GroupVersion.Group, "catalogsources", "create", "ClusterRole catalogd-catalogs-editor"},
		{v1beta1.GroupVersion.Group, "catalogsources", "patch", "ClusterRole catalogd-catalogs-editor"},
		{v1beta1.GroupVersion.Group, "catalogsources", "delete", "ClusterRole catalogd-catalogs-editor"},
		{olmv1.GroupName, "clustercatalogs", "watch", "ClusterRole catalogd-cluster-catalogs-viewer"},
		{olmv1.GroupName, "clustercatalogs", "create", "ClusterRole catalogd-cluster-catalogs-editor"},
		{"", "configmaps", "create", ""},
		{"operators.coreos.com", "catalogsources", "list", ""},
	} {
		why := fmt.Errorf("User %q cannot %s resource %q in API group %q at the cluster scope", "jane", test.verb, test.resource, test.group)
		got := explain(apierrors.NewForbidden(schema.GroupResource{Group: test.group, Resource: test.resource}, "", why))
		if !strings.Contains(got, test.want) || strings.Contains(got, "ClusterRole") != (test.want != "") {
			t.Errorf("%s %s: %s", test.verb, test.resource, got)
		}
	}
}

func TestRefusal(t *testing.T) {
	invalid := func(causes ...metav1.StatusCause) error {
		return &apierrors.StatusError{
			ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid, Details: &metav1.StatusDetails{Causes: causes}},
		}
	}
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"of a field", invalid(metav1.StatusCause{
			Field: "spec.pollingInterval", Message: `Invalid value: "5\"ms": pollingInterval must be at least 1s`,
		}),
			"pollingInterval must be at least 1s"},
		{"of the spec", invalid(metav1.StatusCause{Field: "spec", Message: "Invalid value: neither image nor imageTemplate is set: name one"}),
			"neither image nor imageTemplate is set: name one"},
		{"of an object", invalid(metav1.StatusCause{Field: "<nil>", Message: `Invalid value: {"a":"b"}: metadata.name must be short`}),
			"metadata.name must be short"},
		{"of the schema", invalid(
			metav1.StatusCause{Field: "spec.registry.caBundle.kind", Message: `Unsupported value: "x": supported values: "ConfigMap"`},
			metav1.StatusCause{
				Field: "<nil>", Message: "Invalid value: null: some validation rules were not checked because the object was invalid",
			}),
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

// A missing ServiceAccount, or the right to use it, is not a missing catalog.
func TestTokenErrorIsNotAboutCatalogs(t *testing.T) {
	accounts := schema.GroupResource{Resource: "serviceaccounts"}
	for _, test := range []struct {
		err  error
		code int
		want string
	}{
		{apierrors.NewNotFound(accounts, account), 404, "the manifests of catalogd create this"},
		{apierrors.NewForbidden(accounts, account, nil), 403, "the Role catalogd-cli-user in namespace ns"},
		{apierrors.NewServiceUnavailable("soon"), 503, "soon"},
	} {
		err := CatalogError(tokenError("ns", test.err), "sample")
		refused, ok := err.(*content.Error) //nolint:errorlint // the error must not be wrapped
		if !ok || refused.Code != test.code || !strings.Contains(explain(err), test.want) || strings.Contains(explain(err), "packages-viewer") {
			t.Errorf("%v: %v", test.err, explain(err))
		}
	}
}

// Without a server in the kubeconfig, the error of the default server is explained.
func TestNoKubeconfig(t *testing.T) {
	refused := &url.Error{Op: "Get", URL: "http://localhost:8080/apis", Err: errors.New("connection refused")}
	noPage := apierrors.NewGenericServerResponse(http.StatusNotFound, "GET",
		v1beta1.GroupVersion.WithResource("catalogsources").GroupResource(), "", "404", 0, true)
	for _, test := range []struct {
		server string
		err    error
		want   bool
	}{
		{"", refused, true},
		{"", noPage, true},
		{"http://localhost:8080", noPage, false},
		{"", exit.Usagef("--limit"), false},
	} {
		s := New(genericiooptions.NewTestIOStreamsDiscard(), func(string) string { return "" }, "test")
		s.loading.ExplicitPath, s.overrides.ClusterInfo.Server = "/dev/null", test.server
		if _, err := s.Config(); err != nil {
			t.Fatal(err)
		}
		got := s.Explain(test.err)
		if strings.HasPrefix(got, "no kubeconfig found, so localhost:8080 was tried: set KUBECONFIG") != test.want {
			t.Errorf("%v of server %q: %s", test.err, test.server, got)
		}
	}
}

func TestCommandRequestsOneToken(t *testing.T) {
	tokens := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/token"):
			tokens++
			_, _ = w.Write([]byte(`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","status":{"token":"known"}}`))
		case r.Header.Get(content.TokenHeader) != "Bearer known":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			_, _ = w.Write([]byte(`{"catalogs":[]}`))
		}
	}))
	defer server.Close()
	s := New(genericiooptions.NewTestIOStreamsDiscard(), func(string) string { return "" }, "test")
	s.overrides.ClusterInfo.Server = server.URL
	for range 2 {
		for _, catalog := range []string{"a", "b"} {
			service, err := s.open("http://catalogd.ns.svc/catalogs/"+catalog, catalog)
			if err != nil {
				t.Fatal(err)
			}
			var answer any
			if err := service.JSON(t.Context(), "/catalogs", nil, &answer); err != nil {
				t.Error(err)
			}
		}
	}
	if tokens != 1 {
		t.Errorf("%d tokens were made", tokens)
	}
	other, err := s.open("http://catalogd.other.svc/catalogs/c", "c")
	if err != nil || len(s.opened) != 2 {
		t.Errorf("of another installation: %v, %v", other, err)
	}
	s.serverURL = "http://catalogd.ns.svc"
	direct, err := s.Direct()
	if again, _ := s.Direct(); err != nil || direct != again || len(s.opened) != 3 {
		t.Errorf("of --server-url: %v, %v", direct, err)
	}
}
