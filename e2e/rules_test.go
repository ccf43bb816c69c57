package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

var monitoringDir = filepath.Join("..", "config", "prometheus")

// alertRule is an alert rule of Prometheus.
type alertRule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// ruleFile is a rule file of Prometheus, which is also the spec of a PrometheusRule.
type ruleFile struct {
	Groups []struct {
		Name  string      `json:"name"`
		Rules []alertRule `json:"rules"`
	} `json:"groups"`
}

func readRules(t *testing.T) ruleFile {
	t.Helper()
	var object struct {
		metav1.TypeMeta
		metav1.ObjectMeta `json:"metadata"`
		Spec              ruleFile `json:"spec"`
	}
	content, err := os.ReadFile(filepath.Join(monitoringDir, "rules.yaml"))
	must.Succeed(t, err)
	must.Succeed(t, yaml.UnmarshalStrict(content, &object))
	if object.Kind != "PrometheusRule" || object.Namespace != namespace {
		t.Errorf("rules.yaml is a %s in namespace %s", object.Kind, object.Namespace)
	}
	return object.Spec
}

func (f ruleFile) alerts() (all []alertRule) {
	for _, group := range f.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

// write writes a rule file.
func (f ruleFile) write(t *testing.T, file string) {
	t.Helper()
	content, err := yaml.Marshal(f)
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(file, content, 0o600))
}

// TestRules runs promtool on the alerts, and on the test that each of them must have.
func TestRules(t *testing.T) {
	dir, rules := t.TempDir(), readRules(t)
	rules.write(t, filepath.Join(dir, "rules.yaml"))
	tests, err := os.ReadFile(filepath.Join(monitoringDir, "rules_test.yaml"))
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "rules_test.yaml"), tests, 0o600))
	for _, args := range [][]string{{"check", "rules", "--lint-fatal", "rules.yaml"}, {"test", "rules", "rules_test.yaml"}} {
		cmd := exec.Command(filepath.Join(needed(t, "PROMETHEUS", "hack/prometheus/install.sh"), "promtool"), args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}

	tested := testedAlerts(t, tests)
	for _, rule := range rules.alerts() {
		if firing, silent := tested[rule.Alert][true], tested[rule.Alert][false]; !firing || !silent {
			t.Errorf("rules_test.yaml: a test in which %s fires: %t, one in which it does not: %t; both have to be", rule.Alert, firing, silent)
		}
	}
}

// testedAlerts returns, for each alert that promtool tests, whether tests expect it to fire and not to fire.
func testedAlerts(t *testing.T, content []byte) map[string]map[bool]bool {
	t.Helper()
	var file struct {
		Tests []struct {
			Alerts []struct {
				Name string `json:"alertname"`
				Want []any  `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		} `json:"tests"`
	}
	must.Succeed(t, yaml.Unmarshal(content, &file))
	tested := map[string]map[bool]bool{}
	for _, test := range file.Tests {
		for _, alert := range test.Alerts {
			if tested[alert.Name] == nil {
				tested[alert.Name] = map[bool]bool{}
			}
			tested[alert.Name][len(alert.Want) > 0] = true
		}
	}
	return tested
}

// TestRunbooks checks that each alert links to a page with the required sections.
func TestRunbooks(t *testing.T) {
	const base = "https://github.com/operator-catalogs/catalogd/blob/main/"
	operations, err := os.ReadFile(filepath.Join("..", "docs", "operations.md"))
	must.Succeed(t, err)
	pages, err := filepath.Glob(filepath.Join("..", "docs", "runbooks", "*.md"))
	must.Succeed(t, err)
	for _, rule := range readRules(t).alerts() {
		page := path.Join("docs", "runbooks", rule.Alert+".md")
		if got := rule.Annotations["runbook_url"]; got != base+page {
			t.Errorf("runbook_url of %s is %s, want %s", rule.Alert, got, base+page)
		}
		if link := fmt.Sprintf("| [%s](runbooks/%s.md) | %s |", rule.Alert, rule.Alert,
			rule.Labels["severity"]); !strings.Contains(string(operations), link) {
			t.Errorf("docs/operations.md does not have %q", link)
		}
		for _, annotation := range []string{"summary", "description"} {
			if rule.Annotations[annotation] == "" {
				t.Errorf("%s has no %s", rule.Alert, annotation)
			}
		}
		file := filepath.Join("..", filepath.FromSlash(page))
		content, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		pages = slices.DeleteFunc(pages, func(p string) bool { return p == file })
		severity := rule.Labels["severity"]
		if severity != "critical" && severity != "warning" {
			t.Errorf("severity of %s is %q", rule.Alert, severity)
			continue
		}
		for _, want := range []string{
			fmt.Sprintf("# %s\n\n**%s.** ", rule.Alert, strings.ToUpper(severity[:1])+severity[1:]),
			"\n## What it means\n", "\n## How to look\n", "\n## What to do\n",
		} {
			if !strings.Contains(string(content), want) {
				t.Errorf("%s does not have %q", page, want)
			}
		}
	}
	if len(pages) > 0 {
		t.Errorf("pages without an alert: %v", pages)
	}
}
