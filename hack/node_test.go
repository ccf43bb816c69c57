package hack

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// kubectl accepts no flags before the name of a plugin, so the kubectl of `make node` gets the kubeconfig by its environment.
func TestNodeKubectl(t *testing.T) {
	root, err := filepath.Abs("..")
	must.Succeed(t, err)
	dir, programs := t.TempDir(), t.TempDir()
	must.Succeed(t, os.Mkdir(filepath.Join(dir, "node1"), 0o755))
	for path, content := range map[string]string{
		filepath.Join(dir, "kubeconfig"):   "", // it exists, so the script generates no keys
		filepath.Join(dir, "node1", "pid"): "7",
		filepath.Join(programs, "nsenter"): "#!/bin/sh\nprintf '<%s>' \"$KUBECONFIG\" \"${PATH%%:*}\" \"$@\"\n",
	} {
		must.Succeed(t, os.WriteFile(path, []byte(content), 0o755))
	}
	write := exec.Command("bash", "-euc", `. "$0"`, filepath.Join("node", "pki.sh"))
	write.Env = append(os.Environ(), "DIR="+dir)
	if out, err := write.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	run := exec.Command(filepath.Join(dir, "kubectl"), "catalog", "list", "a b")
	run.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
	got, err := run.Output()
	must.Succeed(t, err)
	want := "<" + filepath.Join(dir, "kubeconfig") + "><" + filepath.Join(root, "bin") + "><-t><7><-n><--><" +
		filepath.Join(dir, "bin", "kubectl") + "><catalog><list><a b>"
	if string(got) != want {
		t.Errorf("the script ran %s, want %s", got, want)
	}
}
