// Package process runs the child processes of tests and developer tools.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// attributes give a child its own process group. The kernel terminates the child when this process dies; nginx then stops
// its workers.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// Child is a process that runs until it is stopped.
type Child struct {
	Name string
	Log  string        // file of its output
	Done chan struct{} // closed when it has exited
	cmd  *exec.Cmd
}

// Start starts a program and writes its output to a file.
func Start(name, log, program string, args ...string) (*Child, error) {
	output, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	c := &Child{Name: name, Log: log, Done: make(chan struct{})}
	c.cmd = exec.Command(program, args...)
	c.cmd.Stdout, c.cmd.Stderr, c.cmd.SysProcAttr = output, output, attributes()
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the parent death signal is sent when the thread that started the child exits
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			_ = c.cmd.Wait() // the exit code is read from ProcessState
			close(c.Done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return c, nil
}

// PID returns the process ID.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Ended returns an error with the end of the log if the process has exited.
func (c *Child) Ended() error {
	select {
	case <-c.Done:
		return fmt.Errorf("%s exited unexpectedly (%v); the end of %s:\n%s", c.Name, c.cmd.ProcessState, c.Log, Tail(c.Log))
	default:
		return nil
	}
}

// Failed returns an error with the end of the log if the process has exited with an exit code other than 0.
func (c *Child) Failed() error {
	if err := c.Ended(); err != nil && !c.cmd.ProcessState.Success() {
		return err
	}
	return nil
}

// Kill kills the process and its group, and waits for it.
func (c *Child) Kill() {
	_ = syscall.Kill(-c.PID(), syscall.SIGKILL) // it may have exited
	<-c.Done
}

// Stop terminates the process and waits for it. It is an error if the process must be killed after the grace period.
func (c *Child) Stop(grace time.Duration) error {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have exited
	select {
	case <-c.Done:
		return nil
	case <-time.After(grace):
		c.Kill()
		return fmt.Errorf("%s did not exit within %s and was killed", c.Name, grace)
	}
}

// Command returns a command with its own process group, which is terminated when ctx ends.
func Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = attributes()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// Output runs a command and returns its standard output. The error has its standard error.
func Output(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", filepath.Base(cmd.Path), strings.Join(cmd.Args[1:], " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.String(), err
}

// Run runs a program and returns its standard output. The error has its standard error, or why ctx ended.
func Run(ctx context.Context, program string, args ...string) (string, error) {
	text, err := Output(Command(ctx, program, args...))
	if err != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return text, err
}

// Every calls done periodically until it returns true or an error, or until ctx ends.
func Every(ctx context.Context, interval time.Duration, done func() (bool, error)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// Tail returns the last lines of a log, indented.
func Tail(log string) string {
	const lines, longest = 15, 16 << 10
	file, err := os.Open(filepath.Clean(log))
	if err != nil {
		return "  (" + err.Error() + ")"
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > longest {
		_, _ = file.Seek(-longest, io.SeekEnd)
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return "  (" + err.Error() + ")"
	}
	if len(text) == 0 {
		return "  (it is empty)"
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return "  " + strings.Join(all[max(0, len(all)-lines):], "\n  ")
}

// nextPort is the port that FreeAddresses tries next, modulo 20,000. Each process starts at another.
var nextPort atomic.Uint32

func init() { nextPort.Store(rand.Uint32()) } //nolint:gosec // G404: any port will do

// FreeAddresses returns n loopback addresses with free ports, outside of the range from which the kernel chooses. No port is
// returned again soon, as one that is free may be meant for a program that is about to start.
func FreeAddresses(n int) (addresses []string, err error) {
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+nextPort.Add(1)%20_000)
		listener, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		_ = listener.Close()
		if addresses = append(addresses, address); len(addresses) == n {
			return addresses, nil
		}
	}
	return nil, errors.New("no free port below 30000")
}
