package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
)

// daemon is a catalogd whose ports and data directory outlive its processes.
type daemon struct {
	content, health, metrics string // host:port
	dataDir                  string
	args                     []string
	log                      *daemonLog

	// life is odd while the process serves, and changes with each start and each end. A request may fail only if
	// life was even when it began, or differs when it ends.
	life atomic.Int64

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited <-chan struct{} // closed when the current process has exited
	ended  bool            // the current process was told to exit
}

func newDaemon(t *testing.T, kubeconfig, dataDir string) *daemon {
	t.Helper()
	d := &daemon{
		content: system.FreeAddress(t), health: system.FreeAddress(t), metrics: system.FreeAddress(t), dataDir: dataDir, log: newDaemonLog(t),
	}
	d.args = system.DaemonArgs(kubeconfig, dataDir, d.content, d.health, d.metrics)
	t.Cleanup(func() { _ = d.kill() })
	return d
}

// start starts another process, without waiting until it is ready.
func (d *daemon) start() error {
	cmd, exited, err := system.StartDaemon(os.Getenv("CATALOGD_BIN"), d.args, d.log)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cmd, d.exited, d.ended = cmd, exited, false
	return nil
}

// serves records that the process answers. From now on it must.
func (d *daemon) serves() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended && d.life.Load()%2 == 0 {
		d.life.Add(1)
	}
}

// end records that the process is about to end, and returns it, or nil if none runs.
func (d *daemon) end() (*os.Process, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cmd == nil || d.ended {
		return nil, nil
	}
	d.ended = true
	if d.life.Load()%2 == 1 {
		d.life.Add(1)
	}
	return d.cmd.Process, d.exited
}

// kill kills the process like a crash, and waits until it has exited. It returns an error if the process had exited
// before.
func (d *daemon) kill() error {
	process, exited := d.end()
	if process == nil {
		return nil
	}
	select {
	case <-exited:
		return errEnded
	default:
	}
	if err := process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing catalogd: %w", err)
	}
	<-exited
	return nil
}

// stop terminates the process as Kubernetes does.
func (d *daemon) stop() error {
	process, exited := d.end()
	if process == nil {
		return nil
	}
	if err := process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("ending catalogd: %w", err)
	}
	select {
	case <-exited:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("catalogd has not ended %s after SIGTERM", patience)
	}
}

// errEnded means that catalogd exited by itself.
var errEnded = errors.New("catalogd exited unexpectedly")

// gone returns a channel that is closed when the current process has exited.
func (d *daemon) gone() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.exited
}

// fell reports whether the current process exited by itself.
func (d *daemon) fell() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.exited:
		return !d.ended
	default:
		return false
	}
}

// toldToEnd reports whether the current process was killed or stopped.
func (d *daemon) toldToEnd() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ended
}

func (d *daemon) pid() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cmd.Process.Pid
}

// daemonLog keeps the output of all processes in a file, and notifies those that wait for a text. It is safe for
// concurrent use.
type daemonLog struct {
	file *os.File

	mu      sync.Mutex
	rest    []byte // of an incomplete line
	waiting map[chan struct{}]string
	panics  string // the first line of a panic or a report of the race detector
}

// newDaemonLog makes a log that is kept if the test fails.
func newDaemonLog(t *testing.T) *daemonLog {
	t.Helper()
	dir, err := os.MkdirTemp("", "catalogd-soak-log-")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(dir, "catalogd.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = file.Close()
		if t.Failed() {
			t.Logf("what catalogd logged is in %s", file.Name())
			return
		}
		_ = os.RemoveAll(dir)
	})
	return &daemonLog{file: file, waiting: map[chan struct{}]string{}}
}

func (l *daemonLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 {
			break
		}
		l.line(string(l.rest[:i]))
		l.rest = l.rest[i+1:]
	}
	return l.file.Write(p)
}

func (l *daemonLog) line(line string) {
	for _, bad := range []string{"panic:", "fatal error:", "WARNING: DATA RACE"} {
		if l.panics == "" && strings.HasPrefix(line, bad) {
			l.panics = line
		}
	}
	for c, text := range l.waiting {
		if strings.Contains(line, text) {
			delete(l.waiting, c)
			close(c)
		}
	}
}

// next returns a channel that is closed at the next line with the text.
func (l *daemonLog) next(text string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := make(chan struct{})
	l.waiting[c] = text
	return c
}

// panicked returns the first line of a panic, or "".
func (l *daemonLog) panicked() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.panics
}

const (
	patience = 2 * time.Minute       // time limit for a state
	checkGap = 50 * time.Millisecond // between two checks of a state
)

// within waits until check returns no error, and returns its last error when that takes too long or ctx ends.
func within(ctx context.Context, limit time.Duration, check func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("after %s", limit))
	defer cancel()
	for {
		err := check()
		if err == nil {
			return nil
		}
		if !pause(ctx, checkGap) {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// pause waits, and returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
