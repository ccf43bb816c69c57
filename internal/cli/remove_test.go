package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
)

// A catalog may be deleted or recreated between the read and the removal.
func TestRemoveDetectsConcurrentChange(t *testing.T) {
	was := v1beta1.CatalogSource{}
	was.Name, was.UID = "sample", "1"
	for _, tt := range []struct {
		answer metav1.Status
		args   []string
		want   int
	}{
		{metav1.Status{Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound}, nil, exit.NotFound},
		{metav1.Status{Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound}, []string{"--ignore-not-found"}, exit.OK},
		{metav1.Status{Code: http.StatusConflict, Reason: metav1.StatusReasonConflict}, []string{"--ignore-not-found"}, exit.Failure},
		{metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden}, []string{"--ignore-not-found"}, exit.Failure},
	} {
		tt.answer.APIVersion, tt.answer.Kind, tt.answer.Status = "v1", "Status", metav1.StatusFailure
		server := httptest.NewServer(withoutClusterCatalogs(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.Method != http.MethodDelete {
				_ = json.NewEncoder(w).Encode(was)
				return
			}
			w.WriteHeader(int(tt.answer.Code))
			_ = json.NewEncoder(w).Encode(tt.answer)
		}))
		code, stdout, stderr := run(t, append([]string{"remove", "sample", "--yes", "--wait=false", "--server", server.URL}, tt.args...)...)
		if code != tt.want || stdout != "" || (stderr == "") != (code == exit.OK) {
			t.Errorf("%d %q: exit code %d, want %d: %s%s", tt.answer.Code, tt.args, code, tt.want, stdout, stderr)
		}
		server.Close()
	}
}
