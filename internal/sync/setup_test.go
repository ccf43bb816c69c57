package sync

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/sync/catalogsource"
	"github.com/operator-catalogs/catalogd/internal/sync/publish"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// Content of a catalog that was deleted while no catalogd ran is removed. Other content stays, whatever errors the API
// server returns.
func TestRemoveOrphans(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	gone := w.settle()
	stays := w.another()
	stays.create(ref, nil)
	stays.settle()
	w.change(func(c *v1beta1.CatalogSource) { c.Finalizers = nil })
	must.Succeed(t, w.api.Delete(t.Context(), gone))

	live := w.Live
	w.Live = interceptor.NewClient(live.(client.WithWatch), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("down")
		},
	})
	if err := w.keeper().removeOrphans(t.Context()); err == nil || w.served() == "" {
		t.Errorf("without an answer of the API server: error %v, content %q", err, w.served())
	}
	w.Live = live
	must.Succeed(t, w.keeper().removeOrphans(t.Context()))
	if w.served() != "" {
		t.Error("the content of the deleted catalog is still served")
	}
	if stays.served() == "" {
		t.Error("the content of another catalog is gone")
	}
}

func TestScrubReportsDamaged(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	w.settle()
	sound := w.another()
	other, _ := w.registry.push("other", catalogOf(pkg{name: "bar"}))
	sound.create(other, nil)
	sound.settle()
	damage(t, w)
	damaged := make(chan event.GenericEvent, 10)
	w.again = damaged
	w.keeper().scrub(t.Context())
	close(damaged)
	var names []string
	for e := range damaged {
		names = append(names, e.Object.GetName())
	}
	wantEqual(t, "damaged catalogs", []string{w.catalog}, names)

	stopped, stop := context.WithCancel(t.Context())
	stop()
	w.again = make(chan event.GenericEvent)
	w.keeper().scrub(stopped) // returns without a receiver
}

// TestRegister runs the controller with cache and queue, as catalogd does, and checks which events requeue a catalog.
func TestRegister(t *testing.T) {
	w := newWorld(t)
	w.runManager()
	ref, first := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	serves := func(digest string) func() bool {
		return func() bool {
			c := w.source()
			return c.Status.Digest == digest && meta.IsStatusConditionTrue(c.Status.Conditions, v1beta1.ReadyCondition)
		}
	}
	w.eventually("a new catalog is Ready", serves(first))

	old := w.getPackage("foo")
	must.Succeed(t, w.api.Delete(t.Context(), old))
	w.eventually("a deleted package is back", func() bool {
		p := &v1beta1.OperatorPackage{}
		return w.api.Get(t.Context(), client.ObjectKeyFromObject(old), p) == nil && p.UID != old.UID
	})
	spoiled := w.getPackage("foo")
	spoiled.Annotations = nil
	must.Succeed(t, w.api.Update(t.Context(), spoiled))
	w.eventually("a spoiled package is repaired", func() bool { return w.getPackage("foo").Annotations[v1beta1.ContentHashAnnotation] != "" })

	_, second := w.registry.push("latest", catalogOf(pkg{name: "foo", version: "2.0.0"}))
	w.requestPoll("now")
	w.eventually("a poll is made on request", serves(second))
	w.change(func(c *v1beta1.CatalogSource) { c.Labels = map[string]string{"team": "a"} })
	w.eventually("a label of the catalog is on the package", func() bool { return w.getPackage("foo").Labels["team"] == "a" })
	w.change(func(c *v1beta1.CatalogSource) { c.Spec.Priority = 3 })
	w.eventually("a change of the spec is on the package", func() bool { return w.getPackage("foo").Spec.Priority == 3 })

	must.Succeed(t, w.api.Delete(t.Context(), w.source()))
	w.eventually("a deleted catalog is gone", func() bool {
		err := w.api.Get(t.Context(), types.NamespacedName{Name: w.catalog}, &v1beta1.CatalogSource{})
		return client.IgnoreNotFound(err) == nil && err != nil && len(w.packages()) == 0 && w.served() == ""
	})
}

// Content found damaged at the start is unpacked again without a poll or a change of the object.
func TestRegisterScrubs(t *testing.T) {
	w := newWorld(t)
	_, digest := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(w.registry.byDigest(digest), nil)
	w.settle()
	want := w.served()
	damage(t, w)
	w.runManager()
	w.eventually("the content is whole again", func() bool { return w.served() == want })
	if asked := w.registry.take(); !slices.Contains(asked, "GET blobs") {
		t.Errorf("the registry was asked for %v", asked)
	}
}

// A catalog that waits for a Secret or ConfigMap is requeued once it exists.
func TestRegisterWatchesAccess(t *testing.T) {
	w := newWorld(t)
	w.newNamespace()
	w.runManager()
	certificate, _ := selfSigned(t)
	ref, digest := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.registry.wantPassword("right")
	ready := func(w *world, reason string) func() bool {
		return func() bool {
			cond := meta.FindStatusCondition(w.source().Status.Conditions, v1beta1.ReadyCondition)
			return cond != nil && cond.Reason == reason
		}
	}
	w.create(ref, func(c *v1beta1.CatalogSource) {
		c.Spec.Registry = &v1beta1.RegistryAccess{
			PullSecrets: []v1beta1.SecretReference{{Name: "pull"}},
			CABundle:    &v1beta1.BundleReference{Kind: "ConfigMap", Name: "ca", Key: "ca.crt"},
		}
	})
	other := w.another() // has no Secret of its own
	other.create(ref, nil)
	w.eventually("the Secret is missed", ready(w, v1beta1.AccessInvalidReason))
	w.putSecret("pull", dockerConfig(w.registry.host, "right"))
	w.eventually("the ConfigMap is missed", func() bool { return strings.Contains(conditions(w.source())["Ready"], "ConfigMap ca") })
	w.putConfigMap("ca", map[string]string{"ca.crt": certificate})
	w.eventually("the catalog is Ready", ready(w, v1beta1.SucceededReason))
	if w.servedDigest() != digest {
		t.Errorf("serves %q, want %s", w.servedDigest(), digest)
	}

	w.eventually("credentials are missed", ready(other, v1beta1.UnauthorizedReason))
	must.Succeed(t, w.api.Create(t.Context(), &corev1.ServiceAccount{
		ObjectMeta:       metav1.ObjectMeta{Namespace: w.Config.Namespace, Name: w.Config.ServiceAccount},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}},
	}))
	other.eventually("the catalog is Ready with the ServiceAccount's Secret", ready(other, v1beta1.SucceededReason))
}

func (w *world) keeper() *keeper {
	w.controllers = []*controller{w.controller}
	return &keeper{w.Engine}
}

// runManager runs the controller until the test ends.
func (w *world) runManager() {
	w.t.Helper()
	w.runManagerAt(apiServer, w.Config.Watched(catalogsource.Kind{}))
}

// runManagerAt runs the controller with a config of the API server and the watched objects.
func (w *world) runManagerAt(cfg *rest.Config, watched map[client.Object]cache.ByObject) {
	w.t.Helper()
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:  w.api.Scheme(),
		Metrics: server.Options{BindAddress: "0"},
		Cache:   cache.Options{ReaderFailOnMissingInformer: true, ByObject: watched},
	})
	must.Succeed(w.t, err)
	w.Client, w.Live = mgr.GetClient(), mgr.GetAPIReader()
	must.Succeed(w.t, publish.Index(context.Background(), mgr.GetFieldIndexer()))
	must.Succeed(w.t, w.register(mgr))
	must.Succeed(w.t, mgr.Add(manager.RunnableFunc(w.keeper().run)))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	w.t.Cleanup(func() {
		stop()
		must.Succeed(w.t, <-ended)
	})
}

// eventually waits until holds returns true.
func (w *world) eventually(what string, holds func() bool) {
	w.t.Helper()
	if !w.within(holds) {
		w.t.Fatalf("not in time: %s; conditions are %v", what, conditions(w.source()))
	}
}

// until is eventually for tests that may have no catalog.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	if !w.within(holds) {
		w.t.Fatalf("not in time: %s", what)
	}
}

func (w *world) within(holds func() bool) bool {
	return eventually.Within(w.t.Context(), 2*time.Minute, func() error {
		if !holds() {
			return errors.New("not yet")
		}
		return nil
	}) == nil
}
