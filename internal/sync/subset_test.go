package sync

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

func include(packages ...string) (rules []v1beta1.IncludeRule) {
	for _, name := range packages {
		rules = append(rules, v1beta1.IncludeRule{Package: name})
	}
	return rules
}

// packageNames returns the names of the published packages, sorted.
func (w *world) packageNames() (names []string) {
	for name := range w.packages() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func text(packages ...string) (out string) {
	for _, name := range packages {
		out += pkg{name: name}.json()
	}
	return out
}

func TestReconcileSubset(t *testing.T) {
	w := newWorld(t)
	ref, digest := w.registry.push("latest", catalogOf(pkg{name: "bar"}, pkg{name: "baz"}, pkg{name: "foo"}))
	w.create(ref, func(c *v1beta1.CatalogSource) { c.Spec.Include = include("foo", "bar", "none") })
	c := w.settle()
	if got, want := w.served(), text("bar", "foo"); got != want {
		t.Errorf("serves\n%s, want\n%s", got, want)
	}
	wantEqual(t, "packages", []string{"bar", "foo"}, w.packageNames())
	wantEqual(t, "what is left out", &v1beta1.CatalogSubset{
		LeftOut:  v1beta1.ContentCounts{Packages: 1, Channels: 1, Bundles: 1, Blobs: 3},
		NotFound: []string{`package "none"`}, NotFoundCount: 1,
	}, c.Status.Content.Subset)
	wantCondition(t, c, "Ready", `True Succeeded: 2 packages are published. The catalog does not have what spec.include or `+
		`spec.exclude names: package "none".`)
	first := c.Status.Poll.LastChangeTime

	// Other filters of the same image cost one HEAD request, and none while the registry does not answer.
	for _, step := range []struct {
		name   string
		change func(*v1beta1.CatalogSourceSpec)
		want   []string
		before func()
	}{
		{"another filter", func(s *v1beta1.CatalogSourceSpec) { s.Include = include("baz") }, []string{"baz"}, func() {}},
		{"all but one", func(s *v1beta1.CatalogSourceSpec) {
			s.Include, s.Exclude = nil, []v1beta1.ExcludeRule{{Package: "bar"}}
		}, []string{"baz", "foo"}, w.restart},
		{"no filter", func(s *v1beta1.CatalogSourceSpec) { s.Exclude = nil }, []string{"bar", "baz", "foo"}, func() {}},
		{"a filter again", func(s *v1beta1.CatalogSourceSpec) { s.Include = include("bar") }, []string{"bar"}, w.restart},
		{"while the registry fails", func(s *v1beta1.CatalogSourceSpec) { s.Include = include("foo") }, []string{"foo"}, func() {
			w.registry.refuse(everything)
		}},
	} {
		w.clock.SetTime(w.clock.Now().Add(time.Minute))
		step.before()
		w.registry.take()
		w.change(func(c *v1beta1.CatalogSource) { step.change(&c.Spec) })
		w.reconcile()
		if got, want := w.served(), text(step.want...); got != want {
			t.Errorf("%s: serves\n%s, want\n%s", step.name, got, want)
		}
		wantEqual(t, step.name+": packages", step.want, w.packageNames())
		if requests := w.registry.take(); slices.ContainsFunc(requests, func(r string) bool { return !strings.HasPrefix(r, "HEAD") }) {
			t.Errorf("%s: requests to the registry: %q", step.name, requests)
		}
		c := w.source()
		if c.Status.Digest != digest || c.Status.Poll.LastChangeTime.Equal(first) {
			t.Errorf("%s: status %+v", step.name, c.Status)
		}
		if filtered := len(c.Spec.Include)+len(c.Spec.Exclude) > 0; filtered != (c.Status.Content.Subset != nil) {
			t.Errorf("%s: subset %+v", step.name, c.Status.Content.Subset)
		}
	}
}

func TestReconcileSubsetOfNothing(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "bar"}, pkg{name: "foo"}))
	w.create(ref, func(c *v1beta1.CatalogSource) { c.Spec.Include = include("foo") })
	w.settle()
	w.change(func(c *v1beta1.CatalogSource) { c.Spec.Include = include("none") })
	for range 3 {
		w.reconcile()
		c := w.source()
		ready := meta.FindStatusCondition(c.Status.Conditions, "Ready")
		for _, want := range []string{`leaves no package of the catalog; not found: package "none"`, "Correct spec.include or spec.exclude", "still served"} {
			if ready.Reason != v1beta1.FilterFailedReason || !strings.Contains(ready.Message, want) {
				t.Errorf("Ready is %s, want %q", conditions(c)["Ready"], want)
			}
		}
		if w.served() != text("foo") || !slices.Equal(w.packageNames(), []string{"foo"}) {
			t.Errorf("serves %s and %v", w.served(), w.packageNames())
		}
	}
	w.restart()
	w.reconcile()
	if c := w.source(); w.served() != text("foo") || meta.FindStatusCondition(c.Status.Conditions, "Ready").Reason != v1beta1.FilterFailedReason {
		t.Errorf("after a restart: serves %s, %v", w.served(), conditions(c))
	}
	w.change(func(c *v1beta1.CatalogSource) { c.Spec.Include = include("bar") })
	w.reconcile()
	if requests := w.registry.take(); slices.ContainsFunc(requests, func(r string) bool { return !strings.HasPrefix(r, "HEAD") }) {
		t.Errorf("requests to the registry: %q", requests)
	}
	wantEqual(t, "packages", []string{"bar"}, w.packageNames())
}

// A subset of an image that another catalog unpacked is not pulled again, but the registry must permit it.
func TestReconcileSubsetOfSharedImage(t *testing.T) {
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(pkg{name: "bar"}, pkg{name: "foo"}))
	w.create(ref, func(c *v1beta1.CatalogSource) { c.Spec.Include = include("foo") })
	w.settle()
	other := w.another()
	other.create(ref, func(c *v1beta1.CatalogSource) { c.Spec.Include = include("bar") })
	w.registry.refuse(func(r *http.Request) bool { return r.Method == http.MethodGet && r.URL.Path != "/v2/" })
	other.reconcile()
	other.reconcile()
	if requests := w.registry.take(); slices.ContainsFunc(requests, func(r string) bool { return strings.Contains(r, "blobs") }) {
		t.Errorf("requests to the registry: %q", requests)
	}
	if got := other.served(); got != text("bar") {
		t.Errorf("serves %s", got)
	}
	if got := w.served(); got != text("foo") {
		t.Errorf("the first serves %s", got)
	}
}
