package sync

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// published returns a world whose catalog has published these packages.
func published(t *testing.T, packages ...pkg) *world {
	t.Helper()
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(packages...))
	w.create(ref, nil)
	w.settle()
	return w
}

// update changes the packages of the image and of the store without publishing them.
func (w *world) update(packages ...pkg) *trial {
	w.t.Helper()
	w.registry.push("latest", catalogOf(packages...))
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	rec := w.begin()
	rec.resolve()
	rec.unpack()
	must.Succeed(w.t, rec.f.fault())
	return rec
}

func TestPublish(t *testing.T) {
	foo, bar := pkg{name: "foo"}, pkg{name: "bar"}
	for _, test := range []struct {
		name      string
		after     []pkg
		writes    []string // CATALOG stands for the catalog's name
		published int
		invalid   map[string]string
	}{
		{name: "unchanged", after: []pkg{foo, bar}, published: 2},
		{
			name: "one changed", after: []pkg{foo, {name: "bar", version: "1.1.0"}},
			writes: []string{"PUT operatorpackages/bar.CATALOG"}, published: 2,
		},
		{name: "one new", after: []pkg{foo, bar, {name: "new"}}, writes: []string{"POST operatorpackages"}, published: 3},
		{name: "one gone", after: []pkg{foo}, writes: []string{"DELETE operatorpackages/bar.CATALOG"}, published: 1},
		{
			name: "one invalid", after: []pkg{foo, {name: "bar", head: "absent"}},
			writes: []string{"DELETE operatorpackages/bar.CATALOG"}, published: 1,
			invalid: map[string]string{"bar": `bundle "bar.v1.0.0" not found in any channel entries`},
		},
		{
			name: "one that cannot be shown", after: []pkg{foo, {name: "bar", noCSV: true}},
			writes: []string{"DELETE operatorpackages/bar.CATALOG"}, published: 1,
			invalid: map[string]string{"bar": "no channel has a head with a usable CSV: bundle bar.v1.0.0 has neither an olm.csv.metadata " +
				"property " +
				"nor an olm.bundle.object with a ClusterServiceVersion"},
		},
		{
			name: "a new one that cannot be shown", after: []pkg{foo, bar, {name: "new", noCSV: true}}, published: 2,
			invalid: map[string]string{"new": "no channel has a head with a usable CSV: bundle new.v1.0.0 has neither an olm.csv.metadata " +
				"property " +
				"nor an olm.bundle.object with a ClusterServiceVersion"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := published(t, foo, bar)
			before := w.packages()
			rec := w.update(test.after...)
			rec.publish()
			var writes []string
			for _, line := range test.writes {
				writes = append(writes, strings.ReplaceAll(line, "CATALOG", w.catalog))
			}
			wantEqual(t, "writes", writes, w.requests.take())
			must.Succeed(t, rec.f.packages.Err)
			if rec.f.packages.Published != test.published || len(w.packages()) != test.published {
				t.Errorf("counted %d packages, there are %v, want %d", rec.f.packages.Published, w.packages(), test.published)
			}
			if before["foo"] != w.packages()["foo"] {
				t.Error("the package that did not change was written")
			}
			invalid := map[string]string{}
			for _, p := range rec.f.packages.Invalid {
				invalid[p.Name] = p.Reason
			}
			for name, reason := range test.invalid {
				if !strings.Contains(invalid[name], reason) {
					t.Errorf("%s is invalid as %q, want %q", name, invalid[name], reason)
				}
			}
			if len(invalid) != len(test.invalid) {
				t.Errorf("invalid packages are %v, want %v", invalid, test.invalid)
			}
			rec.publish()
			wantEqual(t, "writes of a second time", nil, w.requests.take())
		})
	}
}

// Every package has the values of the CatalogSource.
func TestPublishChangeOfCatalogSource(t *testing.T) {
	for name, change := range map[string]func(*v1beta1.CatalogSource){
		"displayName": func(c *v1beta1.CatalogSource) { c.Spec.DisplayName = "Shown" },
		"publisher":   func(c *v1beta1.CatalogSource) { c.Spec.Publisher = "Somebody" },
		"priority":    func(c *v1beta1.CatalogSource) { c.Spec.Priority = 7 },
		"labels":      func(c *v1beta1.CatalogSource) { c.Labels = map[string]string{"team": "a"} },
	} {
		t.Run(name, func(t *testing.T) {
			w := published(t, pkg{name: "foo"})
			w.change(change)
			w.reconcile()
			p := w.getPackage("foo")
			got := []any{p.Status.CatalogSourceDisplayName, p.Status.CatalogSourcePublisher, p.Spec.Priority, p.Labels["team"]}
			want := map[string][]any{
				"displayName": {"Shown", "", int32(0), ""},
				"publisher":   {"", "Somebody", int32(0), ""},
				"priority":    {"", "", int32(7), ""},
				"labels":      {"", "", int32(0), "a"},
			}[name]
			wantEqual(t, "what the package says of its catalog", want, got)
		})
	}
	w := published(t, pkg{name: "foo"})
	w.change(func(c *v1beta1.CatalogSource) { c.Spec.Description = "For experiments." })
	w.requests.take()
	w.reconcile()
	wantEqual(t, "writes for a field that packages do not show", []string{"PATCH catalogsources/" + w.catalog + "/status"}, w.requests.take())
}

// Changed and deleted OperatorPackages are restored.
func TestPublishRepairs(t *testing.T) {
	for name, spoil := range map[string]func(*world, *v1beta1.OperatorPackage) error{
		"hash": func(w *world, p *v1beta1.OperatorPackage) error {
			p.Annotations[v1beta1.ContentHashAnnotation], p.Status.PackageName = "other", "other"
			return w.api.Update(w.t.Context(), p)
		},
		"content": func(w *world, p *v1beta1.OperatorPackage) error {
			p.Spec.Priority, p.Status.Provider.Name = 99, "Evil"
			return w.api.Update(w.t.Context(), p)
		},
		"annotations gone": func(w *world, p *v1beta1.OperatorPackage) error {
			p.Annotations = nil
			return w.api.Update(w.t.Context(), p)
		},
		"owner gone": func(w *world, p *v1beta1.OperatorPackage) error {
			p.OwnerReferences = nil
			return w.api.Update(w.t.Context(), p)
		},
		"owner of an earlier life": func(w *world, p *v1beta1.OperatorPackage) error {
			p.OwnerReferences[0].UID = "7b0ed5f4-4c5c-4a5a-9d6d-000000000000"
			return w.api.Update(w.t.Context(), p)
		},
		"label gone": func(w *world, p *v1beta1.OperatorPackage) error { // and so not in the list of packages
			delete(p.Labels, v1beta1.CatalogLabel)
			return w.api.Update(w.t.Context(), p)
		},
		"deleted": func(w *world, p *v1beta1.OperatorPackage) error { return w.api.Delete(w.t.Context(), p) },
	} {
		t.Run(name, func(t *testing.T) {
			w := published(t, pkg{name: "bar"}, pkg{name: "foo"})
			want, bar := w.getPackage("foo"), w.packages()["bar"]
			must.Succeed(t, spoil(w, w.getPackage("foo")))
			w.reconcile()
			got := w.getPackage("foo")
			if w.packages()["bar"] != bar {
				t.Error("another package was written")
			}
			for _, p := range []*v1beta1.OperatorPackage{want, got} {
				if p.Annotations[v1beta1.ContentGenerationAnnotation] != strconv.FormatInt(p.Generation, 10) {
					t.Errorf("generation %d, annotations %v", p.Generation, p.Annotations)
				}
				delete(p.Annotations, v1beta1.ContentGenerationAnnotation)
				p.ResourceVersion, p.UID, p.Generation, p.ManagedFields, p.CreationTimestamp = "", "", 0, nil, metav1.Time{}
			}
			wantEqual(t, "the package", want, got)
			wantCondition(t, w.source(), "PackagesSynced", "True Synced: 2 packages are published.")
		})
	}
}

// A stale cache costs requests, but nothing is lost or written twice.
func TestPublishWithStaleCache(t *testing.T) {
	for _, test := range []struct {
		name   string
		then   []pkg // when the cache was filled; nil: before anything was published
		now    []pkg // at the API server
		want   []pkg // in the store
		change bool  // of what is at the API server
	}{
		{name: "objects it does not know", now: []pkg{{name: "foo"}}, want: []pkg{{name: "foo"}}},
		{name: "objects it does not know, to be changed", now: []pkg{{name: "foo"}}, want: []pkg{{name: "foo", version: "2.0.0"}}, change: true},
		{
			name: "old versions of objects", then: []pkg{{name: "foo"}},
			now: []pkg{{name: "foo", version: "2.0.0"}}, want: []pkg{{name: "foo", version: "3.0.0"}}, change: true,
		},
		{
			name: "old versions of objects that are right",
			then: []pkg{{name: "foo"}},
			now:  []pkg{{name: "foo", version: "2.0.0"}},
			want: []pkg{{name: "foo", version: "2.0.0"}},
		},
		{
			name:   "objects that are gone",
			then:   []pkg{{name: "bar"}, {name: "foo"}},
			now:    []pkg{{name: "bar"}},
			want:   []pkg{{name: "bar"}, {name: "foo", version: "2.0.0"}},
			change: true,
		},
		{
			name: "objects that are gone and to go",
			then: []pkg{{name: "bar"}, {name: "foo"}},
			now:  []pkg{{name: "bar"}},
			want: []pkg{{name: "bar"}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var w *world
			stale := &metav1.PartialObjectMetadataList{}
			stale.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("OperatorPackageList"))
			switch {
			case test.then == nil:
				w = published(t, test.now...)
			default:
				w = published(t, test.then...)
				must.Succeed(t, w.api.List(t.Context(), stale, client.MatchingLabels{v1beta1.CatalogLabel: w.catalog}))
				w.update(test.now...).publish()
			}
			before := w.packages()
			rec := w.update(test.want...)
			w.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
				List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
					stale.DeepCopyInto(list.(*metav1.PartialObjectMetadataList))
					return nil
				},
			})
			rec.publish()
			must.Succeed(t, rec.f.packages.Err)
			after := w.packages()
			if changed := fmt.Sprint(before) != fmt.Sprint(after); changed != test.change {
				t.Errorf("resource versions were %v, are %v", before, after)
			}
			if rec.f.packages.Published != len(test.want) || len(after) != len(test.want) {
				t.Errorf("counted %d packages, there are %v, want %d", rec.f.packages.Published, after, len(test.want))
			}
			for _, p := range test.want {
				version := p.version
				if version == "" {
					version = "1.0.0"
				}
				if got := w.getPackage(p.name).Status.Summary.Version; got != version {
					t.Errorf("%s has version %s, want %s", p.name, got, version)
				}
			}
		})
	}
}

// A package that the API server refuses does not affect others.
func TestPublishFailure(t *testing.T) {
	w := newWorld(t)
	names := []string{"a1", "a2", "a3", "a4", "a5", "good"}
	var packages []pkg
	for _, n := range names {
		packages = append(packages, pkg{name: n})
	}
	ref, _ := w.registry.push("latest", catalogOf(packages...))
	w.create(ref, nil)
	w.reconcile()
	heal := w.requests.failing(func(r *http.Request) bool {
		return r.Method == http.MethodPost && strings.HasPrefix(packageOf(t, r), "a")
	})
	result, err := w.tryReconcile()
	if err == nil || result.RequeueAfter != 0 {
		t.Errorf("got %+v, %v, want an error, for the controller to come again", result, err)
	}
	name := func(p string) string {
		return "OperatorPackage " + p + "." + w.catalog + ": the disk of etcd is full; "
	}
	c := w.source()
	wantCondition(t, c, "PackagesSynced",
		"False SyncFailed: Writing "+name("a1")+"writing "+name("a2")+"writing "+name("a3")+"and 2 more OperatorPackages.")
	if got, want := conditions(c)["Ready"], conditions(c)["PackagesSynced"]; got != want {
		t.Errorf("Ready is %s, want %s", got, want)
	}
	if c.Status.Content.Packages != 1 || len(w.packages()) != 1 || w.packages()["good"] == "" {
		t.Errorf("counted %d, there are %v, want the good one", c.Status.Content.Packages, w.packages())
	}
	good := w.packages()["good"]
	heal()
	w.registry.take()
	w.reconcile()
	wantEqual(t, "requests to the registry of a pass for the packages", nil, w.registry.take())
	wantCondition(t, w.source(), "Ready", "True Succeeded: 6 packages are published.")
	if w.packages()["good"] != good {
		t.Error("the good package was written again")
	}
}

// packageOf returns the package name in a request that creates an OperatorPackage.
func packageOf(t *testing.T, r *http.Request) string {
	t.Helper()
	body, err := r.GetBody()
	must.Succeed(t, err)
	b, err := io.ReadAll(body)
	must.Succeed(t, err)
	var object metav1.PartialObjectMetadata
	must.Succeed(t, json.Unmarshal(b, &object))
	return object.Name
}

// A catalog without content keeps its packages.
func TestPublishNothingServed(t *testing.T) {
	w := published(t, pkg{name: "foo"})
	w.dir = t.TempDir()
	w.restart()
	rec := w.begin()
	rec.publish()
	wantEqual(t, "writes", nil, w.requests.take())
}

// Catalogs with packages of the same names do not affect each other.
func TestPublishTwoCatalogs(t *testing.T) {
	a, b := published(t, pkg{name: "foo"}), published(t, pkg{name: "foo", version: "2.0.0"})
	a.update(pkg{name: "bar"}).publish()
	for w, want := range map[*world][]string{a: {"bar"}, b: {"foo"}} {
		var got []string
		for name := range w.packages() {
			got = append(got, name)
		}
		slices.Sort(got)
		wantEqual(t, "packages of "+w.catalog, want, got)
	}
}

// A package that the API server never accepts is reported as invalid and its object deleted. Others are not affected.
func TestPublishTooLarge(t *testing.T) {
	for name, size := range map[string]int{"for a request": 4 << 20, "for the API server's client of etcd": 2 << 20, "for etcd": 1_800_000} {
		t.Run(name, func(t *testing.T) {
			w := published(t, pkg{name: "bar"}, pkg{name: "foo"})
			rec := w.update(pkg{name: "bar", version: "2.0.0"}, pkg{name: "foo", description: strings.Repeat("a", size)})
			rec.publish()
			must.Succeed(t, rec.f.packages.Err)
			if len(rec.f.packages.Invalid) != 1 ||
				rec.f.packages.Invalid[0].Name != "foo" || !strings.Contains(rec.f.packages.Invalid[0].Reason, "rejects its OperatorPackage") {
				t.Errorf("invalid packages are %v, want foo, as it is too large", rec.f.packages.Invalid)
			}
			if got := slices.Collect(maps.Keys(w.packages())); len(got) != 1 ||
				got[0] != "bar" || w.getPackage("bar").Status.Summary.Version != "2.0.0" {
				t.Errorf("packages are %v, want bar in its new version", got)
			}
		})
	}
}
