package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain runs this binary as the parent of one child, if TestParentKilled requests that.
func TestMain(m *testing.M) {
	if dir := os.Getenv("PROCESS_TEST_PARENT"); dir != "" {
		if _, err := Start("child", filepath.Join(dir, "log"), "/bin/sh", "-c", "echo pid $$ is up; exec sleep 1000"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		select {}
	}
	os.Exit(m.Run())
}

func TestParentKilled(t *testing.T) {
	dir := t.TempDir()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), "PROCESS_TEST_PARENT="+dir)
	parent.Stderr = t.Output()
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "log")
	waitFor(t, log, "is up")
	said, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.Fields(string(said))[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := Every(ctx, 5*time.Millisecond, func() (bool, error) { return ended(child), nil }); err != nil {
		_ = syscall.Kill(child, syscall.SIGKILL)
		t.Errorf("the child outlived its killed parent: %v", err)
	}
}

// ended reports whether a process has exited, reaped or not.
func ended(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return strings.Contains(string(status), "State:\tZ")
}
