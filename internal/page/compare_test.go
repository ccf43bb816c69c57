package page

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/channel/channeltest"
	"github.com/operator-catalogs/catalogd/internal/store"
	subsets "github.com/operator-catalogs/catalogd/internal/subset"
)

func TestComparisonOfVersions(t *testing.T) {
	c := newContent(t)
	c.commit(t, "a", "1", packageFile(t, nil, channeltest.Parse("1.0.0", "1.1.0 replaces 1.0.0")))
	old := channeltest.Parse("1.0.0")
	old.Name = "old"
	c.commit(t, "a", "2", packageFile(t, nil, channeltest.Parse("1.0.0", "1.1.0 replaces 1.0.0 deprecated broken", "1.2.0 replaces 1.1.0"), old))
	bar := channeltest.Parse("3.0.0")
	bar.Package = "bar"
	c.commit(t, "b", "3", packageFile(t, nil, bar))
	one, two := digestOf("1"), digestOf("2")
	foo := "foo|Changed|channel old: added, head foo.v1.0.0 channel stable: changed, head foo.v1.1.0 → foo.v1.2.0, entries changed: 1 " +
		"1 version added: 1.2.0 deprecation of bundle foo.v1.1.0: added"
	for query, want := range map[string][]string{
		"from=a@" + one + "&to=a":                          {foo},
		"from=a&from-version=" + one + "&to=a@" + two:      {foo},
		"from=a@" + one + "&to=a&change=added":             nil,
		"from=b&to=a&change=removed":                       {"bar|Removed|"},
		"from=a&to=b&change=added":                         {"bar|Added|channel stable: added, head foo.v3.0.0 1 version added: 3.0.0"},
		"from=a@" + one + "&to=a@" + one + "&change=added": nil,
	} {
		page := c.open(t, "/compare?"+query)
		var got []string
		for _, row := range page.all("tr", "")[min(1, len(page.all("tr", ""))):] {
			var cells []string
			for cell := range row.ChildNodes() {
				cells = append(cells, document{cell}.text())
			}
			got = append(got, strings.Join(cells, "|"))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("rows of %s (-want +got):\n%s", query, diff)
		}
	}
	filters := c.open(t, "/compare?from=a&to=b&change=added").all("nav", "channels")[0]
	if got := filters.text(); got != "2 all 1 added 0 changed 1 removed" {
		t.Errorf("filters: %q", got)
	}
}

// A catalog with a subset says so, and tells the versions that its URLs accept.
func TestSubsetIsShown(t *testing.T) {
	c := newContent(t)
	bar := channeltest.Parse("3.0.0")
	bar.Package = "bar"
	dir := t.TempDir()
	for name, file := range map[string][]byte{"foo.json": packageFile(t, nil, channeltest.Parse("1.0.0")), "bar.json": packageFile(t, nil, bar)} {
		if err := os.WriteFile(filepath.Join(dir, name), file, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	commitVersion(t, c.store, "a", store.Source{Digest: digestOf("1"), Filter: subsets.Filter{Exclude: []subsets.Exclude{{Package: "bar"}}}}, dir)
	if got := c.open(t, "/catalogs/a").text(); !strings.Contains(got, "SubsetThe CatalogSource leaves out 1 package, 1 channel and 1 bundle") {
		t.Errorf("the catalog is %q", got)
	}
	for path, want := range map[string]string{
		"/catalogs/a/packages/bar":                                        "the catalog serves only a subset",
		"/compare?to=a&from=a@" + digestOf("1"):                           "the version has 8 more digits; the current version is at https://catalogd.example/catalogs/a/digests/" + digestOf("1") + "-",
		"/catalogs/a/digests/" + digestOf("1") + "-00000000/packages/foo": "current version is at",
	} {
		if _, body := c.get(t, path); !strings.Contains(body, want) {
			t.Errorf("%s lacks %q: %s", path, want, body)
		}
	}
}

func TestComparisonExplainsProblems(t *testing.T) {
	c := newFoo(t)
	for query, want := range map[string]string{
		"":                "Choose two catalogs",
		"?to=a":           "Choose two catalogs",
		"?from=a&to=a":    "Both sides are the same.",
		"?from=a&to=b":    `catalog "b" not found`,
		"?from=a@1&to=a":  `invalid version "1"`,
		"?from=a&to=a%22": `invalid catalog name`,
	} {
		status, body := c.get(t, "/compare"+query)
		if page := c.open(t, "/compare"+query); status != http.StatusOK || !strings.Contains(page.text(), want) {
			t.Errorf("GET /compare%s: the page lacks %q:\n%s", query, want, body)
		}
	}
}

func TestLargeComparisonIsBounded(t *testing.T) {
	var all []packageDifference
	for i := range 3 * shownPackages {
		p := packageDifference{Name: fmt.Sprintf("p%d", i), Change: "changed"}
		for k := range 10 * shownChanges {
			p.Bundles = append(p.Bundles, struct{ Name, Version, Change string }{fmt.Sprint(k), fmt.Sprint(k), "added"})
			p.Deprecations = append(p.Deprecations, struct{ Kind, Name, Change, Message string }{"bundle", fmt.Sprint(k), "added", ""})
		}
		all = append(all, p)
	}
	var c comparison
	c.addPackages(nil, all)
	if len(c.Packages) != shownPackages || c.More != 2*shownPackages {
		t.Errorf("%d packages and %d more, want %d and %d", len(c.Packages), c.More, shownPackages, 2*shownPackages)
	}
	if n := len(c.Packages[0].Details); n != shownChanges+2 {
		t.Errorf("%d details, want %d", n, shownChanges+2)
	}
}

func TestHostileComparisonIsText(t *testing.T) {
	view := comparison{Root: "../", Compared: true, From: side{hostile, hostile, hostile}, To: side{hostile, "", hostile}, Problem: hostile}
	view.Catalogs = []string{hostile}
	view.SwapURL = stateURL(map[string][]string{"from": {hostile}})
	p := packageDifference{Name: hostile, Change: "changed", Note: hostile, DefaultChannel: &fromTo{hostile, hostile}}
	p.Bundles = append(p.Bundles, struct{ Name, Version, Change string }{hostile, hostile, "added"})
	view.addPackages(map[string][]string{"from": {hostile}}, []packageDifference{p})
	checkInert(t, renderView(t, "compare.html", view))
}
