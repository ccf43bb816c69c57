package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// child is a child process. The kernel terminates it when this process dies.
type child struct {
	name, log string
	cmd       *exec.Cmd
	done      chan struct{} // closed when the process has exited
}

// start runs a program in its own process group, with its output in a log file.
func start(name, log, program string, args ...string) (*child, error) {
	output, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	c := &child{name: name, log: log, done: make(chan struct{})}
	c.cmd = exec.Command(program, args...) //nolint:gosec // G702: what is run comes from the developer who runs it
	c.cmd.Stdout, c.cmd.Stderr = output, output
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM} // nginx then stops its workers
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the parent death signal is sent when the thread that started the child exits
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			_ = c.cmd.Wait() // the exit code is read from ProcessState
			close(c.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// ended returns an error if the process has exited.
func (c *child) ended() error {
	select {
	case <-c.done:
		text, _ := os.ReadFile(c.log)
		return fmt.Errorf("%s exited unexpectedly (%v); the end of its log:\n%s", c.name, c.cmd.ProcessState, text[max(0, len(text)-2000):])
	default:
		return nil
	}
}

// listens waits until the process accepts connections at an address.
func (c *child) listens(ctx context.Context, address string) error {
	return every(ctx, 20*time.Millisecond, func() (bool, error) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return false, c.ended()
		}
		return true, conn.Close()
	})
}

// kill kills the process and its children.
func (c *child) kill() {
	_ = syscall.Kill(-c.pid(), syscall.SIGKILL) // it may have exited
	<-c.done
}

// stop terminates the process, and kills it after a grace period.
func (c *child) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
	case <-time.After(20 * time.Second):
		c.kill()
	}
}

// command runs a short-lived process and returns its standard output, also on failure.
func command(ctx context.Context, program string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // G702: as above
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w: %s", filepath.Base(program), strings.Join(args, " "),
			errors.Join(context.Cause(ctx), err), bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.String(), nil
}

// cpuTime returns the user and system time of a process and its children; see proc_pid_stat(5).
func cpuTime(pid int) (time.Duration, error) {
	const ticksPerSecond = 100 // USER_HZ, on every architecture of Linux
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The third and the following fields come after the name, which may contain anything.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const user, kernel = 14 - 3, 15 - 3
	if len(fields) <= kernel {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	var ticks int64
	for _, field := range []string{fields[user], fields[kernel]} {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	sum := time.Duration(ticks) * time.Second / ticksPerSecond
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)) // missing on some kernels
	for field := range strings.FieldsSeq(string(children)) {
		if n, err := strconv.Atoi(field); err == nil {
			used, err := cpuTime(n)
			if err != nil {
				return 0, err
			}
			sum += used
		}
	}
	return sum, nil
}

// peakMemory returns the peak memory of a process in MiB (VmHWM of proc_pid_status(5)).
func peakMemory(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kibibytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return float64(kibibytes) / (1 << 10), err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no VmHWM", pid)
}

// every calls done periodically until it returns true or an error, or ctx ends.
func every(ctx context.Context, interval time.Duration, done func() (bool, error)) error {
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

// settle waits until a process has used less than 5 % of a processor for a second, so that its background work is
// done.
func settle(ctx context.Context, pid int) error {
	const second, little = time.Second, 50 * time.Millisecond
	last, err := cpuTime(pid)
	if err != nil {
		return err
	}
	first := true
	return every(ctx, second, func() (bool, error) {
		if first {
			first = false
			return false, nil
		}
		used, err := cpuTime(pid)
		quiet := used-last < little
		last = used
		return quiet, err
	})
}
