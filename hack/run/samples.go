package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/testing/process"
)

// patience is the time limit for a catalog to become Ready. A catalog of 150 MB takes seconds.
const patience = 5 * time.Minute

// explain lists the conditions of a CatalogSource, one per line.
func explain(conditions []metav1.Condition) string {
	if len(conditions) == 0 {
		return "  (no conditions: catalogd has not reconciled it)"
	}
	var lines []string
	for _, c := range conditions {
		lines = append(lines, fmt.Sprintf("  %s=%s (%s): %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(lines, "\n")
}

func (w *world) installConfig(ctx context.Context) error {
	for _, args := range [][]string{
		{"apply", "-k", "config/crd"},
		{"apply", "-k", "config/crd/olmv1"},
		{"wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"},
		{"apply", "-k", "config/rbac"},
		{"apply", "-k", "config/components/cluster-catalogs/rbac"},
		{"create", "namespace", "olm"},
		{"apply", "-k", "config/components/olm-v0/rbac"},
	} {
		if _, err := w.kubectl.run(ctx, "", args...); err != nil {
			return err
		}
	}
	return nil
}

// sample returns a manifest with the registry of this run.
func (w *world) sample(file string) (string, error) {
	manifest, err := os.ReadFile(file)
	return strings.ReplaceAll(string(manifest), sampleRegistry, w.ports.registry.address()), err
}

// applySamples applies config/samples with the registry of this run, and waits until each catalog is Ready.
func (w *world) applySamples(ctx context.Context) error {
	files, err := filepath.Glob("config/samples/*.yaml")
	if err != nil {
		return err
	}
	for _, file := range files {
		here, err := w.sample(file)
		if err != nil {
			return err
		}
		names, err := w.kubectl.run(ctx, here, "apply", "-f", "-", "-o", "name")
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for resource := range strings.Lines(names) {
			kind, name, _ := strings.Cut(strings.TrimSpace(resource), "/")
			if strings.HasPrefix(kind, "catalogsource.") {
				w.catalogs = append(w.catalogs, name)
			}
		}
	}
	if len(w.catalogs) == 0 {
		return errors.New("config/samples has no CatalogSource")
	}
	for _, name := range w.catalogs {
		if err := w.waitReady(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// waitReady watches a CatalogSource and prints its progress until it is Ready or has failed permanently.
func (w *world) waitReady(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not Ready for %s", patience))
	defer cancel()
	watch := w.kubectl.command(ctx, "get", "catalogsource", name, "--watch", "-o", "json")
	var complaint strings.Builder
	watch.Stderr = &complaint
	stream, err := watch.StdoutPipe()
	if err != nil {
		return err
	}
	if err := watch.Start(); err != nil {
		return err
	}
	last, err := w.follow(stream)
	ended := context.Cause(ctx) // before it is killed on purpose
	cancel()
	_ = watch.Wait() // it was killed, or the complaint has the reason
	if err == nil {
		return nil
	}
	if ended != nil {
		err = ended
	} else if errors.Is(err, io.EOF) {
		err = fmt.Errorf("kubectl stopped watching: %s", strings.TrimSpace(complaint.String()))
	}
	return fmt.Errorf("CatalogSource %s: %w\nIts conditions:\n%s\nThe end of %s:\n%s\n"+
		"Correct the reported errors (the catalog's directory is %s; make run CATALOG=DIR uses another one) and start again",
		name, err, explain(last), w.path("catalogd.log"), process.Tail(w.path("catalogd.log")), w.catalog)
}

// follow reads the states of a CatalogSource, as JSON documents, until it is Ready or has failed permanently. It
// returns the conditions of the last state.
func (w *world) follow(stream io.Reader) (last []metav1.Condition, err error) {
	reported := ""
	for decoder := json.NewDecoder(stream); ; {
		var next v1beta1.CatalogSource
		if err := decoder.Decode(&next); err != nil {
			return last, err
		}
		last = next.Status.Conditions
		if ready := meta.FindStatusCondition(last, v1beta1.ReadyCondition); ready != nil && ready.Message != reported {
			reported = ready.Message
			w.note("%s: %s", next.Name, reported)
		}
		if meta.IsStatusConditionTrue(last, v1beta1.ReadyCondition) {
			return last, nil
		}
		if progressing := meta.FindStatusCondition(last, v1beta1.ProgressingCondition); progressing != nil &&
			progressing.Reason == v1beta1.BlockedReason {
			return last, errors.New("failed permanently")
		}
	}
}
