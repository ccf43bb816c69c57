package process

import (
	"context"
	"errors"
	"fmt"
	"os"
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
	err := Every(ctx, 5*time.Millisecond, func() (bool, error) {
		got, _ := os.ReadFile(file)
		return strings.Contains(string(got), text), nil
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
			c, err := Start("test", log, "/bin/sh", "-c", test.script)
			if err != nil {
				t.Fatal(err)
			}
			waitFor(t, log, "up")
			if err := c.Stop(test.grace); fmt.Sprint(err) != test.wantErr && (err != nil || test.wantErr != "") {
				t.Errorf("Stop() = %v, want %q", err, test.wantErr)
			}
			if err := c.Ended(); err == nil || !strings.Contains(err.Error(), "test exited unexpectedly") {
				t.Errorf("Ended() = %v, want it to name the process", err)
			}
		})
	}
}

func TestStartMissingProgram(t *testing.T) {
	dir := t.TempDir()
	if _, err := Start("etcd", filepath.Join(dir, "log"), filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Start() = %v, want os.ErrNotExist", err)
	}
}

func TestTail(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	if got := Tail(log); !strings.Contains(got, "no such file") {
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
		if got := Tail(log); got != test.want {
			t.Errorf("Tail() = %q, want %q", got, test.want)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Run(ctx, "sleep", "600"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if _, err := Run(t.Context(), "sh", "-c", "echo no such luck >&2; exit 3"); err == nil ||
		!strings.Contains(err.Error(), "no such luck") {
		t.Errorf("got %v", err)
	}
}
