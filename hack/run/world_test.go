package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/operator-catalogs/catalogd/internal/testing/process"
)

func TestChildDies(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	w := &world{config: config{dir: t.TempDir()}, out: t.Output(), childDied: cancel}
	if err := w.start("etcd", "/bin/sh", "-c", "echo no space left; exit 7"); err != nil {
		t.Fatal(err)
	}
	// A step in progress ends for the same reason.
	err := process.Every(ctx, time.Hour, func() (bool, error) { return false, nil })
	if want := "etcd exited unexpectedly (exit status 7)"; err == nil ||
		!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "  no space left") {
		t.Errorf("Every() = %v, want it to hold %q and the end of the log", err, want)
	}
	w.down(err)
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
