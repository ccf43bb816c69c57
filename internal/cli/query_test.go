package cli

import (
	"testing"

	"github.com/operator-catalogs/catalogd/internal/cli/exit"
)

func TestQueryReportsMissingFile(t *testing.T) {
	for _, args := range [][]string{{"query", "-f", "nope"}, {"query", "{ x }", "--var-file", "nope"}} {
		if code, _, stderr := run(t, args...); code != exit.NotFound || stderr != "error: file \"nope\" not found\n" {
			t.Errorf("%q: exit code %d: %s", args, code, stderr)
		}
	}
}
