package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// waitFor waits until a file contains text, which a child writes when it is ready.
func waitFor(t *testing.T, file, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := every(ctx, 5*time.Millisecond, func() bool {
		got, _ := os.ReadFile(file)
		return strings.Contains(string(got), text)
	})
	if err != nil {
		t.Fatalf("%s never held %q: %v", file, text, err)
	}
}

func TestStop(t *testing.T) {
	for _, test := range []struct {
		name, script, wantErr string
		grace                 time.Duration
	}{
		{name: "ends when asked", script: `trap "echo bye; exit 0" TERM; echo up; while :; do sleep 0.01; done`, grace: time.Minute},
		{name: "has ended", script: `echo up`, grace: time.Minute},
		{
			name: "does not listen", script: `trap "" TERM; echo up; while :; do sleep 0.01; done`, grace: time.Millisecond,
			wantErr: "test did not exit within 1ms and was killed",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "log")
			c, err := start("test", log, "/bin/sh", "-c", test.script)
			if err != nil {
				t.Fatal(err)
			}
			waitFor(t, log, "up")
			if err := c.stop(test.grace); fmt.Sprint(err) != test.wantErr && (err != nil || test.wantErr != "") {
				t.Errorf("stop() = %v, want %q", err, test.wantErr)
			}
			if c.cmd.ProcessState == nil {
				t.Error("the process has not ended")
			}
		})
	}
}

func TestChildDies(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	w := &world{config: config{dir: t.TempDir()}, out: t.Output(), childDied: cancel}
	if err := w.start("etcd", "/bin/sh", "-c", "echo no space left; exit 7"); err != nil {
		t.Fatal(err)
	}
	// A step in progress ends for the same reason.
	err := every(ctx, time.Hour, func() bool { return false })
	if want := "etcd exited unexpectedly (exit status 7)"; err == nil ||
		!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "  no space left") {
		t.Errorf("every() = %v, want it to hold %q and the end of the log", err, want)
	}
	w.down(err)
}

func TestStartMissingProgram(t *testing.T) {
	dir := t.TempDir()
	if _, err := start("etcd", filepath.Join(dir, "log"), filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("start() = %v, want os.ErrNotExist", err)
	}
}

func TestTail(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	if got := tail(log); !strings.Contains(got, "no such file") {
		t.Errorf("tail of a missing log = %q", got)
	}
	for _, test := range []struct{ content, want string }{
		{"", "  (it is empty)"},
		{"one\ntwo\n", "  one\n  two"},
		{strings.Repeat("early\n", 10_000) + strings.Repeat("late\n", 15), strings.TrimSuffix(strings.Repeat("  late\n", 15), "\n")},
	} {
		if err := os.WriteFile(log, []byte(test.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := tail(log); got != test.want {
			t.Errorf("tail() = %q, want %q", got, test.want)
		}
	}
}

func TestWriteScript(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's here")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	k := kubectl{program: filepath.Join(dir, "program"), kubeconfig: filepath.Join(dir, "kubeconfig")}
	if err := os.WriteFile(k.program, []byte("#!/bin/sh\nprintf '<%s>' \"$KUBECONFIG\" \"${PATH%%:*}\" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "kubectl")
	if err := k.writeScript(script, dir); err != nil {
		t.Fatal(err)
	}
	got, err := exec.Command(script, "get", "a b").Output()
	if want := "<" + k.kubeconfig + "><" + dir + "><get><a b>"; err != nil || string(got) != want {
		t.Errorf("the script ran %q, %v; want %q", got, err, want)
	}
}
