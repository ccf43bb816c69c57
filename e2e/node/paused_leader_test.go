package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/internal/testing/catalogs"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

const moving = "moving" // a catalog that changes

// TestLeaderPaused pauses a leader while it writes packages, and resumes it after another one has led for a while:
// it changes nothing.
func TestLeaderPaused(t *testing.T) {
	publish(t, 1)
	source := catalogSource(moving)
	must.Succeed(t, installed.Create(t.Context(), source))
	t.Cleanup(func() {
		if err := installed.Delete(context.Background(), source); err != nil {
			t.Error(err)
		}
	})
	waitUntil(t, "the first version is published", installed.allReady)
	before := packagesOf(t, moving)

	former, err := installed.leader(t.Context())
	must.Succeed(t, err)
	process, err := processOf(former)
	must.Succeed(t, err)
	changes, err := installed.Watch(t.Context(), list("OperatorPackage"))
	must.Succeed(t, err)
	defer changes.Stop()
	publish(t, 2)
	awaitChange(t, changes.ResultChan(), before)
	must.Succeed(t, syscall.Kill(process, syscall.SIGSTOP))
	defer func() { _ = syscall.Kill(process, syscall.SIGCONT) }() // even if the test fails; no effect on a running process
	if n := unchanged(before, packagesOf(t, moving)); n == 0 {
		t.Errorf("%s was done with all %d packages before it was stopped", former.Name, len(before))
	}
	third := publish(t, 3)
	waitUntil(t, "another leader publishes the third version", func(ctx context.Context) error { return serves(ctx, moving, third) })
	now, err := installed.leader(t.Context())
	must.Succeed(t, err)
	if now.UID == former.UID {
		t.Fatalf("%s leads while it is stopped", former.Name)
	}
	want := packagesOf(t, moving)

	must.Succeed(t, syscall.Kill(process, syscall.SIGCONT))
	waitUntil(t, "all replicas are ready", installed.allReady)
	pause(t.Context(), 5*time.Second) // for the pending writes of the former leader
	if diff := cmp.Diff(want, packagesOf(t, moving)); diff != "" {
		t.Errorf("the packages changed when the former leader went on (-third version, +now):\n%s", diff)
	}
	must.Succeed(t, serves(t.Context(), moving, third))
}

// awaitChange returns when a package of the catalog is added, changed or deleted. A watch begins with the existing
// ones.
func awaitChange(t *testing.T, changes <-chan watch.Event, before map[string]string) {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case change, open := <-changes:
			if !open {
				t.Fatal("the watch has ended")
			}
			p, ok := change.Object.(client.Object)
			if !ok || !strings.HasSuffix(p.GetName(), "."+moving) {
				continue
			}
			if _, known := before[p.GetName()]; !known || change.Type != watch.Added {
				return
			}
		case <-late:
			t.Fatalf("no package of %s has changed for %s", moving, patience)
		}
	}
}

// publish pushes a version of the changing catalog, requests a poll if there is a CatalogSource, and returns the
// digest.
func publish(t *testing.T, seed uint64) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), moving)
	shape := catalogs.Shape{Packages: 500, Channels: 800, Bundles: 800, Bytes: 4_000_000, Seed: seed} // quick to unpack, slow to publish
	must.Succeed(t, writeCatalog(t.Context(), shape, dir))
	digest, err := installed.pushCatalog(t.Context(), moving, dir)
	must.Succeed(t, err)
	must.Succeed(t, client.IgnoreNotFound(requestPoll(t.Context(), moving)))
	return digest
}

func requestPoll(ctx context.Context, name string) error {
	patch := fmt.Appendf(nil, `{"metadata": {"annotations": {"%s/poll-requested": %q}}}`, apiGroup, time.Now().Format(time.RFC3339Nano))
	return installed.Patch(ctx, catalogSource(name), client.RawPatch(types.MergePatchType, patch))
}

// serves returns an error unless the catalog is Ready at this digest.
func serves(ctx context.Context, name, digest string) error {
	source := catalogSource(name)
	if err := installed.Get(ctx, client.ObjectKeyFromObject(source), source); err != nil {
		return err
	}
	conditions, _, err := unstructured.NestedSlice(source.Object, "status", "conditions")
	if err != nil {
		return err
	}
	got, _, err := unstructured.NestedString(source.Object, "status", "digest")
	if err != nil || got != digest || !holds(conditions, "Ready") {
		return fmt.Errorf("%s is at %s, want %s: %v %w", name, got, digest, conditions, err)
	}
	return nil
}

// packagesOf returns the content of the OperatorPackages of a catalog, by name.
func packagesOf(t *testing.T, name string) map[string]string {
	t.Helper()
	packages := list("OperatorPackage")
	must.Succeed(t, installed.List(t.Context(), packages))
	said := map[string]string{}
	for _, p := range packages.Items {
		if !strings.HasSuffix(p.GetName(), "."+name) {
			continue
		}
		text, err := json.Marshal([]any{p.GetLabels(), p.GetAnnotations(), p.Object["spec"], p.Object["summary"], p.Object["status"]})
		must.Succeed(t, err)
		said[p.GetName()] = string(text)
	}
	return said
}

func unchanged(before, now map[string]string) (n int) {
	for name := range before {
		if now[name] == before[name] {
			n++
		}
	}
	return n
}

// processOf finds catalogd's process in a Pod. Outside of the nodes' PID namespaces, each of their processes has
// another number, and a cgroup that is named after its Pod.
func processOf(pod *corev1.Pod) (int, error) {
	all, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return 0, err
	}
	for _, file := range all {
		cgroups, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has exited
		}
		if err != nil {
			return 0, err
		}
		name, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "comm"))
		if strings.Contains(string(cgroups), "pod"+string(pod.UID)) && strings.TrimSpace(string(name)) == "catalogd" {
			return strconv.Atoi(filepath.Base(filepath.Dir(file)))
		}
	}
	return 0, fmt.Errorf("no process of Pod %s is found", pod.Name)
}
