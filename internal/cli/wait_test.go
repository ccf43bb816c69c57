package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
)

// The API server refuses a change of a recreated catalog.
func TestChangesHavePreconditionOnUID(t *testing.T) {
	is := v1beta1.CatalogSource{}
	is.Name, is.UID, is.Spec.Suspend = "sample", "1", true
	for _, args := range [][]string{{"refresh", "sample", "--wait"}, {"resume", "sample"}} {
		is.Spec.Suspend = args[0] == "resume"
		server := httptest.NewServer(withoutClusterCatalogs(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.Method != http.MethodPatch {
				_ = json.NewEncoder(w).Encode(is)
				return
			}
			var patch metav1.PartialObjectMetadata
			if err := json.NewDecoder(r.Body).Decode(&patch); err != nil || patch.UID != "1" {
				t.Errorf("%q: the patch is of object %q, %v", args, patch.UID, err)
			}
			w.WriteHeader(http.StatusUnprocessableEntity)
			refused := field.Invalid(field.NewPath("metadata", "uid"), "1", "field is immutable") // as the API server has it
			status := apierrors.NewInvalid(schema.GroupKind{}, "sample", field.ErrorList{refused}).Status()
			status.APIVersion, status.Kind = "v1", "Status"
			_ = json.NewEncoder(w).Encode(status)
		}))
		code, _, stderr := run(t, append(args, "--server", server.URL)...)
		if code != exit.Failure || !strings.Contains(stderr, `catalog "sample" was deleted and recreated during the request`) {
			t.Errorf("%q: exit code %d: %s", args, code, stderr)
		}
		server.Close()
	}
}
