package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/operator-catalogs/catalogd/internal/cli/content"
)

// That there is no account, or no right to be it, is not that there is no catalog.
func TestNoToken(t *testing.T) {
	accounts := schema.GroupResource{Resource: "serviceaccounts"}
	for _, test := range []struct {
		err  error
		code int
		want string
	}{
		{apierrors.NewNotFound(accounts, account), 404, "as the manifests of catalogd do"},
		{apierrors.NewForbidden(accounts, account, nil), 403, "the Role catalogd-cli-user in namespace ns"},
		{apierrors.NewServiceUnavailable("soon"), 503, "soon"},
	} {
		err := missing(noToken("ns", test.err), "sample")
		told, ok := err.(*content.Error) //nolint:errorlint // missing is to return it as it is
		if !ok || told.Code != test.code || !strings.Contains(explain(err), test.want) || strings.Contains(explain(err), "packages-viewer") {
			t.Errorf("%v: %v", test.err, explain(err))
		}
	}
}

// A kubeconfig may say --as, too.
func TestServerURLIsNotForAnother(t *testing.T) {
	asked := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "as")
	const config = `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"a","cluster":{"server":"http://127.0.0.1:1"}}],
		"users":[{"name":"u","user":{"as":"jane"}}],"contexts":[{"name":"c","context":{"cluster":"a","user":"u"}}],"current-context":"c"}`
	if err := os.WriteFile(kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--as", "jane"}, {"--kubeconfig", kubeconfig}} {
		code, _, stderr := run(t, append(args, "get", "packages", "--server-url", server.URL)...)
		if code != exitUsage || asked || !strings.Contains(stderr, "--as") {
			t.Errorf("%q: exit code %d, asked %t: %s", args, code, asked, stderr)
		}
	}
}

// Errors have texts of catalogs and registries in them.
func TestErrorsAreHarmless(t *testing.T) {
	url := contentService(t, func(string, map[string]any) string {
		return `{"errors":[{"message":"no \u001b]0;title\u0007 \u202e"}]}`
	})
	if code, _, stderr := run(t, "get", "packages", "--server-url", url); code != exitFailure || stderr != "error: no \ufffd]0;title\ufffd \ufffd\n" {
		t.Errorf("exit code %d: %q", code, stderr)
	}
}
