package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/operator-catalogs/catalogd/internal/testing/bundles"
	"github.com/operator-catalogs/catalogd/internal/testing/process"
	"github.com/operator-catalogs/catalogd/internal/testing/registry"
)

const (
	renderedBundles = 100
	renderLatency   = 50 * time.Millisecond
)

// renderBundles compares render with that of opm, at a registry that answers late.
func renderBundles(ctx context.Context, e *env) (Row, error) {
	row := Row{
		What:      fmt.Sprintf("%d bundle images of a registry with a latency of %s", renderedBundles, renderLatency),
		Figure:    Series{What: "kubectl-catalog render --no-cache: process start -> end", Unit: "s"},
		Yardstick: Series{What: "opm render", Unit: "s"},
	}
	if e.opm == "" {
		return row, noOPM
	}
	row.atMost(.2)
	host, end, err := e.lateRegistry()
	if err != nil {
		return row, err
	}
	defer end()
	refs, err := pushBundles(ctx, host, renderedBundles)
	if err != nil {
		return row, err
	}
	home, err := e.opmHome()
	if err != nil {
		return row, err
	}
	render := func(args ...string) func(context.Context) (float64, error) {
		return func(ctx context.Context) (float64, error) {
			return timed(func() error {
				return e.runAuthoring(ctx, home, e.plugin, append(append([]string{"render"}, args...), refs...)...)
			})
		}
	}
	opm := func(ctx context.Context) (float64, error) {
		return timed(func() error {
			return e.runAuthoring(ctx, home, e.opm, append([]string{"render", "--use-http"}, refs...)...)
		})
	}
	if err := e.alternate(ctx, &row, e.runs, render("--no-cache"), opm); err != nil {
		return row, err
	}
	var warm []float64
	for range e.runs + 1 {
		seconds, err := render()(ctx)
		if err != nil {
			return row, err
		}
		warm = append(warm, seconds)
	}
	row.note("with all bundles in the cache, by tag: %s", newSeries("", "s", warm[1:]...))
	return row, nil
}

// addToCatalog compares bundle add to the catalog of the benchmark with opm validate of it, which reads it once.
func addToCatalog(ctx context.Context, e *env) (Row, error) {
	row := Row{
		What:      "a bundle added to the catalog, which is read, changed, linted and written",
		Figure:    Series{What: "kubectl-catalog bundle add: process start -> end", Unit: "s"},
		Yardstick: Series{What: "opm validate of the catalog", Unit: "s"},
	}
	if e.opm == "" {
		return row, noOPM
	}
	row.atMost(1)
	host, end, err := e.lateRegistry()
	if err != nil {
		return row, err
	}
	defer end()
	refs, err := pushBundles(ctx, host, 1)
	if err != nil {
		return row, err
	}
	home, err := e.opmHome()
	if err != nil {
		return row, err
	}
	dir := filepath.Join(e.dir, "authoring")
	add := func(ctx context.Context) (float64, error) {
		if err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(e.base.dir)), flush(ctx)); err != nil {
			return 0, err
		}
		return timed(func() error { return e.runAuthoring(ctx, home, e.plugin, "bundle", "add", dir, refs[0]) })
	}
	validate := func(ctx context.Context) (float64, error) {
		return timed(func() error { return e.runAuthoring(ctx, home, e.opm, "validate", e.base.dir) })
	}
	defer os.RemoveAll(dir)
	return row, e.alternate(ctx, &row, e.runs, add, validate)
}

func timed(run func() error) (seconds float64, err error) {
	began := time.Now()
	err = run()
	return time.Since(began).Seconds(), err
}

// runAuthoring runs a program with its caches in a directory.
func (e *env) runAuthoring(ctx context.Context, home, program string, args ...string) error {
	cmd := process.Command(ctx, program, args...)
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CACHE_HOME="+home, "XDG_CONFIG_HOME="+home)
	_, err := process.Output(cmd)
	return err
}

// opmHome returns a directory with the policy without which opm pulls no image.
func (e *env) opmHome() (string, error) {
	home := filepath.Join(e.dir, "home")
	file := filepath.Join(home, "containers", "policy.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return "", err
	}
	return home, os.WriteFile(file, []byte(`{"default": [{"type": "insecureAcceptAnything"}]}`), 0o600)
}

// lateRegistry starts a registry that answers each request after renderLatency.
func (e *env) lateRegistry() (host string, end func(), err error) {
	dir := filepath.Join(e.dir, "late")
	server, err := registry.Listen("127.0.0.1:0", dir, io.Discard, func(*http.Request) { time.Sleep(renderLatency) })
	if err != nil {
		return "", nil, err
	}
	return server.Addr, func() {
		_ = server.Close()
		_ = os.RemoveAll(dir)
	}, nil
}

// pushBundles pushes bundles of a generated operator.
func pushBundles(ctx context.Context, host string, count int) (refs []string, err error) {
	for i := range count {
		spec := bundles.Spec{Package: "bench-operator", Version: fmt.Sprintf("1.%d.0", i)}
		image, err := spec.Build()
		if err != nil {
			return nil, err
		}
		tag, err := name.NewTag(fmt.Sprintf("%s/bench-operator:v%s", host, spec.Version))
		if err != nil {
			return nil, err
		}
		if err := remote.Write(tag, image, remote.WithContext(ctx)); err != nil {
			return nil, err
		}
		refs = append(refs, tag.String())
	}
	return refs, nil
}
