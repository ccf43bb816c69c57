package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/operator-catalogs/catalogd/internal/catalogimage"
	"github.com/operator-catalogs/catalogd/internal/testing/process"
	"github.com/operator-catalogs/catalogd/internal/testing/registry"
)

// world holds everything that a run starts.
type world struct {
	config
	out       io.Writer
	childDied context.CancelCauseFunc

	assets   string // the directory of etcd, kube-apiserver and kubectl
	api      apiServer
	kubectl  kubectl
	registry *http.Server
	children []*process.Child // in the order of their start
	catalogs []string         // the CatalogSources of config/samples
}

// up starts everything, step by step. After an error, down stops what it started.
func (w *world) up(ctx context.Context) error {
	steps := []struct {
		what string
		do   func(context.Context) error
	}{
		{"Kubernetes components", w.buildControlPlane},
		{"control plane: etcd and kube-apiserver", w.startControlPlane},
		{"custom resources and RBAC: config/crd, config/rbac", w.installConfig},
		{"registry at " + w.ports.registry.address(), w.startRegistry},
		{"catalog image from " + w.catalog, w.pushCatalog},
		{"catalogd: bin/catalogd", w.startCatalogd},
		{"catalog sources: config/samples", w.applySamples},
	}
	fmt.Fprintf(w.out, "Running catalogd locally. State: %s (emptied at each start)\n\n", w.dir)
	for i, step := range steps {
		fmt.Fprintf(w.out, "[%d/%d] %s\n", i+1, len(steps), step.what)
		began := time.Now()
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		w.note("%.1f s", time.Since(began).Seconds())
	}
	return w.report(ctx)
}

// down stops everything, in the reverse order of its start.
func (w *world) down(reason error) {
	if errors.Is(reason, errInterrupted) {
		fmt.Fprintln(w.out, "\nStopping; press Ctrl-C again to stop immediately.")
	}
	for len(w.children) > 0 {
		last := w.children[len(w.children)-1]
		w.children = w.children[:len(w.children)-1]
		if err := last.Stop(20 * time.Second); err != nil {
			w.note("%v", err)
		}
		if last.Name == "catalogd" && w.registry != nil {
			_ = w.registry.Close()
		}
	}
	if errors.Is(reason, errInterrupted) {
		fmt.Fprintf(w.out, "Everything has stopped. The logs are in %s until the next start.\n", w.dir)
	}
}

// note prints a line of progress below its step.
func (w *world) note(format string, args ...any) {
	fmt.Fprintf(w.out, "      "+format+"\n", args...)
}

// start starts a child whose unexpected exit ends the run.
func (w *world) start(name string, program string, args ...string) error {
	c, err := process.Start(name, w.path(name+".log"), program, args...)
	if err != nil {
		return err
	}
	w.children = append(w.children, c)
	go func() {
		<-c.Done
		w.childDied(c.Ended())
	}()
	return nil
}

func (w *world) buildControlPlane(ctx context.Context) error {
	var directory strings.Builder
	build := process.Command(ctx, filepath.Join(w.root, "hack", "controlplane", "build.sh"))
	build.Stdout, build.Stderr = &directory, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("hack/controlplane/build.sh: %w", err)
	}
	w.assets = strings.TrimSpace(directory.String())
	w.note("in %s", w.assets)
	return nil
}

func (w *world) startRegistry(context.Context) (err error) {
	log, err := os.Create(w.path("registry.log")) // stays open until the end
	if err != nil {
		return err
	}
	w.registry, err = registry.Listen(w.ports.registry.address(), w.path("registry"), log, func(*http.Request) {})
	return err
}

func (w *world) pushCatalog(ctx context.Context) error {
	index, err := catalogimage.Build(w.catalog)
	if err != nil {
		return err
	}
	digest, err := registry.Push(ctx, w.image(), index)
	if err != nil {
		return err
	}
	w.note("%s@%s", w.image(), digest)
	return nil
}

func (w *world) startCatalogd(ctx context.Context) error {
	content, _ := w.content()
	args := append([]string{
		"--kubeconfig", w.path("catalogd.kubeconfig"),
		"--namespace", namespace,
		"--data-dir", w.path("data"),
		"--content-bind-address", w.ports.content.address(),
		"--external-url", content,
		"--grpc-bind-address", w.ports.grpc.address(),
		"--olm-v0",
		"--health-bind-address", w.ports.health.address(),
		"--metrics-bind-address", w.ports.metrics.address(),
		"--cluster-catalogs",
		"--bundle-content",
		"--page",
		"--log-format", "text",
	}, w.args...)
	if err := w.start("catalogd", filepath.Join(w.root, "bin", "catalogd"), args...); err != nil {
		return err
	}
	return waitOK(ctx, w.ports.health.url()+"/readyz")
}
