package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
)

func TestListPrintsExistingAndFailsForOthers(t *testing.T) {
	server := apiServer(t, map[string]string{"a": "http://127.0.0.1:1/catalogs/a"})
	code, stdout, stderr := run(t, "list", "nope", "a", "-o", "name", "--server", server)
	want := "error: catalog \"nope\" not found; kubectl catalog list shows all catalogs\n"
	if code != exit.NotFound || stdout != "catalogsource.catalogd.operatorframework.io/a\n" || stderr != want {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = run(t, "list", "nope", "--server", server)
	if code != exit.NotFound || stdout != "" || stderr != want {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

// With --ignore-not-found, no content service is queried for suggestions.
func TestIgnoreNotFoundMakesNoSuggestions(t *testing.T) {
	asked := 0
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer service.Close()
	server := apiServer(t, map[string]string{"a": service.URL + "/catalogs/a"})
	code, stdout, stderr := run(t, "remove", "nope", "gone", "--yes", "--ignore-not-found", "--server", server)
	if code != exit.OK || stdout+stderr != "" || asked > 0 {
		t.Errorf("exit code %d, asked %d times: %s%s", code, asked, stdout, stderr)
	}
	code, _, stderr = run(t, "remove", "nope", "aa", "--yes", "--server", server)
	const want = "catalog \"nope\" not found; kubectl catalog list shows all catalogs\ncatalog \"aa\" not found: did you mean \"a\"?\n"
	if code != exit.NotFound || !strings.HasSuffix(stderr, want) || asked == 0 {
		t.Errorf("exit code %d, asked %d times: %s", code, asked, stderr)
	}
}

func TestListMentionsSelectorWithoutResults(t *testing.T) {
	server := cluster(t, nil, missingImage(v1beta1.ImageNotFoundReason))
	code, stdout, stderr := run(t, "list", "-l", "a=b", "--server", server)
	if code != exit.OK || stdout != "" || stderr != "No catalogs found with the labels \"a=b\".\n" {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}
