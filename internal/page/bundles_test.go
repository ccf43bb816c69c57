package page

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/channel/channeltest"
)

func TestCompareValues(t *testing.T) {
	long := strings.Repeat("é", 200)
	got := compareValues("Annotations",
		values{"same": "1", "changed": "1", "removed": "1", "emptied": "1", "long": long, "long removed": long},
		values{"same": "1", "changed": "2", "added": "1", "emptied": "", "long": long + "x"})
	want := part{Title: "Annotations", Same: 1, Rows: []differing{
		{"added", "", "1", "Added"},
		{"changed", "1", "2", "Changed"},
		{"emptied", "1", "(empty)", "Changed"},
		{"long", "200 characters", "201 characters", "Changed"},
		{"long removed", "200 characters", "", "Removed"},
		{"removed", "1", "", "Removed"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("part (-want +got):\n%s", diff)
	}
	many := values{}
	for i := range 2 * shownRows {
		many.add(strings.Repeat("x", i), "1")
	}
	if got := compareValues("Images", nil, many); len(got.Rows) != shownRows || got.More != shownRows {
		t.Errorf("%d rows and %d more, want %d and %[3]d", len(got.Rows), got.More, shownRows)
	}
}

func TestSortVersions(t *testing.T) {
	got := sortVersions([]versionKey{
		{"", "1.9.0", "a"}, {"", "1.10.0", "b"}, {"", "1.9.0", "a"}, {"", "2.0.0", "c"}, {"", "2.0.0", "d"}, {"", "latest", "e"},
	})
	want := []versionKey{
		{"c", "2.0.0", "c"}, {"d", "2.0.0", "d"}, {"1.10.0", "1.10.0", "b"}, {"1.9.0", "1.9.0", "a"}, {"e", "latest", "e"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

// newCompared returns a catalog with package foo in versions 1.0.0, 1.1.0 and 1.2.0. The last two differ in everything that a
// comparison shows.
func newCompared(t *testing.T) content {
	t.Helper()
	metadata := func(o object) object { return object{"type": "olm.csv.metadata", "value": o} }
	mode := func(name string, supported bool) object { return object{"type": name, "supported": supported} }
	api := func(kind, version string) object {
		return object{"type": "olm.gvk", "value": object{"group": "example.com", "kind": kind, "version": version}}
	}
	needs := func(name, versions string) object {
		return object{"type": "olm.package.required", "value": object{"packageName": name, "versionRange": versions}}
	}
	c := newContent(t)
	c.commit(t, "a", "1", packageFile(t, map[string][]object{
		"foo.v1.1.0": {
			api("Foo", "v1alpha1"), api("Bar", "v1"), api("Same", "v1"), needs("baz", ">=1.0.0"), metadata(object{
				"minKubeVersion": "1.20.0", "description": "old", "installModes": []object{mode("AllNamespaces", false), mode("OwnNamespace", true)},
				"annotations": object{"capabilities": "Basic Install", "gone": "1"},
			}),
		},
		"foo.v1.2.0": {
			api("Foo", "v1alpha1"), api("Foo", "v1"), api("Baz", "v1"), api("Same", "v1"), needs("baz", ">=2.0.0"), metadata(object{
				"minKubeVersion": "1.25.0", "description": "new", "installModes": []object{mode("AllNamespaces", true), mode("OwnNamespace", true)},
				"annotations": object{"capabilities": "Deep Insights"},
			}),
		},
	}, channeltest.Parse("1.0.0", "1.1.0 replaces 1.0.0", "1.2.0 replaces 1.1.0")))
	return c
}

func TestBundleComparison(t *testing.T) {
	want := []string{
		"Provided APIs",
		"Bar.example.com|Removed|v1|–absent",
		"Baz.example.com|Added|–absent|v1",
		"Foo.example.com|Changed|v1alpha1|v1 v1alpha1",
		"Required packages",
		"baz|Changed|>=1.0.0|>=2.0.0",
		"Images",
		"(the bundle)|Changed|quay.io/example/foo:v1.1.0|quay.io/example/foo:v1.2.0",
		"Install modes",
		"AllNamespaces|Changed|not supported|supported",
		"Channels and requirements",
		"Minimum Kubernetes|Changed|1.20.0|1.25.0",
		"Texts and links",
		"Description|Changed|old|new",
		"Annotations",
		"capabilities|Changed|Basic Install|Deep Insights",
		"gone|Removed|1|–absent",
	}
	c := newCompared(t)
	for _, query := range []string{"", "?a=1.1.0&b=1.2.0", "?a=foo.v1.1.0&b=foo.v1.2.0", "?a=v1.1.0"} {
		page := c.open(t, "/catalogs/a/packages/foo/compare"+query)
		var got []string
		for n := range page.all("main", "")[0].Descendants() {
			switch e := (document{n}); {
			case n.Data == "h2":
				got = append(got, e.text())
			case n.Data == "tr" && n.Parent.Data == "tbody":
				var cells []string
				for cell := range n.ChildNodes() {
					cells = append(cells, document{cell}.text())
				}
				got = append(got, strings.Join(cells, "|"))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("comparison with query %q (-want +got):\n%s", query, diff)
		}
	}
}

func TestBundleComparisonOfTheSame(t *testing.T) {
	c := newCompared(t)
	if text := c.open(t, "/catalogs/a/packages/foo/compare?a=1.1.0&b=1.1.0").text(); !strings.Contains(text, "Both are the same version.") {
		t.Errorf("the page does not say that the versions are the same:\n%s", text)
	}
	if status, body := c.get(t, "/catalogs/a/packages/foo/compare?a=3.0.0"); status != http.StatusNotFound || !strings.Contains(body, "3.0.0") {
		t.Errorf("an unknown version: status %d, want 404", status)
	}
}

func TestBundleComparisonOfPermissions(t *testing.T) {
	page := newCompared(t).open(t, "/catalogs/a/packages/foo/compare?permissions=1")
	if text := page.all("main", "")[0].text(); !strings.Contains(text, "Permissions cannot be compared: the content of this bundle is in its image") {
		t.Errorf("the page does not say why permissions are missing:\n%s", text)
	}
	var p permissions
	p.ServiceAccounts = append(p.ServiceAccounts, struct {
		Name   string  `json:"name"`
		Grants []grant `json:"grants"`
	}{"manager", []grant{
		{Scope: "Cluster", Rules: []rule{{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"secrets"}}}},
		{Scope: "Namespace", Rules: []rule{{Verbs: []string{"*"}, APIGroups: []string{"apps"}, Resources: []string{"*"}}}},
	}})
	want := values{
		"manager: secrets, in the whole cluster": "get, list", "manager: all resources of apps, in its namespaces": "all verbs",
	}
	if diff := cmp.Diff(want, rightsOf(p)); diff != "" {
		t.Errorf("permissions (-want +got):\n%s", diff)
	}
}

func TestHostileBundlesAreText(t *testing.T) {
	b := &bundle{Name: hostile, Image: hostile, Provides: []gvk{{hostile, hostile, hostile}}, CSV: &csv{Description: hostile, MinKubeVersion: hostile}}
	view := bundleComparison{At: place{"../", hostile, hostile, hostile}, A: versionKey{hostile, hostile, "a"}, B: versionKey{hostile, hostile, "b"}}
	view.Versions = []versionKey{view.A, view.B}
	view.SwapURL, view.NoRights = "?", hostile
	for _, p := range compareBundles(&bundle{}, b) {
		view.add(p)
	}
	page := renderView(t, "bundles.html", view)
	checkInert(t, page)
	if n := len(slices.Concat(page.all("td", "text"), page.all("th", "name"))); n < 10 {
		t.Errorf("the comparison has %d cells", n)
	}
}

func TestCreatedIsATime(t *testing.T) {
	for text, want := range map[string]string{"2023-02-03T04:05:06+01:00": "3 Feb 2023 03:05 UTC", "2023-02-03": "", "": ""} {
		c := csv{Annotations: []struct{ Key, Value string }{{"createdAt", text}}}
		got := ""
		if created := c.Created(); !created.IsZero() {
			got = created.UTC().Format("2 Jan 2006 15:04 UTC")
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
