package sync

import (
	"context"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

func TestFinalizeAddsFinalizer(t *testing.T) {
	w := newWorld(t)
	w.create("registry.example/catalog", nil)
	for _, want := range [][]string{{"PATCH catalogsources/" + w.catalog}, nil} {
		must.Succeed(t, w.claim(t.Context(), w.begin().object, false))
		wantEqual(t, "writes", want, w.requests.take())
		if !controllerutil.ContainsFinalizer(w.source(), v1beta1.CleanupFinalizer) {
			t.Error("there is no finalizer")
		}
	}
}

// A finalizer that another controller adds concurrently is kept.
func TestFinalizeKeepsOtherFinalizers(t *testing.T) {
	w := newWorld(t)
	w.create("registry.example/catalog", nil)
	rec := w.begin()
	w.change(func(c *v1beta1.CatalogSource) { c.Finalizers = []string{"example.com/backup"} })
	if err := w.claim(t.Context(), rec.object, false); !apierrors.IsConflict(err) {
		t.Errorf("got %v, want a conflict", err)
	}
	must.Succeed(t, w.claim(t.Context(), w.begin().object, false))
	wantEqual(t, "finalizers", []string{"example.com/backup", v1beta1.CleanupFinalizer}, w.source().Finalizers)
}

func TestFinalizeDeleted(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "bar"}, pkg{name: "foo"}))
	w.create(ref, nil)
	c := w.settle()
	other := w.another()
	otherRef, _ := other.registry.push("other", catalogOf(pkg{name: "other"}))
	other.create(otherRef, nil)
	other.settle()
	must.Succeed(t, w.api.Delete(t.Context(), c))

	rec := w.begin()
	_, err := w.finalize(t.Context(), rec.src, rec.object)
	must.Succeed(t, err)
	if err := w.api.Get(t.Context(), types.NamespacedName{Name: w.catalog}, c); !apierrors.IsNotFound(err) {
		t.Errorf("the object is still there: %v", err)
	}
	if len(w.packages()) != 0 || w.served() != "" {
		t.Errorf("still there: packages %v, content %q", w.packages(), w.served())
	}
	if len(other.packages()) != 1 || other.servedDigest() == "" {
		t.Errorf("another catalog lost something: packages %v, digest %q", other.packages(), other.servedDigest())
	}
	for file := range fileTimes(t, w.dir) {
		if strings.Contains(file, strings.TrimPrefix(c.Status.Digest, "sha256:")) || strings.HasSuffix(file, "/"+w.catalog) {
			t.Errorf("file %s is still there", file)
		}
	}
	if !w.Polls.Get(w.catalog).Last.IsZero() {
		t.Error("the poll log still knows the catalog")
	}
	w.reconcile() // the event of the deletion
	wantEqual(t, "metrics that name the catalog", nil, seriesOf(t, w.metrics, w.catalog))
}

// Each request of a deletion may fail; the next pass completes it.
func TestFinalizeInterrupted(t *testing.T) {
	for name, fails := range map[string]func(*http.Request) bool{
		"deleting the packages": func(r *http.Request) bool { return r.Method == http.MethodDelete },
		"removing the finalizer": func(r *http.Request) bool {
			return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/catalogsources/")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
			w.create(ref, nil)
			c := w.settle()
			must.Succeed(t, w.api.Delete(t.Context(), c))
			heal := w.requests.failing(fails)
			if _, err := w.tryReconcile(); err == nil {
				t.Fatal("no error")
			}
			w.source() // waits for us
			heal()
			w.reconcile()
			if err := w.api.Get(t.Context(), types.NamespacedName{Name: w.catalog}, c); !apierrors.IsNotFound(err) {
				t.Errorf("the object is still there: %v", err)
			}
			if len(w.packages()) != 0 || w.served() != "" {
				t.Errorf("still there: packages %v, content %q", w.packages(), w.served())
			}
		})
	}
}

// Another finalizer keeps the object; ours is removed.
func TestFinalizeWaitsForOthers(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, func(c *v1beta1.CatalogSource) { c.Finalizers = []string{"example.com/backup"} })
	must.Succeed(t, w.api.Delete(t.Context(), w.settle()))
	w.reconcile()
	w.requests.take()
	w.reconcile()
	wantEqual(t, "writes once ours is gone", nil, w.requests.take())
	wantEqual(t, "finalizers", []string{"example.com/backup"}, w.source().Finalizers)
	if w.served() != "" {
		t.Error("a catalog that is being deleted is served")
	}
}

// A cache that lacks the last write is not used.
func TestReadAsksAPIServer(t *testing.T) {
	w := newWorld(t)
	w.create("registry.example/catalog", nil)
	w.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			t.Error("the cache was asked")
			return nil
		},
	})
	_, err := w.read(t.Context(), w.catalog)
	must.Succeed(t, err)
}

// Content is removed if its object was deleted without the finalizer.
func TestReadNotFound(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	c := w.settle()
	w.change(func(c *v1beta1.CatalogSource) { c.Finalizers = nil })
	must.Succeed(t, w.api.Delete(t.Context(), c))
	w.reconcile()
	if w.served() != "" {
		t.Error("the content is still served")
	}
	wantEqual(t, "metrics that name the catalog", nil, seriesOf(t, w.metrics, w.catalog))
}

func TestWithdraw(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "bar"}, pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	w.change(func(c *v1beta1.CatalogSource) { c.Spec.Availability = v1beta1.AvailabilityUnavailable })
	rec := w.begin()
	out, err := w.withdraw(t.Context(), rec.src)
	must.Succeed(t, err)
	c := w.withStatus(rec.object, *out.status).(*v1beta1.CatalogSource)
	wantEqual(t, "writes", []string{"DELETE operatorpackages"}, w.requests.take())
	if len(w.packages()) != 0 || w.served() != "" {
		t.Errorf("still there: packages %v, content %q", w.packages(), w.served())
	}
	const message = "False UserSpecifiedUnavailable: The catalog is not served: spec.availability is Unavailable."
	wantEqual(t, "conditions", map[string]string{
		"Ready": message, "Serving": message, "Progressing": message, "PackagesSynced": message,
	}, conditions(c))
	s := c.Status
	if s.Digest != "" || s.URLs != nil || s.Content != nil || s.ObservedGeneration != c.Generation {
		t.Errorf("status is %+v, want none of what was served", s)
	}
	wantEqual(t, "metrics that name the catalog", nil, seriesOf(t, w.metrics, w.catalog))
}

// If deleting the packages fails, the catalog is not withdrawn; the next pass retries.
func TestWithdrawFails(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	w.change(func(c *v1beta1.CatalogSource) { c.Spec.Availability = v1beta1.AvailabilityUnavailable })
	heal := w.requests.failing(func(r *http.Request) bool { return r.Method == http.MethodDelete })
	if _, err := w.tryReconcile(); err == nil || !strings.Contains(err.Error(), "deleting the OperatorPackages of "+w.catalog) {
		t.Errorf("got error %v", err)
	}
	wantCondition(t, w.source(), "Ready", "True Succeeded: 1 package is published.")
	heal()
	w.reconcile()
	if len(w.packages()) != 0 || w.served() != "" {
		t.Errorf("still there: packages %v, content %q", w.packages(), w.served())
	}
}

func TestAnnounce(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	if next := w.reconcile(); next != time.Millisecond {
		t.Errorf("next pass in %v, want another at once", next)
	}
	wantEqual(t, "requests to the registry", nil, w.registry.take())
	wantEqual(t, "conditions", map[string]string{
		"Progressing":    "True Unpacking: Unpacking and publishing " + ref + ".",
		"Serving":        "False Unavailable: No content is unpacked yet.",
		"PackagesSynced": "False Unavailable: No content is unpacked yet.",
		"Ready":          "False Unpacking: Unpacking and publishing " + ref + ".",
	}, conditions(w.source()))

	// A status that somebody emptied is made again, poll included, whatever was left of it.
	w.settle()
	c := w.source()
	c.Status.Conditions = c.Status.Conditions[:0]
	must.Succeed(t, w.api.Status().Update(t.Context(), c))
	w.reconcile()
	w.reconcile()
	wantEqual(t, "requests to the registry", []string{"HEAD manifests"}, w.registry.take())
	wantCondition(t, w.source(), "Ready", "True Succeeded: 1 package is published.")
}

// fileTimes returns the modification times of all files below dir except the lock.
func fileTimes(t *testing.T, dir string) map[string]time.Time {
	t.Helper()
	out := map[string]time.Time{}
	must.Succeed(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		out[path] = info.ModTime()
		return nil
	}))
	return out
}

// damage flips a bit of the content that a catalog serves.
func damage(t *testing.T, w *world) {
	t.Helper()
	served, ok := w.Store.Catalog(w.catalog)
	if !ok {
		t.Fatal("nothing is served")
	}
	f, err := os.OpenFile(filepath.Join(w.dir, "snapshots", served.Snapshot.Key(), "catalog.jsonl"), os.O_RDWR, 0)
	must.Succeed(t, err)
	defer f.Close()
	var b [1]byte
	_, err = f.ReadAt(b[:], 100)
	must.Succeed(t, err)
	b[0] ^= 1
	_, err = f.WriteAt(b[:], 100)
	must.Succeed(t, err)
}
