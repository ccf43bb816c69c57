package e2e

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// daemon is a catalogd whose ports and data directory outlive the process, so that it can be restarted.
type daemon struct {
	content, health, metrics string // host:port
	dataDir                  string
	program                  string // CATALOGD_BIN by default
	args                     []string
	log                      logBuffer

	cmd    *exec.Cmd
	exited <-chan struct{} // closed when the current process has exited
}

func newDaemon(t *testing.T, kubeconfig string) *daemon {
	t.Helper()
	d := &daemon{content: system.FreeAddress(t), health: system.FreeAddress(t), metrics: system.FreeAddress(t), dataDir: t.TempDir()}
	d.args = system.DaemonArgs(kubeconfig, d.dataDir, d.content, d.health, d.metrics)
	return d
}

// start runs the process and returns immediately, without waiting until it is ready.
func (d *daemon) start(t *testing.T) {
	t.Helper()
	var err error
	d.cmd, d.exited, err = system.StartDaemon(cmp.Or(d.program, os.Getenv("CATALOGD_BIN")), d.args, &d.log)
	must.Succeed(t, err)
}

func (d *daemon) alive() bool {
	if d.cmd == nil {
		return false
	}
	select {
	case <-d.exited:
		return false
	default:
		return true
	}
}

// kill ends the process without warning, like a crash of the node.
func (d *daemon) kill(t *testing.T) {
	t.Helper()
	if err := d.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatalf("killing catalogd: %v", err)
	}
	<-d.exited
}

func (d *daemon) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := d.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("sending %s to catalogd: %v", sig, err)
	}
}

// wait returns the exit code, or fails the test if the process does not exit in time.
func (d *daemon) wait(t *testing.T, timeout time.Duration) int {
	t.Helper()
	select {
	case <-d.exited:
	case <-time.After(timeout):
		t.Fatalf("catalogd has not ended within %s", timeout)
	}
	return d.cmd.ProcessState.ExitCode()
}

// logBuffer collects the output of processes; safe for concurrent use.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// tail returns the last n lines.
func (l *logBuffer) tail(n int) string {
	lines := strings.SplitAfter(l.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "")
}
