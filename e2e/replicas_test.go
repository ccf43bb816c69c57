package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// TestReplicas serves a catalog with three replicas, and removes the leader and followers one after the other:
// killed, stopped gracefully, and with a lost volume.
func TestReplicas(t *testing.T) {
	f := newFleet(t, 3)
	f.begin(t, "sample", sampleCatalog)
	reader := f.hop("sample")

	leader, others := f.leader(t)
	leader.leave(t, leader.kill)
	next, _ := f.leader(t)
	second := f.update(t, "sample", catalogImage(t, soundDir), "after a kill")
	for _, r := range others {
		eventually.Succeeds(t, "the others follow", func() error { return r.serves("sample", second, nil) })
	}
	leader.rejoin(t)
	must.Succeed(t, leader.serves("sample", second, nil)) // it catches up first

	next.leave(t, next.endInPeace)
	if _, err := f.leaseHolder(t); err != nil {
		t.Error(err)
	}
	f.leader(t)
	third := f.update(t, "sample", catalogImage(t, sampleCatalog), "after an end")
	must.Succeed(t, os.RemoveAll(next.dataDir))
	next.rejoin(t)
	must.Succeed(t, next.serves("sample", third, nil))
	f.allServe(t, "sample", third)
	reader.end(t)
}

// leaseHolder returns the holder of the lease, or an error while the former leader, named in the log, still holds
// it.
func (f *fleet) leaseHolder(t *testing.T) (string, error) {
	t.Helper()
	out, err := f.Kubectl(t.Context(), "-n", namespace, "get", "lease", "catalogd", "-o", "jsonpath={.spec.holderIdentity}")
	must.Succeed(t, err)
	for _, r := range f.replicas {
		if !r.alive() && out != "" && strings.Contains(r.log.String(), out) {
			return out, fmt.Errorf("the lease is held by %s, which has ended", out)
		}
	}
	return out, nil
}

// begin creates a catalog of a directory and waits until every replica serves it.
func (f *fleet) begin(t *testing.T, catalog, dir string) (digest string) {
	t.Helper()
	ref, digest := f.registry.push(t, catalog, catalogImage(t, dir))
	f.createCatalog(t, catalog, ref, nil)
	f.waitReady(t, catalog, digest)
	f.allServe(t, catalog, digest)
	return digest
}

// allServe waits until every replica serves a version.
func (f *fleet) allServe(t *testing.T, catalog, digest string) {
	t.Helper()
	for i, r := range f.replicas {
		eventually.Succeeds(t, fmt.Sprintf("replica %d serves %s", i, digest), func() error { return r.serves(catalog, digest, nil) })
	}
}

// update pushes another image of a catalog and waits until the leader serves it.
func (f *fleet) update(t *testing.T, catalog string, image v1.Image, why string) (digest string) {
	t.Helper()
	_, digest = f.registry.push(t, catalog, image)
	f.requestPoll(t, catalog, why)
	f.waitReady(t, catalog, digest)
	return digest
}

// TestUpgrade replaces the replicas one by one by a release with another volume layout, and then by the former
// release. A client reads all the time.
func TestUpgrade(t *testing.T) {
	f := newFleet(t, 3)
	digest := f.begin(t, "sample", sampleCatalog)
	packages := f.packages(t, "sample")
	reader := f.hop("sample")
	for _, program := range []string{os.Getenv("CATALOGD_NEXT"), os.Getenv("CATALOGD_BIN")} {
		for _, r := range f.replicas {
			r.leave(t, r.endInPeace)
			r.program = program
			r.rejoin(t)
			must.Succeed(t, r.serves("sample", digest, nil))
		}
		f.leader(t)
		for _, dir := range []string{soundDir, sampleCatalog} {
			digest = f.update(t, "sample", catalogImage(t, dir), program+" "+dir)
			f.allServe(t, "sample", digest)
		}
	}
	if now := f.packages(t, "sample"); len(now) != len(packages) {
		t.Errorf("there are %d packages, were %d", len(now), len(packages))
	}
	for _, r := range f.replicas {
		if _, err := os.Stat(filepath.Join(r.dataDir, "layout-2", "catalogs", "sample")); err != nil {
			t.Errorf("what the newer release stored was not left alone: %v", err)
		}
	}
	reader.end(t)
}

// TestLeaderWithoutAPIServer cuts the leader off from the API server: another replica leads, and the former leader keeps
// serving and catches up once it can.
func TestLeaderWithoutAPIServer(t *testing.T) {
	f := newFleet(t, 2)
	first := f.begin(t, "sample", sampleCatalog)
	reader := f.hop("sample")

	former, _ := f.leader(t)
	former.api.set(func(*http.Request) gateVerdict { return gateVerdict{breaks: true} })
	f.leader(t, former)
	second := f.update(t, "sample", catalogImage(t, soundDir), "cut off")
	must.Succeed(t, former.serves("sample", first, nil))
	must.Succeed(t, former.ready())
	former.api.set(nil)
	f.allServe(t, "sample", second)
	reader.end(t)
}

// TestReplicaThatCannotListDoesNotLead starts with a replica that cannot list Secrets: it serves, and its controller waits. It
// must not take the lease from a working replica.
func TestReplicaThatCannotListDoesNotLead(t *testing.T) {
	f := newFleet(t, 2)
	first := f.begin(t, "sample", sampleCatalog)
	idle, able := f.replicas[0], f.replicas[1]
	for _, r := range f.replicas {
		r.endInPeace(t)
	}
	idle.api.set(func(r *http.Request) gateVerdict {
		return gateVerdict{breaks: strings.HasSuffix(r.URL.Path, "/secrets")}
	})
	idle.rejoin(t)
	must.Succeed(t, idle.serves("sample", first, nil))
	able.rejoin(t)
	f.leader(t, idle)
	second := f.update(t, "sample", catalogImage(t, soundDir), "with one that cannot lead")
	idle.api.set(nil)
	f.allServe(t, "sample", second)
}

// TestPausedLeaderUndoesNothing pauses the leader in the middle of publishing, with writes in flight. When it continues,
// another leader has published newer content, and none of it is undone.
func TestPausedLeaderUndoesNothing(t *testing.T) {
	names := make([]string, 40)
	for i := range names {
		names[i] = fmt.Sprintf("operator-%02d", i)
	}
	f := newFleet(t, 2)
	f.begin(t, "many", packagesAt(t, "1.0.0", names...))
	history := f.watchPackages(t)

	former, _ := f.leader(t)
	release, held := make(chan struct{}), make(chan struct{}, 100)
	var mu sync.Mutex
	writes := 0
	former.api.set(func(r *http.Request) gateVerdict {
		if r.Method == http.MethodGet || !strings.Contains(r.URL.Path, "/operatorpackages") {
			return gateVerdict{}
		}
		mu.Lock()
		defer mu.Unlock()
		if writes++; writes <= 10 {
			return gateVerdict{}
		}
		held <- struct{}{}
		return gateVerdict{wait: release}
	})
	// The second version has an additional package, so that one of the writes in flight is a create.
	f.registry.push(t, "many", catalogImage(t, packagesAt(t, "2.0.0", append(slices.Clone(names), "operator-0a")...)))
	f.askForPoll(t, "many", "second")
	<-held
	former.signal(t, syscall.SIGSTOP)

	f.leader(t, former)
	_, third := f.registry.push(t, "many", catalogImage(t, packagesAt(t, "3.0.0", names...)))
	f.askForPoll(t, "many", "third")
	f.waitReady(t, "many", third)
	close(release)
	former.signal(t, syscall.SIGCONT)
	eventually.Succeeds(t, "the former leader follows", func() error { return former.serves("many", third, nil) })
	eventually.Succeeds(t, "the packages are those of the third version", func() error { return f.packagesAre(t, "many", "3.0.0", names) })
	history.check(t, "2.0.0", "3.0.0")
}

// packagesAre requires exactly these packages, at a version.
func (f *fleet) packagesAre(t *testing.T, catalog, version string, names []string) error {
	t.Helper()
	have := f.packages(t, catalog)
	if len(have) != len(names) {
		return fmt.Errorf("there are %d packages, want %d: %v", len(have), len(names), slices.Sorted(maps.Keys(have)))
	}
	for name, object := range have {
		if got := versionOf(&object); got != version {
			return fmt.Errorf("%s is of version %s, want %s", name, got, version)
		}
	}
	return nil
}

// versionOf returns the version of the head of a package's only channel.
func versionOf(object *unstructured.Unstructured) string {
	channels, _, _ := unstructured.NestedSlice(object.Object, "status", "channels")
	if len(channels) != 1 {
		return ""
	}
	version, _, _ := unstructured.NestedString(channels[0].(map[string]any), "currentCSVDesc", "version")
	return version
}

// packageHistory records the changes of each OperatorPackage, in the order of the API server.
type packageHistory struct {
	mu       sync.Mutex
	versions map[string][]string
}

func (f *fleet) watchPackages(t *testing.T) *packageHistory {
	t.Helper()
	watcher, err := client.NewWithWatch(f.Env.Config, client.Options{})
	must.Succeed(t, err)
	events, err := watcher.Watch(t.Context(), system.NewList(system.PackageKind))
	must.Succeed(t, err)
	t.Cleanup(events.Stop)
	h := &packageHistory{versions: map[string][]string{}}
	go func() {
		for event := range events.ResultChan() {
			object, ok := event.Object.(*unstructured.Unstructured)
			if !ok || event.Type == watch.Bookmark {
				continue
			}
			version := versionOf(object)
			if event.Type == watch.Deleted {
				version = "deleted"
			}
			h.mu.Lock()
			h.versions[object.GetName()] = append(h.versions[object.GetName()], version)
			h.mu.Unlock()
		}
	}()
	return h
}

// check requires that some packages had the older version, and that none returned to it from the newer one.
func (h *packageHistory) check(t *testing.T, older, newer string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	had := 0
	for name, versions := range h.versions {
		if slices.Contains(versions, older) {
			had++
		}
		if at := slices.Index(versions, newer); at >= 0 && slices.Contains(versions[at:], older) {
			t.Errorf("%s went back from %s to %s: %v", name, newer, older, versions)
		}
	}
	if had == 0 {
		t.Errorf("no package ever was at %s", older)
	}
}

// TestSelectors runs two installations that share the catalogs of a cluster by label.
func TestSelectors(t *testing.T) {
	red := newDaemon(t, shared.DaemonKubeconfig)
	red.args = append(red.args, "--catalog-selector=team in (red)")
	red.start(t)
	t.Cleanup(func() { red.signal(t, syscall.SIGTERM); red.wait(t, patience) })
	blue := newWorld(t, shared, "--catalog-selector=team=blue")
	serving := func(d *daemon, catalog string, status int) func() error {
		return func() error { return blue.answers("http://"+d.content+"/catalogs/"+catalog+"/api/v1/all", status) }
	}
	ref, digest := blue.registry.push(t, "sound", catalogImage(t, soundDir))
	label := func(team string) func(*unstructured.Unstructured) {
		return func(c *unstructured.Unstructured) { c.SetLabels(map[string]string{"team": team}) }
	}
	blue.createCatalog(t, "ours", ref, label("blue"))
	blue.createCatalog(t, "theirs", ref, label("red"))
	blue.waitReady(t, "ours", digest)
	blue.waitReady(t, "theirs", digest)
	must.Succeed(t, serving(blue.daemon, "ours", http.StatusOK)())
	must.Succeed(t, serving(blue.daemon, "theirs", http.StatusNotFound)())
	must.Succeed(t, serving(red, "theirs", http.StatusOK)())
	must.Succeed(t, serving(red, "ours", http.StatusNotFound)())

	packages := blue.packages(t, "ours")
	blue.patchCatalog(t, "ours", `{"metadata":{"labels":{"team":"red"}}}`)
	eventually.Succeeds(t, "the new owner serves it", serving(red, "ours", http.StatusOK))
	eventually.Succeeds(t, "the former owner does not", serving(blue.daemon, "ours", http.StatusNotFound))
	if len(packages) == 0 || len(blue.packages(t, "ours")) != len(packages) {
		t.Errorf("there are %d packages, were %d", len(blue.packages(t, "ours")), len(packages))
	}
}
