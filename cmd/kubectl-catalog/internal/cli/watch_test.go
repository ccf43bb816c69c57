package cli

import (
	"testing"
	"time"

	"github.com/operator-catalogs/catalogd/cmd/kubectl-catalog/internal/content"
	"github.com/operator-catalogs/catalogd/cmd/kubectl-catalog/internal/term"
)

func TestLineOfChange(t *testing.T) {
	at := time.Date(2026, 11, 22, 9, 30, 0, 0, time.Local)
	changes := &content.Changes{Added: []string{"alpha"}, Changed: []string{"beta", "gamma"}, Removed: []string{"delta"}}
	for _, c := range []struct {
		name     string
		terminal term.Terminal
		change   feedChange
		want     string
	}{
		{"first", term.Terminal{}, feedChange{Type: content.Digest, Digest: "sha256:0123456789abcdef"}, "0123456789ab  is served"},
		{"changes", term.Terminal{}, feedChange{Digest: "sha256:0123", Changes: changes}, "0123  +alpha ~beta ~gamma -delta"},
		{"coloured", term.Terminal{Colours: true}, feedChange{Digest: "sha256:0123", Changes: changes},
			"0123  \x1b[32m+alpha\x1b[0m \x1b[33m~beta\x1b[0m \x1b[33m~gamma\x1b[0m \x1b[31m-delta\x1b[0m"},
		{"as wide as it has to be", term.Terminal{Width: 62}, feedChange{Digest: "sha256:0123", Changes: changes}, "0123  +alpha ~beta and 2 more"},
		{"at least one", term.Terminal{Width: 10}, feedChange{Digest: "sha256:0123", Changes: changes}, "0123  +alpha and 3 more"},
		{"none", term.Terminal{}, feedChange{Digest: "sha256:0123", Changes: &content.Changes{}}, "0123  no package differs"},
		{"removed", term.Terminal{}, feedChange{Type: content.Removed}, "is not served any more"},
		{"hostile", term.Terminal{}, feedChange{Digest: "sha256:0123", Changes: &content.Changes{Added: []string{"a\x1b[2J\n"}}}, "0123  +a\uFFFD[2J"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.change.Time, c.change.Catalog = at, "sample"
			e := &env{stdout: &c.terminal}
			if got, want := e.changeLine(c.change), "2026-11-22 09:30:00  sample  "+c.want; got != want {
				t.Errorf("got\n%q, want\n%q", got, want)
			}
		})
	}
}
