package catalogs

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

// A ConfigMap that the plugin did not create is not deleted with the catalog, even if it has the same certificates.
func TestForeignConfigMapKeepsItsOwner(t *testing.T) {
	for _, test := range []struct {
		existed bool
		manager string
		want    bool
	}{
		{false, "", true},
		{true, session.FieldManager, true}, // an attempt that was interrupted
		{true, "kubectl-create", false},
	} {
		b := &caBundle{existed: test.existed, object: &corev1.ConfigMap{}}
		b.object.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: test.manager}}
		if test.want {
			continue
		}
		if err := b.setOwner(t.Context(), &v1beta1.CatalogSource{}); err != nil || b.object.OwnerReferences != nil {
			t.Errorf("%+v: error %v, owners %v", test, err, b.object.OwnerReferences)
		}
	}
}
