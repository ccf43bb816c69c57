package cli

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

// Without catalogd, every command reports that, not a missing catalog.
func TestMissingGroup(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api" || r.URL.Path == "/apis" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`))
			return
		}
		http.Error(w, "404 page not found", http.StatusNotFound) // as the API server has it
	}))
	defer server.Close()
	for _, command := range []string{
		"list", "list x", "list --watch", "describe x", "add x c", "add x c --dry-run=server", "refresh x", "refresh --all", "suspend x",
		"remove x --yes",
		"watch", "get packages", "get packages -c x", "get packages -l a=b", "show x", "search x", "graph x", "export x -o -", "query {x}",
		"version",
	} {
		code, _, stderr := run(t, append(strings.Fields(command), "--server", server.URL)...)
		if code != exit.Failure || stderr != "error: "+session.UnknownGroup+"\n" {
			t.Errorf("%s: exit code %d: %s", command, code, stderr)
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stderr bytes.Buffer
	code := Run(ctx, []string{
		"get", "packages", "--server-url", "http://127.0.0.1:1",
	}, genericiooptions.IOStreams{In: &stderr, Out: &stderr, ErrOut: &stderr}, "test")
	if code != exit.Interrupted || stderr.String() != "interrupted\n" {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}
