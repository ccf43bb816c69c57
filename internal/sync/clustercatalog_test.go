package sync

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/operator-catalogs/catalogd/apis/olmv1"
	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/sync/catalogsource"
	"github.com/operator-catalogs/catalogd/internal/sync/clustercatalog"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// olmWorld is a reconciler of both kinds; w is that of CatalogSources.
type olmWorld struct {
	*world
	sources *world
}

func newOLMWorld(t *testing.T) *olmWorld {
	t.Helper()
	sources := newWorld(t)
	kind := clustercatalog.Kind{Namespace: "catalogd-system", BaseURL: "http://catalogd.example", Registry: "catalogd-cluster-catalogs"}
	sources.kinds = []Kind{catalogsource.Kind{}, kind}
	sources.Mirrors = []Mirror{clustercatalog.Mirror{Kind: kind, Enabled: true, Client: sources.Client, Live: sources.Live}}
	w := *sources
	w.controller = sources.newController(kind)
	w.catalog += ".with.dots"
	t.Cleanup(w.deleteClusterCatalog)
	t.Cleanup(w.deleteCatalog)
	return &olmWorld{&w, sources}
}

// share gives both worlds the same catalog name.
func (w *olmWorld) share() {
	w.catalog = w.sources.catalog
	w.t.Cleanup(w.deleteClusterCatalog)
}

func (w *world) deleteClusterCatalog() {
	c, ctx := &olmv1.ClusterCatalog{}, context.Background() // that of the test has ended
	if err := w.api.Get(ctx, w.request().NamespacedName, c); err == nil {
		c.Finalizers = nil
		must.Succeed(w.t, w.api.Update(ctx, c))
		must.Succeed(w.t, client.IgnoreNotFound(w.api.Delete(ctx, c)))
	}
}

func (w *olmWorld) create(ref string, minutes int) {
	w.t.Helper()
	c := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: w.catalog}}
	c.Spec.Source = olmv1.CatalogSource{Type: olmv1.SourceTypeImage, Image: &olmv1.ImageSource{Ref: ref}}
	if minutes > 0 {
		c.Spec.Source.Image.PollIntervalMinutes = &minutes
	}
	must.Succeed(w.t, w.api.Create(w.t.Context(), c))
}

func (w *olmWorld) get() *olmv1.ClusterCatalog {
	w.t.Helper()
	c := &olmv1.ClusterCatalog{}
	must.Succeed(w.t, w.api.Get(w.t.Context(), w.request().NamespacedName, c))
	return c
}

func (w *olmWorld) update(change func(*olmv1.ClusterCatalog)) {
	w.t.Helper()
	c := w.get()
	change(c)
	must.Succeed(w.t, w.api.Update(w.t.Context(), c))
}

// writeAsUpstream writes a status as OLM v1's own catalogd does: the whole of it, as manager catalogd.
func (w *olmWorld) writeAsUpstream(digest string) {
	w.t.Helper()
	c := w.get()
	c.Status = olmv1.ClusterCatalogStatus{
		Conditions: []metav1.Condition{
			{Type: "Progressing", Status: "True", Reason: "Succeeded", Message: "Successfully unpacked and stored content from resolved source"},
			{Type: "Serving", Status: "True", Reason: "Available", Message: "Serving desired content from resolved source"},
		},
		ResolvedSource: &olmv1.ResolvedCatalogSource{
			Type: "Image", Image: &olmv1.ResolvedImageSource{Ref: "registry.example/catalog@" + digest},
		},
		URLs:         &olmv1.ClusterCatalogURLs{Base: "https://catalogd-service.olmv1-system.svc/catalogs/" + c.Name},
		LastUnpacked: new(metav1.NewTime(start.Add(-time.Hour))),
	}
	for i := range c.Status.Conditions {
		c.Status.Conditions[i].LastTransitionTime = metav1.NewTime(start.Add(-time.Hour))
		c.Status.Conditions[i].ObservedGeneration = 1
	}
	must.Succeed(w.t, w.api.Status().Update(w.t.Context(), c, client.FieldOwner("catalogd")))
}

// installUpstream creates the lease of a running catalogd of OLM v1.
func (w *olmWorld) installUpstream() *coordinationv1.Lease {
	w.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "olmv1-"}}
	must.Succeed(w.t, w.api.Create(w.t.Context(), namespace))
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "catalogd-operator-lock", Namespace: namespace.Name},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("pod"), LeaseDurationSeconds: new(int32(137)), RenewTime: new(metav1.NowMicro()),
		},
	}
	must.Succeed(w.t, w.api.Create(w.t.Context(), lease))
	w.t.Cleanup(func() { _ = w.api.Delete(context.Background(), lease) })
	w.clock.SetTime(w.clock.Now().Add(rivalAge))
	return lease
}

// uninstallUpstream lets the lease expire.
func (w *olmWorld) uninstallUpstream(lease *coordinationv1.Lease) {
	w.t.Helper()
	lease.Spec.RenewTime = new(metav1.NewMicroTime(time.Now().Add(-time.Hour)))
	must.Succeed(w.t, w.api.Update(w.t.Context(), lease))
	w.clock.SetTime(w.clock.Now().Add(rivalAge))
}

// takeWrites returns the writes since the last call, with the name of the catalog as NAME.
func (w *olmWorld) takeWrites() []string {
	var out []string
	for _, write := range w.requests.take() {
		write = strings.TrimPrefix(strings.Replace(write, "/apis/olm.operatorframework.io/v1/", "", 1), "/")
		out = append(out, strings.ReplaceAll(write, w.catalog, "NAME"))
	}
	return out
}

func shown(c *olmv1.ClusterCatalog) map[string]string {
	out := map[string]string{}
	for _, cond := range c.Status.Conditions {
		out[cond.Type] = fmt.Sprintf("%s %s: %s", cond.Status, cond.Reason, cond.Message)
	}
	return out
}

var servingAsUpstream = map[string]string{
	"Progressing": "True Succeeded: Successfully unpacked and stored content from resolved source",
	"Serving":     "True Available: Serving desired content from resolved source",
}

func TestClusterCatalog(t *testing.T) {
	w := newOLMWorld(t)
	ref, digest := w.registry.push("latest", catalogOf(pkg{name: "bar"}, pkg{name: "foo"}))
	w.create(ref, 10)

	w.reconcile()
	wantEqual(t, "writes of the first pass", []string{"PATCH clustercatalogs/NAME", "PATCH clustercatalogs/NAME/status"}, w.takeWrites())
	c := w.get()
	wantEqual(t, "label", w.catalog, c.Labels[olmv1.MetadataNameLabel])
	wantEqual(t, "finalizers", []string{olmv1.DeletionFinalizer}, c.Finalizers)
	wantEqual(t, "conditions before the content", map[string]string{"Serving": "False Unavailable: No content is unpacked yet."}, shown(c))
	if c.Status.ResolvedSource != nil || c.Status.URLs != nil || c.Status.LastUnpacked != nil {
		t.Errorf("the status speaks of content: %+v", c.Status)
	}

	next := w.reconcile()
	if next < 10*time.Minute || next > 11*time.Minute {
		t.Errorf("the next pass is in %v, want the interval and up to a tenth more", next)
	}
	writes := w.takeWrites()
	slices.Sort(writes)
	wantEqual(t, "writes of the second pass", []string{
		"PATCH clustercatalogs/NAME/status", "POST operatorpackages", "POST operatorpackages",
	}, writes)
	c = w.get()
	wantEqual(t, "conditions", servingAsUpstream, shown(c))
	wantEqual(t, "resolved source", strings.TrimSuffix(ref, ":latest")+"@"+digest, c.Status.ResolvedSource.Image.Ref)
	wantEqual(t, "URL", "http://catalogd.example/catalogs/"+w.catalog, c.Status.URLs.Base)
	if !c.Status.LastUnpacked.Equal(new(metav1.NewTime(start))) {
		t.Errorf("lastUnpacked is %v, want %v", c.Status.LastUnpacked, start)
	}
	pkg := w.getPackage("foo")
	wantEqual(t, "catalog of the package", w.catalog, pkg.Spec.Catalog)
	wantEqual(t, "kind of the package's catalog", "ClusterCatalog", pkg.Labels[v1beta1.CatalogKindLabel])

	for _, when := range []string{"unchanged", "after a restart", "after the interval"} {
		switch when {
		case "after a restart":
			w.restart()
		case "after the interval":
			w.clock.SetTime(w.clock.Now().Add(12 * time.Minute))
		}
		w.reconcile()
		wantEqual(t, "writes "+when, nil, w.takeWrites())
	}
}

func TestClusterCatalogPolls(t *testing.T) {
	for _, test := range []struct {
		name    string
		minutes int
		request bool
		moves   bool
	}{
		{"with an interval", 1, false, true},
		{"without", 0, false, false},
		{"on request", 0, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newOLMWorld(t)
			ref, first := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
			w.create(ref, test.minutes)
			w.reconcile()
			if next := w.reconcile(); (next == 0) != (test.minutes == 0) {
				t.Errorf("the next pass is in %v", next)
			}
			unpacked := w.get().Status.LastUnpacked
			_, second := w.registry.push("latest", catalogOf(pkg{name: "bar"}))
			w.clock.SetTime(start.Add(2 * time.Minute))
			if test.request {
				w.update(func(c *olmv1.ClusterCatalog) {
					metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1beta1.PollRequestedAnnotation, "now")
				})
			}
			w.reconcile()
			want, c := first, w.get()
			if test.moves {
				want = second
			}
			wantEqual(t, "resolved source", strings.TrimSuffix(ref, ":latest")+"@"+want, c.Status.ResolvedSource.Image.Ref)
			if moved := !c.Status.LastUnpacked.Equal(unpacked); moved != test.moves {
				t.Errorf("lastUnpacked moved: %t", moved)
			}
			if test.request {
				wantEqual(t, "handled request", "now", c.Annotations[v1beta1.PollHandledAnnotation])
				w.takeWrites()
				w.reconcile()
				wantEqual(t, "writes after the request", nil, w.takeWrites())
			}
		})
	}
}

func TestClusterCatalogFailure(t *testing.T) {
	w := newOLMWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, 1)
	w.reconcile()
	w.reconcile()
	before := w.get()
	missing := strings.TrimSuffix(ref, ":latest") + ":missing"
	w.update(func(c *olmv1.ClusterCatalog) { c.Spec.Source.Image.Ref = missing })
	w.reconcile()
	c := w.get()
	progressing := meta.FindStatusCondition(c.Status.Conditions, "Progressing")
	if progressing.Reason != "Retrying" || progressing.ObservedGeneration != c.Generation || !strings.Contains(progressing.Message, missing) {
		t.Errorf("Progressing is %+v", progressing)
	}
	serving := meta.FindStatusCondition(c.Status.Conditions, "Serving")
	wantEqual(t, "Serving", *meta.FindStatusCondition(before.Status.Conditions, "Serving"), *serving)
	before.Status.Conditions, c.Status.Conditions = nil, nil
	wantEqual(t, "the rest of the status", before.Status, c.Status)
}

func TestClusterCatalogUnavailable(t *testing.T) {
	w := newOLMWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, 1)
	w.reconcile()
	w.reconcile()
	w.update(func(c *olmv1.ClusterCatalog) { c.Spec.AvailabilityMode = olmv1.AvailabilityModeUnavailable })
	for range 2 {
		w.reconcile()
		c := w.get()
		wantEqual(t, "conditions", map[string]string{
			"Progressing": "True Succeeded: Catalog availability mode is set to Unavailable",
			"Serving":     "False UserSpecifiedUnavailable: Catalog availability mode is set to Unavailable",
		}, shown(c))
		if c.Status.ResolvedSource != nil || c.Status.URLs != nil || c.Status.LastUnpacked != nil || len(c.Finalizers) > 0 {
			t.Errorf("the status is %+v, finalizers %v", c.Status, c.Finalizers)
		}
		wantEqual(t, "packages", map[string]string{}, w.packages())
		wantEqual(t, "content", "", w.served())
	}
	w.takeWrites()
	w.reconcile()
	wantEqual(t, "writes of another pass", nil, w.takeWrites())
	w.update(func(c *olmv1.ClusterCatalog) { c.Spec.AvailabilityMode = olmv1.AvailabilityModeAvailable })
	w.reconcile()
	w.reconcile()
	wantEqual(t, "conditions once available again", servingAsUpstream, shown(w.get()))
}

func TestClusterCatalogDeleted(t *testing.T) {
	w := newOLMWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, 1)
	w.reconcile()
	w.reconcile()
	must.Succeed(t, w.api.Delete(t.Context(), w.get()))
	w.reconcile()
	if err := w.api.Get(t.Context(), w.request().NamespacedName, &olmv1.ClusterCatalog{}); !apierrors.IsNotFound(err) {
		t.Errorf("the object is still there (%v)", err)
	}
	wantEqual(t, "packages", map[string]string{}, w.packages())
	wantEqual(t, "content", "", w.served())
}

func TestClusterCatalogNameTooLong(t *testing.T) {
	w := newOLMWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	long := *w.world
	w = &olmWorld{&long, w.sources}
	w.catalog += "." + strings.Repeat("x", 60)
	w.create(ref, 1)
	t.Cleanup(w.deleteClusterCatalog)
	w.reconcile()
	got := shown(w.get())["Progressing"]
	want := fmt.Sprintf("False Blocked: The name has %d characters: create the catalog under a name of at most 63", len(w.catalog))
	if !strings.HasPrefix(got, want) {
		t.Errorf("Progressing is\n %s, want\n %s", got, want)
	}
	wantEqual(t, "content", "", w.served())
}

// What a former catalogd of OLM v1 left behind is taken over without a conflict.
func TestClusterCatalogOfUninstalledUpstream(t *testing.T) {
	w := newOLMWorld(t)
	ref, digest := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, 1)
	w.update(func(c *olmv1.ClusterCatalog) {
		controllerutil.AddFinalizer(c, olmv1.DeletionFinalizer)
		metav1.SetMetaDataLabel(&c.ObjectMeta, olmv1.MetadataNameLabel, c.Name)
	})
	w.writeAsUpstream("sha256:" + strings.Repeat("0", 64))
	w.reconcile()
	writes := w.takeWrites()
	slices.Sort(writes)
	wantEqual(t, "writes", []string{"PATCH clustercatalogs/NAME", "PATCH clustercatalogs/NAME/status", "POST operatorpackages"}, writes)
	c := w.get()
	wantEqual(t, "conditions", servingAsUpstream, shown(c))
	wantEqual(t, "URL", "http://catalogd.example/catalogs/"+w.catalog, c.Status.URLs.Base)
	wantEqual(t, "resolved source", strings.TrimSuffix(ref, ":latest")+"@"+digest, c.Status.ResolvedSource.Image.Ref)
}

// Two programs that write one status stop after one write each.
func TestClusterCatalogContested(t *testing.T) {
	w := newOLMWorld(t)
	ref, digest := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, 1)
	w.reconcile()
	w.reconcile()
	w.writeAsUpstream("sha256:" + strings.Repeat("0", 64))
	theirs := w.get()
	w.requests.take()
	w.events()
	for range 5 {
		w.clock.SetTime(w.clock.Now().Add(5 * time.Minute))
		w.reconcile()
	}
	wantEqual(t, "resource version", theirs.ResourceVersion, w.get().ResourceVersion)
	if writes := w.takeWrites(); len(writes) > 1 {
		t.Errorf("tried to write %v, want at most once", writes)
	}
	wantEqual(t, "events", []string{"Warning Contested Another program changed the status of this object after catalogd. This catalogd " +
		"leaves the object to it: remove that program, then run `kubectl catalog refresh clustercatalog/" + w.catalog + "`"}, w.events())
	wantEqual(t, "content is served", (pkg{name: "foo"}).json(), w.served())

	w.update(func(c *olmv1.ClusterCatalog) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1beta1.PollRequestedAnnotation, "now")
	})
	w.reconcile()
	c := w.get()
	wantEqual(t, "URL after a refresh", "http://catalogd.example/catalogs/"+w.catalog, c.Status.URLs.Base)
	wantEqual(t, "resolved source", strings.TrimSuffix(ref, ":latest")+"@"+digest, c.Status.ResolvedSource.Image.Ref)
}

// A finalizer that nobody else removes does not wait for the end of a contest.
func TestClusterCatalogDeletedWhileContested(t *testing.T) {
	w := newOLMWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, 1)
	w.reconcile()
	w.reconcile()
	w.writeAsUpstream("sha256:" + strings.Repeat("0", 64))
	w.clock.SetTime(w.clock.Now().Add(5 * time.Minute))
	w.reconcile()
	w.reconcile()
	must.Succeed(t, w.api.Delete(t.Context(), w.get()))
	w.reconcile()
	if err := w.api.Get(t.Context(), w.request().NamespacedName, &olmv1.ClusterCatalog{}); !apierrors.IsNotFound(err) {
		t.Errorf("the object is still there (%v)", err)
	}
	wantEqual(t, "content", "", w.served())
}

func TestClusterCatalogBesideUpstream(t *testing.T) {
	w := newOLMWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, 1)
	lease := w.installUpstream()
	before := w.get().ResourceVersion
	for range 3 {
		if next := w.reconcile(); next != rivalAge {
			t.Errorf("the next pass is in %v, want %v", next, rivalAge)
		}
	}
	wantEqual(t, "resource version", before, w.get().ResourceVersion)
	wantEqual(t, "events", []string{"Warning Contested OLM v1's own catalogd is running: it holds Lease catalogd-operator-lock in namespace " +
		lease.Namespace + ". This catalogd leaves the object to it: remove one of the two"}, w.events())

	w.uninstallUpstream(lease)
	w.reconcile()
	w.reconcile()
	wantEqual(t, "conditions", servingAsUpstream, shown(w.get()))
}

// Upstream was installed after this catalogd had served the object, and then uninstalled.
func TestClusterCatalogReturnsFromUpstream(t *testing.T) {
	for name, restarted := range map[string]bool{"seen by this process": false, "before its start": true} {
		t.Run(name, func(t *testing.T) {
			w := newOLMWorld(t)
			ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
			w.create(ref, 1)
			w.reconcile()
			w.reconcile()
			lease := w.installUpstream()
			w.writeAsUpstream("sha256:" + strings.Repeat("0", 64))
			w.reconcile()
			wantEqual(t, "content meanwhile", (pkg{name: "foo"}).json(), w.served())
			w.uninstallUpstream(lease)
			if restarted {
				w.controller = w.newController(w.kind)
			}
			for range 3 {
				w.reconcile()
			}
			wantEqual(t, "URL", "http://catalogd.example/catalogs/"+w.catalog, w.get().Status.URLs.Base)
			wantEqual(t, "conditions", servingAsUpstream, shown(w.get()))
		})
	}
}

// What upstream left in a status is removed where this catalogd has nothing in its place, by one write.
func TestClusterCatalogClearsStatusOfUpstream(t *testing.T) {
	for name, prepare := range map[string]func(*olmWorld, string){
		"the first pull fails": func(w *olmWorld, ref string) { w.create(strings.Replace(ref, ":latest", ":absent", 1), 1) },
		"it is unavailable": func(w *olmWorld, ref string) {
			w.create(ref, 1)
			w.update(func(c *olmv1.ClusterCatalog) { c.Spec.AvailabilityMode = olmv1.AvailabilityModeUnavailable })
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newOLMWorld(t)
			ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
			prepare(w, ref)
			w.writeAsUpstream("sha256:" + strings.Repeat("0", 64))
			_, _ = w.tryReconcile() // the first pull may fail
			_, _ = w.tryReconcile()
			if c := w.get(); c.Status.ResolvedSource != nil || c.Status.URLs != nil || c.Status.LastUnpacked != nil {
				t.Errorf("the status is %+v", c.Status)
			}
			w.takeWrites()
			_, _ = w.tryReconcile()
			wantEqual(t, "writes of another pass", nil, w.takeWrites())
		})
	}
}

// A refresh overrules the other program once, and also if the catalog is suspended.
func TestClusterCatalogRefreshOverrulesOnce(t *testing.T) {
	w := newOLMWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, 1)
	w.reconcile()
	w.reconcile()
	w.update(func(c *olmv1.ClusterCatalog) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1beta1.SuspendAnnotation, "true")
	})
	w.reconcile()
	lose := func() {
		w.writeAsUpstream("sha256:" + strings.Repeat("0", 64))
		w.reconcile()
		w.reconcile()
	}
	lose()
	w.update(func(c *olmv1.ClusterCatalog) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1beta1.PollRequestedAnnotation, "now")
	})
	w.reconcile()
	wantEqual(t, "URL after a refresh", "http://catalogd.example/catalogs/"+w.catalog, w.get().Status.URLs.Base)
	lose()
	w.takeWrites()
	for range 3 {
		w.reconcile()
	}
	wantEqual(t, "writes after the other wrote again", nil, w.takeWrites())
}

// A namesake is left to a running upstream as any object is, and once it is uninstalled, the status says whose the name is.
func TestNamesakeOfUpstream(t *testing.T) {
	w := newOLMWorld(t)
	w.share()
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.sources.create(ref, nil)
	w.sources.settle()
	lease := w.installUpstream()
	w.create(ref, 1)
	w.writeAsUpstream("sha256:" + strings.Repeat("0", 64))
	w.requests.take()
	w.reconcile()
	wantEqual(t, "writes", nil, w.takeWrites())
	w.uninstallUpstream(lease)
	w.reconcile()
	if got := shown(w.get())["Progressing"]; !strings.HasPrefix(got, "False Blocked: The name "+w.catalog+" belongs to CatalogSource") {
		t.Errorf("Progressing is %s", got)
	}
	w.takeWrites()
	w.reconcile()
	wantEqual(t, "writes of another pass", nil, w.takeWrites())
}

// Upstream adds its finalizer to mirrors as to all ClusterCatalogs. Nobody else removes it later.
func TestMirrorWithFinalizerOfUpstream(t *testing.T) {
	w := newOLMWorld(t)
	w.share()
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.sources.create(ref, func(c *v1beta1.CatalogSource) { c.Spec.OLMv1 = true })
	w.sources.settle()
	w.update(func(c *olmv1.ClusterCatalog) { controllerutil.AddFinalizer(c, olmv1.DeletionFinalizer) })
	w.sources.change(func(c *v1beta1.CatalogSource) { c.Spec.OLMv1 = false })
	w.sources.reconcile()
	w.reconcile()
	if err := w.api.Get(t.Context(), w.request().NamespacedName, &olmv1.ClusterCatalog{}); !apierrors.IsNotFound(err) {
		t.Errorf("the object is still there (%v)", err)
	}
}

// While the CRD of ClusterCatalogs is not served, the content of ClusterCatalogs looks like that of deleted catalogs.
func TestContentStaysWithoutCRD(t *testing.T) {
	w := newOLMWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, 1)
	w.reconcile()
	w.reconcile()
	w.controllers = []*controller{w.sources.controller}
	k := &keeper{w.Engine}
	k.Config.Incomplete = true
	must.Succeed(t, k.removeOrphans(t.Context()))
	wantEqual(t, "content", (pkg{name: "foo"}).json(), w.served())
	k.Config.Incomplete = false
	must.Succeed(t, k.removeOrphans(t.Context()))
	wantEqual(t, "content without ClusterCatalogs", "", w.served())
}

func TestNamesakes(t *testing.T) {
	w := newOLMWorld(t)
	w.share()
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	other, _ := w.registry.push("other", catalogOf(pkg{name: "bar"}))
	w.sources.create(ref, nil)
	w.sources.settle()
	w.create(other, 1)
	w.reconcile()
	wantEqual(t, "conditions", map[string]string{
		"Progressing": "False Blocked: The name " + w.catalog + " belongs to CatalogSource " + w.catalog +
			", which is older: delete that one, or create this catalog under another name.",
		"Serving": "False Unavailable: No content is unpacked yet.",
	}, shown(w.get()))
	wantEqual(t, "content", (pkg{name: "foo"}).json(), w.served())
	w.requests.take()
	w.sources.reconcile()
	w.reconcile()
	wantEqual(t, "writes", nil, w.takeWrites())

	must.Succeed(t, w.api.Delete(t.Context(), w.sources.source()))
	w.sources.reconcile()
	w.reconcile()
	w.reconcile()
	wantEqual(t, "content of the next", (pkg{name: "bar"}).json(), w.served())
	w.sources.reconcile() // a late event of the deleted one
	wantEqual(t, "content after a late event", (pkg{name: "bar"}).json(), w.served())
	if _, ok := w.packages()["bar"]; !ok || len(w.packages()) != 1 {
		t.Errorf("packages are %v", w.packages())
	}
}

func TestMirror(t *testing.T) {
	w := newOLMWorld(t)
	w.share()
	ref, digest := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.sources.create(ref, func(c *v1beta1.CatalogSource) {
		c.Spec.OLMv1, c.Spec.Priority, c.Labels = true, 7, map[string]string{"team": "a"}
	})
	c := w.sources.settle()
	wantCondition(t, c, "ClusterCatalogSynced", "True Synced: ClusterCatalog "+w.catalog+" is up to date.")
	mirror := w.get()
	wantEqual(t, "labels", map[string]string{"team": "a", olmv1.MetadataNameLabel: w.catalog}, mirror.Labels)
	wantEqual(t, "image", ref, mirror.Spec.Source.Image.Ref)
	wantEqual(t, "priority", 7, mirror.Spec.Priority)
	wantEqual(t, "conditions", servingAsUpstream, shown(mirror))
	wantEqual(t, "resolved source", strings.TrimSuffix(ref, ":latest")+"@"+digest, mirror.Status.ResolvedSource.Image.Ref)
	wantEqual(t, "URL", c.Status.URLs.Base, mirror.Status.URLs.Base)

	w.requests.take()
	w.reconcile()
	w.sources.reconcile()
	wantEqual(t, "writes unchanged", nil, w.takeWrites())

	must.Succeed(t, w.api.Delete(t.Context(), mirror))
	w.sources.reconcile()
	wantEqual(t, "conditions once made again", servingAsUpstream, shown(w.get()))
	w.sources.change(func(c *v1beta1.CatalogSource) { c.Spec.OLMv1 = false })
	w.sources.reconcile()
	if err := w.api.Get(t.Context(), types.NamespacedName{Name: w.catalog}, mirror); err == nil {
		t.Error("the ClusterCatalog is still there")
	}
	wantCondition(t, w.sources.source(), "ClusterCatalogSynced", "")
}

func TestMirrorNameTaken(t *testing.T) {
	w := newOLMWorld(t)
	w.share()
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.sources.create(ref, func(c *v1beta1.CatalogSource) { c.Spec.OLMv1 = true })
	w.create(ref, 1)
	c := w.sources.settle()
	wantCondition(t, c, "ClusterCatalogSynced", "False NameTaken: There is a ClusterCatalog "+w.catalog+
		" that catalogd did not make: delete it, or create this catalog under another name.")
}

// A ConfigMap has the access to the registries of all ClusterCatalogs.
func TestClusterCatalogRegistry(t *testing.T) {
	w := newOLMWorld(t)
	w.newNamespace()
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.registry.wantPassword("right")
	host, _, _ := strings.Cut(ref, "/")
	w.create(ref, 1)
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.Config.Namespace, Name: "catalogd-cluster-catalogs"}}
	put := func(content string) {
		configMap.Data = map[string]string{"registry.yaml": content}
		configMap.ResourceVersion = ""
		if err := w.api.Update(t.Context(), configMap); err != nil {
			must.Succeed(t, w.api.Create(t.Context(), configMap))
		}
	}
	for _, test := range []struct {
		name    string
		prepare func()
		want    string
	}{
		{
			"no ConfigMap", func() {},
			"Name a Secret with credentials for " + host + " in pullSecrets of registry.yaml in ConfigMap catalogd-cluster-catalogs.",
		},
		{
			"unknown field", func() { put("pullSecret: [{name: pull}]\n") },
			"registry.yaml of ConfigMap catalogd-cluster-catalogs is not in the form of spec.registry of a CatalogSource: ",
		},
		{
			"no Secret", func() { put("pullSecrets: [{name: pull}]\n") },
			"Secret pull of pullSecrets of registry.yaml in ConfigMap catalogd-cluster-catalogs not found",
		},
		{
			"Secret", func() { w.putSecret("pull", dockerConfig(host, "right")) },
			"Successfully unpacked and stored content from resolved source",
		},
	} {
		test.prepare()
		for range 2 {
			w.clock.SetTime(w.clock.Now().Add(time.Hour))
			w.reconcile()
		}
		got := meta.FindStatusCondition(w.get().Status.Conditions, "Progressing").Message
		if !strings.Contains(got, test.want) {
			t.Errorf("%s: Progressing is %q, want it to contain %q", test.name, got, test.want)
		}
	}
}
