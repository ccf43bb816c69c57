package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// daemon is one catalogd on ports and a data directory that outlive its process, so that it can be started again.
type daemon struct {
	content, health, metrics string // host:port
	dataDir                  string
	args                     []string
	log                      logBuffer

	cmd    *exec.Cmd
	exited chan struct{} // closed when the current process has ended
}

func newDaemon(t *testing.T, kubeconfig string) *daemon {
	t.Helper()
	d := &daemon{content: freeAddress(t), health: freeAddress(t), metrics: freeAddress(t), dataDir: t.TempDir()}
	d.args = []string{
		"--kubeconfig", kubeconfig, "--namespace", namespace, "--data-dir", d.dataDir,
		"--content-bind-address", d.content, "--external-url", "http://" + d.content,
		"--health-bind-address", d.health, "--metrics-bind-address", d.metrics,
		"--log-format", "text",
	}
	return d
}

// start runs the process and returns at once: what it must answer by when is for the test to say.
func (d *daemon) start(t *testing.T) {
	t.Helper()
	cmd := exec.Command(os.Getenv("CATALOGD_BIN"), d.args...)
	cmd.Stdout, cmd.Stderr = &d.log, &d.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting catalogd: %v", err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // the exit code is read from ProcessState
	}()
	d.cmd, d.exited = cmd, exited
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

// kill ends the process as a crash of the node would: without warning.
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

// wait returns the exit code, or fails the test when the process has not ended in time.
func (d *daemon) wait(t *testing.T, timeout time.Duration) int {
	t.Helper()
	select {
	case <-d.exited:
	case <-time.After(timeout):
		t.Fatalf("catalogd has not ended within %s", timeout)
	}
	return d.cmd.ProcessState.ExitCode()
}

// logBuffer collects what processes print; safe for use while they run.
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

// freeAddress returns a loopback address whose port was free a moment ago. It is below those that the kernel gives to clients, so
// that none of their connections takes it meanwhile.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))
		if listener, err := net.Listen("tcp", address); err == nil {
			must(t, listener.Close())
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}
