package cli

import (
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
)

// A poll that catalogd would not make is neither requested nor awaited.
func TestRefreshRefusesSuspendedCatalogs(t *testing.T) {
	suspended, unavailable := missingImage(""), missingImage("")
	suspended.Spec.Suspend, unavailable.Spec.Availability = true, v1beta1.AvailabilityUnavailable
	for want, c := range map[string]v1beta1.CatalogSource{"is suspended": suspended, "is unavailable": unavailable} {
		server := cluster(t, nil, c)
		if code, stdout, stderr := run(t, "refresh", "mine", "--wait", "--server", server); code != exit.Failure ||
			stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d: %s%s", want, code, stdout, stderr)
		}
		if code, stdout, stderr := run(t, "refresh", "--all", "--wait", "--server", server); code != exit.OK || stdout+stderr != "" {
			t.Errorf("all: %s: exit code %d: %s%s", want, code, stdout, stderr)
		}
	}
}
