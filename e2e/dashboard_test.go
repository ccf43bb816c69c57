package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// panel is a panel of the dashboard that has a query.
type panel struct {
	Title   string `json:"title"`
	Targets []struct {
		Expr string `json:"expr"`
	} `json:"targets"`
}

var (
	metricName = regexp.MustCompile(`\b(catalogd|controller_runtime|workqueue|process|go)_[a-z_]+\b`)
	variables  = strings.NewReplacer("$namespace", ".*", "$job", ".*", "$catalog", ".*", "$__rate_interval", "20s")
)

// checkDashboard runs each query of the dashboard, and looks for each of its metrics among those that catalogd
// exposes. Meanwhile, a client reads content.
func checkDashboard(t *testing.T, w *world, p *prometheus, ask func()) {
	ask()
	content, err := os.ReadFile(filepath.Join(monitoringDir, "dashboard.json"))
	must.Succeed(t, err)
	var dashboard struct {
		Panels []panel `json:"panels"`
	}
	must.Succeed(t, json.Unmarshal(content, &dashboard))
	exposed := w.exposedMetrics(t)
	queries := 0
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries++
			for _, name := range metricName.FindAllString(target.Expr, -1) {
				if !exposed[name] {
					t.Errorf("%s: catalogd has no metric %s", panel.Title, name)
				}
			}
			has := p.has(variables.Replace(target.Expr))
			eventually.Succeeds(t, "there is data for "+panel.Title, func() error {
				ask() // a rate needs several scrapes
				return has()
			})
		}
	}
	if queries == 0 {
		t.Error("the dashboard has no query")
	}
}

// exposedMetrics returns the names of the metrics, including the series of histograms.
func (w *world) exposedMetrics(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for line := range strings.Lines(string(get(t, "http://"+w.metrics+"/metrics").body)) {
		if name, _, ok := strings.Cut(line, " "); ok && name != "#" {
			name, _, _ = strings.Cut(name, "{")
			names[name] = true
		}
	}
	return names
}

var documentedMetric = regexp.MustCompile("(?m)^\\| `(catalogd_[a-z_]+)` \\|")

// checkMetricsAreDocumented compares the metrics of docs/operations.md with those of a catalogd that has exposed
// all of them.
func checkMetricsAreDocumented(t *testing.T, w *world) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "operations.md"))
	must.Succeed(t, err)
	documented, exposed := map[string]bool{}, map[string]bool{}
	for _, match := range documentedMetric.FindAllStringSubmatch(string(page), -1) {
		documented[match[1]] = true
	}
	for line := range strings.Lines(string(get(t, "http://"+w.metrics+"/metrics").body)) {
		if fields := strings.Fields(line); len(fields) == 4 && fields[1] == "TYPE" && strings.HasPrefix(fields[2], "catalogd_") {
			exposed[fields[2]] = true
		}
	}
	if diff := cmp.Diff(exposed, documented); diff != "" {
		t.Errorf("metrics (-exposed +documented):\n%s", diff)
	}
}
