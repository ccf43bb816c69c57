package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// child is a child process.
type child struct {
	name, log string
	cmd       *exec.Cmd
	done      chan struct{} // closed when the process has exited; err is set before
	err       error
}

// childError means that a child exited by itself.
type childError struct{ child *child }

func (e *childError) Error() string {
	return fmt.Sprintf("%s exited unexpectedly (%v); the end of %s:\n%s",
		e.child.name, e.child.cmd.ProcessState, e.child.log, tail(e.child.log))
}

// start runs a program with its output in its own log file.
func start(name, log string, program string, args ...string) (*child, error) {
	output, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	c := &child{name: name, log: log, cmd: exec.Command(program, args...), done: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = output, output
	c.cmd.SysProcAttr = childAttributes()
	started := make(chan error)
	go c.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return c, nil
}

// run keeps its thread for the lifetime of the child: Linux sends the parent death signal when the thread that
// started the child exits.
func (c *child) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	started <- err
	if err == nil {
		c.err = c.cmd.Wait()
		close(c.done)
	}
}

// stop terminates the process, and kills it after grace.
func (c *child) stop(grace time.Duration) error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-c.done:
		return nil
	case <-time.After(grace):
		_ = c.cmd.Process.Kill()
		<-c.done
		return fmt.Errorf("%s did not exit within %s and was killed", c.name, grace)
	}
}

// command is a short-lived process that ends with ctx. Like every child, it has its own process group, so that
// Ctrl-C in a terminal reaches only this program, which then stops its children in order.
func command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = childAttributes()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// kubectl runs the control plane's kubectl with the kubeconfig of this run.
type kubectl struct{ program, kubeconfig string }

func (k kubectl) command(ctx context.Context, args ...string) *exec.Cmd {
	return command(ctx, k.program, append([]string{"--kubeconfig", k.kubeconfig}, args...)...)
}

// run returns the standard output; standard error becomes the error.
func (k kubectl) run(ctx context.Context, stdin string, args ...string) (string, error) {
	var stdout, stderr strings.Builder
	cmd := k.command(ctx, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// writeScript writes a kubectl executable with the kubeconfig set, for users, that also finds plugins in a
// directory. The environment names the kubeconfig, as kubectl accepts no flags before the name of a plugin.
func (k kubectl) writeScript(path, plugins string) error {
	script := fmt.Sprintf("#!/bin/sh\nKUBECONFIG=%s PATH=%s:\"$PATH\" exec %s \"$@\"\n", shellQuote(k.kubeconfig), shellQuote(plugins),
		shellQuote(k.program))
	return os.WriteFile(path, []byte(script), 0o755)
}

func shellQuote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// tail returns the last lines of a log, indented.
func tail(log string) string {
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
