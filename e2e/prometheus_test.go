package e2e

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// scrapeEvery is the interval of scrapes and of rule evaluation, much shorter than in production.
const scrapeEvery = time.Second

// prometheus is a real Prometheus that scrapes catalogd and evaluates rules.
type prometheus struct {
	url string
	log logBuffer
}

// startPrometheus starts the server. targets maps Pods to the metrics ports of their catalogd (host:port).
func startPrometheus(t *testing.T, rules ruleFile, targets map[string]string) *prometheus {
	t.Helper()
	dir, address := t.TempDir(), system.FreeAddress(t)
	rules.write(t, filepath.Join(dir, "rules.yaml"))
	var static []any
	for pod, target := range targets {
		static = append(static, map[string]any{"targets": []string{target}, "labels": map[string]string{"namespace": namespace, "pod": pod}})
	}
	config, err := yaml.Marshal(map[string]any{
		"global": map[string]string{
			"scrape_interval": scrapeEvery.String(), "scrape_timeout": scrapeEvery.String(), "evaluation_interval": scrapeEvery.String(),
		},
		"rule_files":     []string{"rules.yaml"},
		"scrape_configs": []any{map[string]any{"job_name": "catalogd", "static_configs": static}},
	})
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "prometheus.yaml"), config, 0o600))

	p := &prometheus{url: "http://" + address}
	cmd := exec.Command(filepath.Join(needed(t, "PROMETHEUS", "hack/prometheus/install.sh"), "prometheus"),
		"--config.file", filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address",
		address)
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the test does not inherit its environment
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("last log lines of Prometheus:\n%s", p.log.tail(20))
		}
	})
	// It takes some seconds to find its targets, and until then reports catalogd as down.
	scrapes := p.has(fmt.Sprintf(`count(up == 1) == %d unless on () ALERTS{alertname="CatalogdDown"}`, len(targets)))
	eventually.Succeeds(t, "Prometheus scrapes all targets", scrapes)
	return p
}

// sample is a series of a query result.
type sample struct {
	Metric map[string]string `json:"metric"`
	Value  [2]any            `json:"value"` // a time, and the value as a string
}

// query runs an instant query.
func (p *prometheus) query(expr string) ([]sample, error) {
	var data struct {
		Type   string   `json:"resultType"`
		Result []sample `json:"result"`
	}
	err := p.get("/api/v1/query?query="+url.QueryEscape(expr), &data)
	if err == nil && data.Type != "vector" {
		err = fmt.Errorf("%s gives a %s, not a vector", expr, data.Type)
	}
	return data.Result, err
}

// firing returns the labels of the firing alerts.
func (p *prometheus) firing() ([]map[string]string, error) {
	var data struct {
		Alerts []struct {
			Labels map[string]string `json:"labels"`
			State  string            `json:"state"`
		} `json:"alerts"`
	}
	err := p.get("/api/v1/alerts", &data)
	var fire []map[string]string
	for _, alert := range data.Alerts {
		if alert.State == "firing" {
			fire = append(fire, alert.Labels)
		}
	}
	return fire, err
}

// get reads the data of a reply of the Prometheus API.
func (p *prometheus) get(path string, data any) error {
	r, err := tryGet(p.url + path)
	if err != nil {
		return err
	}
	answer := struct {
		Status string `json:"status"`
		Error  string `json:"error"`
		Data   any    `json:"data"`
	}{Data: data}
	if err := json.Unmarshal(r.body, &answer); err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("GET %s: %s", path, answer.Error)
	}
	return nil
}
