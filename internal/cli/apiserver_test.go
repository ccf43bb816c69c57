package cli

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
)

func TestWrongAPIServer(t *testing.T) {
	for _, test := range []struct {
		args string
		code int
		says string
	}{
		{
			"list --server https://127.0.0.1:1",
			1,
			"error: connecting to the API server at 127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused; " +
				"check --kubeconfig, --context and --server\n",
		},
		{"list --context nope", 2, `context "nope" does not exist: see kubectl config view`},
		{"list --cluster nope", 2, `cluster "nope" does not exist`},
		{"list --user nope", 2, `auth info "nope" does not exist`},
		{"list --kubeconfig testdata/none", 3, `--kubeconfig: file "testdata/none" not found`},
		{"get packages --server-url http://127.0.0.1:1", 1, "the content service at http://127.0.0.1:1 cannot be reached"},
	} {
		code, _, stderr := run(t, strings.Fields(test.args)...)
		if code != test.code || !strings.Contains(stderr, test.says) {
			t.Errorf("%s: exit code %d, want %d, and %q in %s", test.args, code, test.code, test.says, stderr)
		}
	}
}

// Validation errors of the API server name flags instead of fields.
func TestValidationErrorsAreUsageErrors(t *testing.T) {
	var status metav1.Status
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(status.Code))
		_ = json.NewEncoder(w).Encode(status)
	}))
	defer server.Close()
	answer := func(err *apierrors.StatusError) metav1.Status {
		err.ErrStatus.Kind, err.ErrStatus.APIVersion = "Status", "v1"
		return err.ErrStatus
	}
	invalid := func(message string) metav1.Status {
		err := apierrors.NewInvalid(v1beta1.GroupVersion.WithKind("CatalogSource").GroupKind(), "mine", nil)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Field: "spec", Message: "Invalid value: " + message}}
		return answer(err)
	}
	for _, test := range []struct {
		args   string
		status metav1.Status
		says   string
	}{
		{"add mine x --interval 1h --schedule @daily", invalid("pollingInterval and pollingSchedule are mutually exclusive: remove one of them"),
			"error: --interval and --schedule are mutually exclusive: remove one of them\n"},
		{"add mine x", answer(apierrors.NewForbidden(v1beta1.GroupVersion.WithResource("catalogsources").GroupResource(), "mine",
			errors.New(`ValidatingAdmissionPolicy 'p' with binding 'b' denied request: spec.pollingSchedule: invalid minute "x": use numbers`))),
			`error: --schedule: invalid minute "x": use numbers` + "\n"},
		{"get packages --field-selector catalog=sample", answer(apierrors.NewBadRequest("field label not supported: catalog")),
			"error: --field-selector: field label not supported: catalog; valid fields are spec.catalog, spec.packageName, "},
		{
			"list --field-selector x=y",
			answer(apierrors.NewBadRequest("field label not supported: x")),
			"error: --field-selector: field label not supported: x; valid fields are metadata.name\n",
		},
		{
			"list --watch --field-selector x=y",
			answer(apierrors.NewBadRequest("field label not supported: x")),
			"; valid fields are metadata.name\n",
		},
	} {
		status = test.status
		code, _, stderr := run(t, append(strings.Fields(test.args), "--server", server.URL)...)
		if code != exit.Usage || !strings.Contains(stderr, test.says) {
			t.Errorf("%s: exit code %d: %s", test.args, code, stderr)
		}
	}
}

func TestAddRefusesDirectory(t *testing.T) {
	for _, dir := range []string{"testdata", "./nosuch", "/nosuch", "../cli"} {
		code, out, stderr := runPlugin(t, "add", "mine", dir, "--dry-run=client")
		if want := dir + " is a local path, and catalogd pulls images; push it first: kubectl catalog push " + dir; code != exit.Usage ||
			out != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d: %s%s", dir, code, out, stderr)
		}
	}
}
