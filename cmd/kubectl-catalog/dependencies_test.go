package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestNoContainerRuntime requires that the plugin depends on no container runtime, which opm's own packages for bundles would
// bring, and needs no C compiler.
func TestNoContainerRuntime(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{.ImportPath}}{{if .CgoFiles}} (cgo){{end}}", ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 100 {
		t.Fatalf("go list prints %d packages", len(packages))
	}
	for _, name := range packages {
		for _, runtime := range []string{"github.com/containerd/", "ocicrypt", "bbolt", "operator-registry/alpha/action", "(cgo)"} {
			if strings.Contains(name, runtime) && !strings.HasSuffix(name, "/alpha/action/migrations") {
				t.Errorf("it depends on %s", name)
			}
		}
	}
}
