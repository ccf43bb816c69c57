package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/cli/exit"
)

// The kubeconfig can set --as, too.
func TestServerURLRefusesImpersonation(t *testing.T) {
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
		if code != exit.Usage || asked || !strings.Contains(stderr, "--as") {
			t.Errorf("%q: exit code %d, asked %t: %s", args, code, asked, stderr)
		}
	}
}

// Errors contain texts of catalogs and registries.
func TestErrorsHaveNoControlCharacters(t *testing.T) {
	url := contentService(t, func(string, map[string]any) string {
		return `{"errors":[{"message":"no \u001b]0;title\u0007 \u202e"}]}`
	})
	if code, _, stderr := run(t, "get", "packages", "--server-url", url); code != exit.Failure ||
		stderr != "error: no \ufffd]0;title\ufffd \ufffd\n" {
		t.Errorf("exit code %d: %q", code, stderr)
	}
}
