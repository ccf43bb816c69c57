package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/operator-catalogs/catalogd/internal/testing/browser"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// testFeed opens eight tabs of one browser, which has six connections for a host over HTTP/1.1, and pushes a catalog. All show the
// change and, one after the other, still load pages.
func (w *pageWorld) testFeed(t *testing.T) {
	dir := t.TempDir()
	must.Succeed(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "corners"))))
	tabs := make([]*browser.Tab, 8)
	for i := range tabs {
		tabs[i] = w.Tab(t, browser.Options{})
		tabs[i].Open(w.page("/changes"))
		tabs[i].Wait("document.querySelector('#state').textContent.startsWith('Live')")
	}
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "added.json"), []byte(smallPackage("added-now", "Example")), 0o600))
	_, digest := w.registry.push(t, "corners", catalogImage(t, dir))
	w.askForPoll(t, "corners", "feed")
	eventually.Holds(t, "the new version is served", func() bool {
		r, err := tryGet("http://" + w.content + "/catalogs")
		return err == nil && strings.Contains(string(r.body), digest)
	})
	served := time.Now()
	for _, tab := range tabs {
		tab.Wait("document.querySelector('#changes').innerText.includes('Added: added-now')")
	}
	t.Logf("all tabs showed the push %s after it was served", time.Since(served).Round(time.Millisecond))
	for i, tab := range tabs {
		tab.Click("#changes a[href$='added-now']")
		tab.Wait("location.pathname.endsWith('/added-now') && document.readyState === 'complete'")
		for _, report := range tab.Reports() {
			t.Errorf("tab %d: %s", i, report)
		}
	}
}
