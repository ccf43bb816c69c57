package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMigrate(t *testing.T) {
	stdout, stderr, code := runIn(t, "migrate", "-f", filepath.Join("testdata", "migrate", "in.yaml"))
	if code != 1 {
		t.Errorf("exit code %d, want 1: two cannot be converted", code)
	}
	for name, got := range map[string]string{"out.yaml": stdout, "err.txt": stderr} {
		want, err := os.ReadFile(filepath.Join("testdata", "migrate", name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for _, args := range [][]string{{}, {"-f", "x", "--from-cluster"}, {"-f", "x", "-A"}} {
		if _, _, code := runIn(t, append([]string{"migrate"}, args...)...); code != 2 {
			t.Errorf("%q: exit code %d, want 2", args, code)
		}
	}
	if _, _, code := runIn(t, "migrate", "-f", "nope.yaml"); code != 3 {
		t.Errorf("no file: exit code %d, want 3", code)
	}
}

// OLM polls every 15 minutes if registryPoll has no interval, and not at all without registryPoll.
func TestMigrateNotes(t *testing.T) {
	for spec, want := range map[string]string{
		`updateStrategy: {registryPoll: {}}`: `# - spec.updateStrategy.registryPoll.interval: "" is not a duration; the default of OLM ` +
			`and catalogd is 15m`,
		`updateStrategy: {}`: `# - spec.updateStrategy: not set; OLM`,
		`publisher: x`:       `# - metadata.finalizers: omitted; a/b, c/d apply to the original`,
	} {
		file := filepath.Join(t.TempDir(), "in.yaml")
		const object = "apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\nmetadata: {name: x, finalizers: [a/b, " +
			"c/d]}\nspec: {sourceType: grpc, image: 'r.example/x:y', %s}\n"
		if err := os.WriteFile(file, fmt.Appendf(nil, object, spec), 0o600); err != nil {
			t.Fatal(err)
		}
		if stdout, stderr, code := runIn(t, "migrate", "-f", file); code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%s: exit code %d, %s\n%s", spec, code, stderr, stdout)
		}
	}
}
