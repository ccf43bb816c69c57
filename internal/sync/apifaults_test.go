package sync

import (
	"fmt"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	stdsync "sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// faultPackages is the number of packages, large enough that a pass must stop early.
const faultPackages = 40

// faulty returns a world with a Ready catalog and a controller that reaches the API server through a proxy.
func faulty(t *testing.T) (*world, *apiProxy) {
	t.Helper()
	w, p := newWorld(t), newAPIProxy(t)
	w.newNamespace()
	w.runThrough(p)
	w.pushVersion("1.0.0")
	w.create(w.registry.host+"/catalog:latest", nil)
	w.eventually("the catalog is Ready", w.hasVersion("1.0.0"))
	return w, p
}

// pushVersion pushes an image with another version of all packages.
func (w *world) pushVersion(version string) {
	w.t.Helper()
	var packages []pkg
	for i := range faultPackages {
		packages = append(packages, pkg{name: fmt.Sprint("p", i), version: version})
	}
	w.registry.push("latest", catalogOf(packages...))
}

// hasVersion reports whether all packages have a version and the catalog is Ready.
func (w *world) hasVersion(version string) func() bool {
	return func() bool {
		c := w.source()
		if c.Status.ObservedGeneration != c.Generation || !meta.IsStatusConditionTrue(c.Status.Conditions, v1beta1.ReadyCondition) ||
			c.Status.Content.Packages != faultPackages {
			return false
		}
		list := &v1beta1.OperatorPackageList{}
		must.Succeed(w.t, w.api.List(w.t.Context(), list, client.MatchingFields{"spec.catalog": w.catalog}))
		n := 0
		for _, item := range list.Items {
			if item.Status.Summary.Version == version {
				n++
			}
		}
		return n == faultPackages && len(list.Items) == faultPackages
	}
}

// A failing API server is not overloaded: a catalog is requeued after 1, 2, 4, … 60 seconds, and a pass stops after 20
// failed packages. Nothing is lost, and everything is brought up to date after the recovery.
func TestAPIFaults(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("writes", func(t *testing.T) {
		for name, test := range map[string]struct {
			fault apiFault
			most  int // writes of one pass
			reads int // of the CatalogSource in one pass
		}{
			"conflict": {answers(http.StatusConflict, metav1.StatusReasonConflict, "", isWrite), 2 * (maxFailures + parallelWrites + 1), 2},
			"error": {
				answers(http.StatusInternalServerError, metav1.StatusReasonInternalError, "", isWrite), maxFailures + parallelWrites + 1, 1,
			},
			"refusal": {answers(http.StatusForbidden, metav1.StatusReasonForbidden, "", isWrite), maxFailures + parallelWrites + 1, 1},
			"cut":     {cuts(isWrite), maxFailures + parallelWrites + 1, 1},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				testWriteFault(t, test.fault, test.most, test.reads)
			})
		}
	})
	t.Run("others", func(t *testing.T) {
		t.Run("too many requests", func(t *testing.T) { t.Parallel(); testTooManyRequests(t) })
		t.Run("slow writes", func(t *testing.T) { t.Parallel(); testSlowWrites(t) })
		t.Run("watches break", func(t *testing.T) {
			t.Parallel()
			testWatchFault(t, cuts(isWatch))
		})
		t.Run("watches end", func(t *testing.T) {
			t.Parallel()
			testWatchFault(t, func(http.ResponseWriter, *http.Request) bool { return true })
		})
		t.Run("watches are too old", func(t *testing.T) {
			t.Parallel()
			testWatchFault(t, answers(http.StatusGone, metav1.StatusReasonExpired, "", isWatch))
		})
		t.Run("rights revoked", func(t *testing.T) { t.Parallel(); testRightsRevoked(t) })
	})
	w := &world{t: t}
	w.until("the goroutines of all that are gone", func() bool { return runtime.NumGoroutine() <= before+10 })
}

func testWriteFault(t *testing.T, fault apiFault, most, reads int) {
	w, p := faulty(t)
	uids := w.uids()
	w.pushVersion("2.0.0")
	p.misbehave(fault)
	w.requestPoll("now")
	read := "GET catalogsources/" + w.catalog
	w.eventually("two more attempts", func() bool { return len(p.seen(read)) > 2*reads })
	var passes []proxied
	for i, first := range p.seen(read) {
		if i%reads == 0 {
			passes = append(passes, first)
		}
	}
	for i, least := range []time.Duration{time.Second, 2 * time.Second} {
		if got := between(passes, i, i+1); got < least {
			t.Errorf("attempt %d came after %v, want %v", i+2, got, least)
		}
	}
	writes := 0
	for _, r := range p.seen("") {
		if r.failed && r.at.Before(passes[1].at) {
			writes++
		}
	}
	t.Logf("%d requests in %v, %d writes in the first pass", len(p.seen("")), between(passes, 0, 2), writes)
	if writes == 0 || writes > most {
		t.Errorf("the first pass made %d writes, want %d at most", writes, most)
	}
	wantEqual(t, "packages that are there", uids, w.uids())
	p.misbehave(nil)
	w.eventually("all is up to date", w.hasVersion("2.0.0"))
	wantEqual(t, "packages that are there in the end", uids, w.uids())
}

// The client repeats each request that the API server's priority and fairness rejects, after Retry-After.
func testTooManyRequests(t *testing.T) {
	w, p := faulty(t)
	uids := w.uids()
	w.pushVersion("2.0.0")
	p.misbehave(answers(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "1", isWrite))
	w.requestPoll("now")
	w.eventually("the writes are repeated", func() bool { return len(p.seen("PUT")) >= 3*parallelWrites })
	puts := p.seen("PUT")
	if got := between(puts, 0, 3*parallelWrites-1); got < 2*time.Second {
		t.Errorf("%d writes in %v, want %d in a second at most", 3*parallelWrites, got, parallelWrites)
	}
	p.misbehave(nil)
	w.eventually("all is up to date", w.hasVersion("2.0.0"))
	wantEqual(t, "packages", uids, w.uids())
}

// Slow writes, as behind webhooks, run concurrently up to the limit, and each is made once.
func testSlowWrites(t *testing.T) {
	w, p := faulty(t)
	w.pushVersion("2.0.0")
	var mu stdsync.Mutex
	waiting, full := 0, make(chan struct{})
	p.misbehave(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut {
			return false
		}
		mu.Lock()
		if waiting++; waiting == parallelWrites {
			close(full)
		}
		mu.Unlock()
		<-full // no write is done before so many are under way
		return false
	})
	w.requestPoll("now")
	w.eventually("all is up to date", w.hasVersion("2.0.0"))
	// A pass whose cache lags behind tries again what the previous one wrote. The API server refuses that.
	w.eventually("each package is written once", func() bool {
		return len(p.seen("PUT"))-int(p.conflicts.Load()) == faultPackages
	})
}

// Changes are noticed although watches keep failing.
func testWatchFault(t *testing.T, fault apiFault) {
	w, p := faulty(t)
	const breaks = 3 // of each watch
	var mu stdsync.Mutex
	broken := map[string]int{}
	p.misbehave(func(rw http.ResponseWriter, r *http.Request) bool {
		if !isWatch(r) {
			return false
		}
		mu.Lock()
		broken[r.URL.Path]++
		passes := broken[r.URL.Path] > breaks
		mu.Unlock()
		return !passes && fault(rw, r)
	})
	p.cutWatches()
	uids := w.uids()
	gone := w.getPackage("p0")
	must.Succeed(t, w.api.Delete(t.Context(), gone))
	w.change(func(c *v1beta1.CatalogSource) { c.Spec.Priority = 7 })
	w.eventually("the changes are seen", func() bool {
		list := &v1beta1.OperatorPackageList{}
		must.Succeed(t, w.api.List(t.Context(), list, client.MatchingFields{"spec.catalog": w.catalog}))
		for _, item := range list.Items {
			if item.Spec.Priority != 7 {
				return false
			}
		}
		return len(list.Items) == faultPackages && w.hasVersion("1.0.0")()
	})
	changed := 0
	for name, uid := range w.uids() {
		if uids[name] != uid {
			changed++
		}
	}
	if changed != 1 {
		t.Errorf("%d packages are others than before, want the one that was deleted", changed)
	}
	for _, kind := range []string{"catalogsources", "operatorpackages"} {
		w.eventually("there is a watch of "+kind+" again", func() bool { return len(p.seen("WATCH "+kind)) > breaks })
		watches, lists := p.seen("WATCH "+kind), p.seen("GET "+kind)
		t.Logf("%s: %d watches in %v", kind, len(watches), between(watches, 0, breaks))
		if got := between(watches, 0, breaks); got < time.Second/2 {
			t.Errorf("%d watches of %s in %v, and %d lists and reads", breaks+1, kind, got, len(lists))
		}
	}
}

// Without permissions catalogd keeps serving and keeps all objects. It continues when they are restored.
func testRightsRevoked(t *testing.T) {
	w, p := newWorld(t), newAPIProxy(t)
	w.newNamespace()
	p.config.Impersonate = rest.ImpersonationConfig{UserName: w.catalog}
	grant := w.rights()
	grant()
	w.runThrough(p)
	w.pushVersion("1.0.0")
	w.create(w.registry.host+"/catalog:latest", nil)
	w.eventually("the catalog is Ready", w.hasVersion("1.0.0"))
	uids, served := w.uids(), w.served()

	w.revoke()
	p.misbehave(nil)
	w.pushVersion("2.0.0")
	read := "GET catalogsources/" + w.catalog
	w.eventually("rights are gone", func() bool {
		w.requestPoll(time.Now().String())
		return len(p.seen(read)) > 0 && w.isForbidden(p.config)
	})
	p.misbehave(nil)
	w.eventually("two more attempts", func() bool { return len(p.seen(read)) >= 2 })
	if w.served() != served {
		t.Error("other content is served")
	}
	wantEqual(t, "packages that are there", uids, w.uids())
	grant()
	w.eventually("all is up to date", w.hasVersion("2.0.0"))
	wantEqual(t, "packages that are there in the end", uids, w.uids())
}

// Deleted CRDs delete their objects without a deadlock, and catalogd continues when they are recreated. Content is served
// as long as its CatalogSource exists.
func TestCRDsDeleted(t *testing.T) {
	w, _ := faulty(t)
	crds := filepath.Join("..", "..", "config", "crd")
	packages := filepath.Join(crds, "catalogd.operatorframework.io_operatorpackages.yaml")
	uninstall := func(path string) {
		must.Succeed(t, envtest.UninstallCRDs(apiServer, envtest.CRDInstallOptions{Paths: []string{path}}))
	}
	install := func() {
		_, err := envtest.InstallCRDs(apiServer, envtest.CRDInstallOptions{Paths: []string{crds}})
		must.Succeed(t, err)
	}
	t.Cleanup(install)

	uninstall(packages)
	w.until("the CRD is gone", func() bool { return w.isMissing("operatorpackages") })
	w.requestPoll("without CRD")
	w.eventually("it is told that packages cannot be written", func() bool {
		return strings.HasPrefix(conditions(w.source())["Ready"],
			"False SyncFailed: Writing OperatorPackage p0."+w.catalog+": the server could not find the requested resource")
	})
	if w.served() == "" {
		t.Error("nothing is served without the CRD of packages")
	}
	install()
	w.requestPoll("now") // it would come by itself within a minute
	w.eventually("the packages are back", w.hasVersion("1.0.0"))

	uninstall(packages)
	w.until("the CRD is gone again", func() bool { return w.isMissing("operatorpackages") })
	uninstall(crds) // the CatalogSource goes, though its packages cannot be asked for
	w.until("the CRDs are gone", func() bool { return w.isMissing("catalogsources") && w.isMissing("operatorpackages") })
	w.until("the content is gone", func() bool { return w.served() == "" })
	install()
	w.until("the catalog is taken again", func() bool {
		c := &v1beta1.CatalogSource{
			ObjectMeta: metav1.ObjectMeta{Name: w.catalog}, Spec: v1beta1.CatalogSourceSpec{Image: w.registry.host + "/catalog:latest"},
		}
		return w.api.Create(t.Context(), c) == nil
	})
	w.eventually("the catalog is Ready again", w.hasVersion("1.0.0"))
}

// isMissing reports whether the CRD of a resource was deleted.
func (w *world) isMissing(resource string) bool {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	err := w.api.Get(w.t.Context(), client.ObjectKey{Name: resource + "." + v1beta1.GroupVersion.Group}, crd)
	return err != nil && client.IgnoreNotFound(err) == nil
}

// The limits of package publish.
const (
	parallelWrites = 8
	maxFailures    = 20
)
