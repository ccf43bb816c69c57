package cli

import (
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/cli/exit"
)

func TestListWatchUsage(t *testing.T) {
	if code, _, stderr := run(t, "get", "channels", "--watch"); code != exit.Usage || !strings.Contains(stderr, "--package") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}
