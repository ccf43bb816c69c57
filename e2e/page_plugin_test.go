package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/operator-catalogs/catalogd/internal/testing/browser"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// TestPageOfDirectory opens pages of kubectl catalog ui for a directory: links work below the secret path, and the feed is live.
func TestPageOfDirectory(t *testing.T) {
	tab := browser.Start(t).Tab(t, browser.Options{})
	w := &world{} // no cluster
	p, err := w.servePage(t, "ui", sampleCatalog, "--no-browser", "--kubeconfig", "/nonexistent")
	must.Succeed(t, err)
	tab.Open(p.url)
	for _, link := range []string{
		"main a[href$='packages/skupper-operator']", ".tabs a[href*=versions]", "main a[href*='channels/']", "nav a[href$=changes]", "nav a[href$=graphql]",
		"nav a[href$=help]", "nav a[href$=catalogs]",
	} {
		before := tab.URL()
		tab.Click(link)
		tab.Wait("location.href !== '" + before + "' && document.readyState === 'complete'")
		if !strings.HasPrefix(tab.URL(), p.url) {
			t.Errorf("%s leads from %s to %s", link, before, tab.URL())
		}
		if strings.HasSuffix(tab.URL(), "changes") {
			tab.Wait("document.querySelector('#state').textContent.startsWith('Live')")
		}
		for _, fault := range slices.Concat(tab.Axe(), tab.Sideways(), tab.Reports()) {
			t.Errorf("%s: %s", tab.URL(), fault)
		}
	}
}

// TestPageOfManyPackages shows a catalog of 50,000 packages.
func TestPageOfManyPackages(t *testing.T) {
	chromium := browser.Start(t)
	file, err := os.Create(filepath.Join(t.TempDir(), "catalog.json"))
	must.Succeed(t, err)
	for i := range 50_000 {
		_, err := file.WriteString(smallPackage(fmt.Sprintf("package-%05d", i), fmt.Sprintf("Provider %d", i%500)))
		must.Succeed(t, err)
	}
	must.Succeed(t, file.Close())
	w := &world{} // no cluster
	start := time.Now()
	p, err := w.servePage(t, "ui", file.Name(), "--no-browser", "--kubeconfig", "/nonexistent")
	must.Succeed(t, err)
	t.Logf("the catalog was read in %s", time.Since(start).Round(time.Millisecond))
	tab := chromium.Tab(t, browser.Options{})
	tab.Open(p.url)
	wantText(t, tab, "50000 packages")
	for _, selector := range []string{"nav.pages a[rel=next]", "nav[aria-label=Filters] a", "main .card a", ".tabs a[href*=versions]", "main a[href*='channels/']"} {
		before := tab.URL()
		tab.Click(selector)
		tab.Wait("location.href !== '" + before + "' && document.readyState === 'complete'")
		for _, fault := range slices.Concat(tab.Axe(), tab.Sideways(), tab.Reports()) {
			t.Errorf("%s: %s", tab.URL(), fault)
		}
	}
	for _, path := range []string{"", "?page=834", "?q=package&sort=provider", "catalogs", "changes"} {
		start := time.Now()
		code, body := requestPage(t, http.MethodGet, p.url+path, "", "")
		t.Logf("%q: %s", path, time.Since(start).Round(time.Millisecond))
		if code != http.StatusOK || len(body) > 1<<20 {
			t.Errorf("%q: status %d, %d bytes", path, code, len(body))
		}
	}
}

// smallPackage returns the blobs of a package with one version.
func smallPackage(name, provider string) string {
	return fmt.Sprintf(`{"schema":"olm.package","name":%[1]q,"defaultChannel":"c"}
{"schema":"olm.channel","package":%[1]q,"name":"c","entries":[{"name":"%[1]s.v1.0.0"}]}
{"schema":"olm.bundle","package":%[1]q,"name":"%[1]s.v1.0.0","image":"registry.example/x@sha256:%[3]s","properties":[`+
		`{"type":"olm.package","value":{"packageName":%[1]q,"version":"1.0.0"}},`+
		`{"type":"olm.csv.metadata","value":{"displayName":%[1]q,"provider":{"name":%[2]q},"annotations":{"categories":"Storage"}}}]}
`, name, provider, strings.Repeat("0", 64))
}
