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
)

// patience is the time limit for a catalog to become Ready. A catalog of 150 MB takes seconds.
const patience = 5 * time.Minute

// catalogSource has the fields of a CatalogSource that this program reads.
type catalogSource struct {
	Metadata struct{ Name string }
	Status   struct{ Conditions []condition }
}

type condition struct{ Type, Status, Reason, Message string }

func (s catalogSource) condition(kind string) condition {
	for _, c := range s.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return condition{Type: kind, Status: "Unknown"}
}

// explain lists the conditions, one per line.
func (s catalogSource) explain() string {
	if len(s.Status.Conditions) == 0 {
		return "  (no conditions: catalogd has not reconciled it)"
	}
	var lines []string
	for _, c := range s.Status.Conditions {
		lines = append(lines, fmt.Sprintf("  %s=%s (%s): %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(lines, "\n")
}

func (w *world) installConfig(ctx context.Context) error {
	for _, args := range [][]string{
		{"apply", "-k", "config/crd"},
		{"wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"},
		{"apply", "-k", "config/rbac"},
	} {
		if _, err := w.kubectl.run(ctx, "", args...); err != nil {
			return err
		}
	}
	return nil
}

// applySamples applies config/samples with the registry of this run, and waits until each catalog is Ready.
func (w *world) applySamples(ctx context.Context) error {
	files, err := filepath.Glob("config/samples/*.yaml")
	if err != nil {
		return err
	}
	for _, file := range files {
		manifest, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		here := strings.ReplaceAll(string(manifest), sampleRegistry, w.ports.registry.address())
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
		name, err, last.explain(), w.path("catalogd.log"), tail(w.path("catalogd.log")), w.catalog)
}

// follow reads the states of a CatalogSource, as JSON documents, until it is Ready or has failed permanently. It
// returns the last state.
func (w *world) follow(stream io.Reader) (last catalogSource, err error) {
	said := ""
	for decoder := json.NewDecoder(stream); ; {
		var next catalogSource
		if err := decoder.Decode(&next); err != nil {
			return last, err
		}
		last = next
		ready, progressing := last.condition("Ready"), last.condition("Progressing")
		if ready.Message != "" && ready.Message != said {
			said = ready.Message
			w.note("%s: %s", last.Metadata.Name, said)
		}
		switch {
		case ready.Status == "True":
			return last, nil
		case progressing.Reason == "Blocked":
			return last, errors.New("failed permanently")
		}
	}
}
