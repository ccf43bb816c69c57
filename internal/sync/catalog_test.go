package sync

import (
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// Only the API server's own "not found" removes content.
func TestIsGone(t *testing.T) {
	resource := schema.GroupResource{Group: v1beta1.GroupName, Resource: "catalogsources"}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"there is none of that name": {apierrors.NewNotFound(resource, "cat"), true},
		"a proxy lost its backend": {
			apierrors.NewGenericServerResponse(http.StatusNotFound, "get", resource, "cat", "404 page not found", 0, true), false,
		},
		"something else is not there": {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "x"), false},
		"no right to ask":             {apierrors.NewForbidden(resource, "cat", nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isGone(test.err, "cat"); got != test.want {
				t.Errorf("gone: %t, want %t", got, test.want)
			}
		})
	}
}
