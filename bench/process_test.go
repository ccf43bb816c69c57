package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestChild(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	c, err := start("sleeper", log, "sh", "-c", "echo started; exec sleep 600")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ended(); err != nil {
		t.Error(err)
	}
	if peak, err := peakMemory(c.pid()); err != nil || peak <= 0 || peak > 1<<10 {
		t.Errorf("peak memory %g MiB, %v", peak, err)
	}
	c.stop()
	if err := c.ended(); err == nil || !strings.Contains(err.Error(), "sleeper") {
		t.Errorf("ended: %v", err)
	}
	if _, err := start("nothing", log, filepath.Join(t.TempDir(), "nothing")); err == nil {
		t.Error("starting what is not there: no error")
	}
}

// TestCPUTime counts the time of a grandchild, like that of an nginx worker.
func TestCPUTime(t *testing.T) {
	c, err := start("worker", filepath.Join(t.TempDir(), "log"), "sh", "-c", "sh -c 'while :; do :; done' & wait")
	if err != nil {
		t.Fatal(err)
	}
	defer c.kill()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = every(ctx, 10*time.Millisecond, func() (bool, error) {
		used, err := cpuTime(c.pid())
		return used >= 30*time.Millisecond, err
	})
	if err != nil {
		t.Errorf("a child that works without pause is not seen to: %v", err)
	}
	if _, err := cpuTime(1 << 30); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of no process: %v", err)
	}
}

func TestCommandEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := command(ctx, "sleep", "600"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if _, err := command(t.Context(), "sh", "-c", "echo no such luck >&2; exit 3"); err == nil ||
		!strings.Contains(err.Error(), "no such luck") {
		t.Errorf("got %v", err)
	}
}

func TestFlags(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", t.TempDir())
	t.Chdir("..")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"help":        {[]string{"--help"}, "unpack-cold"},
		"argument":    {[]string{"x"}, "--help"},
		"runs":        {[]string{"--runs", "0"}, "--runs"},
		"regexp":      {[]string{"--only", "("}, "--only"},
		"no row":      {[]string{"--catalogd", program, "--plugin", program, "--only", "nosuch"}, "--only matches no row"},
		"no catalogd": {[]string{"--catalogd", "nothing"}, "make build"},
		"no plugin":   {[]string{"--catalogd", program, "--plugin", "nothing"}, "make plugin"},
		"no nginx":    {[]string{"--catalogd", program, "--plugin", program, "--nginx", "/nothing/nginx"}, "--nginx"},
		"no opm":      {[]string{"--catalogd", program, "--plugin", program, "--opm", "/nothing/opm"}, "--opm"},
		"no marks":    {[]string{"--catalogd", program, "--plugin", program, "--write", "README.md"}, "bench: begin"},
	} {
		var out strings.Builder
		_, err := parse(test.args, &out)
		if err == nil || !strings.Contains(out.String()+err.Error(), test.want) {
			t.Errorf("%s: %v, printed %q; want %q", name, err, out.String(), test.want)
		}
	}
	if o, err := parse([]string{"--catalogd", program, "--plugin", program, "--only", "^poll$"}, io.Discard); err != nil ||
		o.runs != 5 || !o.only.MatchString("poll") {
		t.Errorf("%+v, %v", o, err)
	}
	t.Setenv("KUBEBUILDER_ASSETS", "")
	if _, err := parse([]string{"--catalogd", program, "--plugin", program}, io.Discard); err == nil ||
		!strings.Contains(err.Error(), "hack/controlplane/build.sh") {
		t.Errorf("without a control plane: %v", err)
	}
}
