package e2e

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/operator-catalogs/catalogd/internal/testing/browser"
	"github.com/operator-catalogs/catalogd/internal/testing/catalogs"
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
	const packages = 50_000
	dir := t.TempDir()
	shape := catalogs.Shape{Packages: packages, Channels: packages, Bundles: packages, Bytes: packages * 1_500}
	must.Succeed(t, shape.Files(t.Context(), func(f catalogs.File) error { // one file for each package would only take longer
		file, err := os.OpenFile(filepath.Join(dir, "catalog"+filepath.Ext(f.Path)), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = file.Write(f.Content)
		return errors.Join(err, file.Close())
	}))
	w := &world{} // no cluster
	start := time.Now()
	p, err := w.servePage(t, "ui", dir, "--no-browser", "--kubeconfig", "/nonexistent")
	must.Succeed(t, err)
	t.Logf("the catalog was read in %s", time.Since(start).Round(time.Millisecond))
	tab := chromium.Tab(t, browser.Options{})
	tab.Open(p.url)
	wantText(t, tab, "packages")
	for _, selector := range []string{"nav.pages a[rel=next]", "nav[aria-label=Filters] a", "main .card a", ".tabs a[href*=versions]", "main a[href*='channels/']"} {
		before := tab.URL()
		tab.Click(selector)
		tab.Wait("location.href !== '" + before + "' && document.readyState === 'complete'")
		for _, fault := range slices.Concat(tab.Axe(), tab.Sideways(), tab.Reports()) {
			t.Errorf("%s: %s", tab.URL(), fault)
		}
	}
	for _, path := range []string{"", "?page=834", "?q=operator&sort=provider", "catalogs", "changes"} {
		start := time.Now()
		code, body := requestPage(t, http.MethodGet, p.url+path, "", "")
		t.Logf("%q: %s", path, time.Since(start).Round(time.Millisecond))
		if code != http.StatusOK || len(body) > 1<<20 {
			t.Errorf("%q: status %d, %d bytes", path, code, len(body))
		}
	}
}
