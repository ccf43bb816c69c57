// Package hack tests the scripts of this directory.
package hack

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// program makes a file in the cache, once it has read a line from its standard input.
const program = `set -euo pipefail
. "$CACHE_SH"
build() {
	echo built >>"$XDG_CACHE_HOME/builds"
	read -r
	touch "$1/hello"
}
in_cache hello key build`

func TestParallelBuildsOfOneProgram(t *testing.T) {
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip("needs flock")
	}
	script, err := filepath.Abs("cache.sh")
	must.Succeed(t, err)
	cache := t.TempDir()
	type run struct {
		*exec.Cmd
		stdout strings.Builder
	}
	var runs [2]run
	for i := range runs {
		r := &runs[i]
		r.Cmd = exec.Command("bash", "-c", program)
		r.Env = append(os.Environ(), "CACHE_SH="+script, "XDG_CACHE_HOME="+cache)
		r.Stdout, r.Stderr = &r.stdout, logFile(t, filepath.Join(cache, "stderr"))
	}
	var pipes []*os.File
	for i := range runs {
		in, out, err := os.Pipe()
		must.Succeed(t, err)
		runs[i].Stdin = in
		pipes = append(pipes, in, out)
		must.Succeed(t, runs[i].Start())
	}
	read := func(name string) string {
		content, _ := os.ReadFile(filepath.Join(cache, name))
		return string(content)
	}
	eventually.Holds(t, "one process builds and the other waits or builds, too", func() bool {
		return strings.Contains(read("stderr"), "Waiting for another process") || strings.Count(read("builds"), "built") > 1
	})
	for _, pipe := range pipes {
		pipe.WriteString("go on\n")
		pipe.Close()
	}
	for i := range runs {
		must.Succeed(t, runs[i].Wait())
		if _, err := os.Stat(filepath.Join(strings.TrimSpace(runs[i].stdout.String()), "hello")); err != nil {
			t.Error(err)
		}
	}
	if got := read("builds"); got != "built\n" {
		t.Errorf("the program was built more than once: %q", got)
	}
}

func logFile(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must.Succeed(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}
