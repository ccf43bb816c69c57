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

	"github.com/operator-catalogs/catalogd/internal/testing/process"
)

func TestChild(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	c, err := process.Start("sleeper", log, "sh", "-c", "echo started; exec sleep 600")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Ended(); err != nil {
		t.Error(err)
	}
	if peak, err := peakMemory(c.PID()); err != nil || peak <= 0 || peak > 1<<10 {
		t.Errorf("peak memory %g MiB, %v", peak, err)
	}
	if err := c.Stop(time.Minute); err != nil {
		t.Error(err)
	}
	if err := c.Ended(); err == nil || !strings.Contains(err.Error(), "sleeper") {
		t.Errorf("ended: %v", err)
	}
}

// TestCPUTime counts the time of a grandchild, like that of an nginx worker.
func TestCPUTime(t *testing.T) {
	c, err := process.Start("worker", filepath.Join(t.TempDir(), "log"), "sh", "-c", "sh -c 'while :; do :; done' & wait")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = process.Every(ctx, 10*time.Millisecond, func() (bool, error) {
		used, err := cpuTime(c.PID())
		return used >= 30*time.Millisecond, err
	})
	if err != nil {
		t.Errorf("a child that works without pause is not seen to: %v", err)
	}
	if _, err := cpuTime(1 << 30); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of no process: %v", err)
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
