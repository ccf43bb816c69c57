package sync

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// TestEvents checks the events of each pass over a catalog that fails and recovers.
func TestEvents(t *testing.T) {
	w := newWorld(t)
	ref, first := w.registry.push("latest", catalogOf(pkg{name: "foo"}))
	w.create(ref, nil)
	serving := func(digest, packages, bundles string) string {
		return fmt.Sprintf("Normal Unpacked Serving %s at %s: %s, %s.", ref, digest, packages, bundles)
	}
	recovered := "Normal Recovered Polling and unpacking " + ref + " succeeds again."
	var second, third, fourth, broken string
	for _, step := range []struct {
		name string
		do   func()
		want func() []string // a "…" stands for the rest
	}{
		{"announced", func() {}, func() []string { return nil }},
		{"unpacked", func() {}, func() []string { return []string{serving(first, "1 package", "1 bundle")} }},
		{"unchanged", func() {}, func() []string { return nil }},
		{"registry down", func() { w.registry.refuse(everything) },
			func() []string { return []string{"Warning Failed Finding the digest of " + ref + ": registry …"} }},
		{"still down", func() {}, func() []string { return nil }},
		{"up again", func() { w.registry.refuse(nil) }, func() []string { return []string{recovered} }},
		{"broken image", func() { _, broken = w.registry.push("latest", brokenCatalog()) },
			func() []string {
				return []string{"Warning Failed Cannot unpack " + ref + " at " + broken[:19] + ": foo/catalog.json:1: …"}
			}},
		{"still broken", func() {}, func() []string { return nil }},
		{
			"down while broken",
			func() { w.registry.refuse(everything) },
			func() []string { return []string{"Warning Failed Finding the digest of …"} },
		},
		{"suspended while broken", func() { w.change(func(c *v1beta1.CatalogSource) { c.Spec.Suspend = true }) }, func() []string { return nil }},
		{"resumed while broken", func() { w.change(func(c *v1beta1.CatalogSource) { c.Spec.Suspend = false }) },
			func() []string { return []string{"Warning Failed Finding the digest of …"} }},
		{"good again, with an invalid package", func() {
			w.registry.refuse(nil)
			_, second = w.registry.push("latest", catalogOf(pkg{name: "foo"}, pkg{name: "bad", head: "absent"}))
		}, func() []string {
			return []string{
				serving(second, "1 package", "2 bundles"), recovered,
				`Warning InvalidPackages 1 package is invalid and not published: "bad" (…`,
			}
		}},
		{"unchanged with an invalid package", func() {}, func() []string { return nil }},
		{"another package changes", func() {
			_, third = w.registry.push("latest", catalogOf(pkg{name: "foo", version: "2.0.0"}, pkg{name: "bad", head: "absent"}))
		}, func() []string { return []string{serving(third, "1 package", "2 bundles")} }},
		{"the invalid package is repaired", func() {
			_, fourth = w.registry.push("latest", catalogOf(pkg{name: "foo", version: "2.0.0"}, pkg{name: "bad"}))
		}, func() []string { return []string{serving(fourth, "2 packages", "2 bundles")} }},
	} {
		w.clock.SetTime(w.clock.Now().Add(time.Hour))
		step.do()
		w.reconcile()
		got, want := w.events(), step.want()
		if !slices.EqualFunc(got, want, matches) {
			t.Errorf("%s: events are\n %q, want\n %q", step.name, got, want)
		}
	}
}

// matches compares an event with the wanted text, which may end with "…" for any text.
func matches(got, want string) bool {
	head, open := strings.CutSuffix(want, "…")
	return got == want || (open && strings.HasPrefix(got, head))
}

// The API server refuses notes of more than 1 kB.
func TestEventsAreShort(t *testing.T) {
	var packages []pkg
	for i := range 30 {
		packages = append(packages, pkg{name: fmt.Sprintf("bad-%02d", i), head: strings.Repeat("x", 500)})
	}
	w := newWorld(t)
	ref, _ := w.registry.push("latest", catalogOf(packages...))
	w.create(ref, nil)
	w.reconcile()
	w.reconcile()
	found := false
	for _, e := range w.events() {
		note := strings.SplitN(e, " ", 3)[2]
		if len(note) > 1024 {
			t.Errorf("note of %d bytes: %s", len(note), note)
		}
		if strings.Contains(e, "30 packages are invalid and not published") &&
			strings.Contains(e, "and others") {
			found = true
		}
	}
	if !found {
		t.Error("no event counts the invalid packages and says where they stand")
	}
	c := w.source()
	if c.Status.Content.InvalidPackageCount != 30 || len(c.Status.Content.InvalidPackages) != 20 ||
		c.Status.Content.InvalidPackages[0].Name != "bad-00" {
		t.Errorf("status counts %d and lists %d", c.Status.Content.InvalidPackageCount, len(c.Status.Content.InvalidPackages))
	}
	wantCondition(t, c, "PackagesSynced", "True InvalidPackages: 0 packages are published, 30 are left out: \"bad-00\" (package "+
		"\"bad-00\", bundle \"bad-00.v1.0.0\" not found in any channel entries) and others. See status.content.invalidPackages.")
}
