package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/operator-registry/pkg/api"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/operator-catalogs/catalogd/e2e/internal/system"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// hurried returns the rules with seconds in place of minutes and hours.
func hurried(t *testing.T, rules ruleFile) ruleFile {
	t.Helper()
	shorter := map[string]string{"[30m]": "[20s]", "offset 1h": "offset 10s"}
	for i := range rules.Groups {
		for j := range rules.Groups[i].Rules {
			rule := &rules.Groups[i].Rules[j]
			rule.For = "3s" // a busy machine may miss a scrape
			for long, short := range shorter {
				rule.Expr = strings.ReplaceAll(rule.Expr, long, short)
			}
		}
	}
	return rules
}

// ofReplicas are the alerts that a single catalogd cannot cause.
var ofReplicas = map[string]bool{"CatalogdNoLeader": true, "CatalogdReplicaBehind": true}

// TestMonitoring causes each alert in a catalogd that a real Prometheus scrapes. Each alert must fire for its cause
// and for nothing else. The same Prometheus runs the queries of the dashboard.
func TestMonitoring(t *testing.T) {
	ca := newAuthority(t, "e2e")
	grpcAddress := system.FreeAddress(t)
	w := newWorld(t, shared, append(monitoredArgs(t, ca), "--cluster-catalogs", "--grpc-bind-address", grpcAddress, "--bundle-content")...)
	p := startPrometheus(t, hurried(t, readRules(t)), map[string]string{"catalogd-0": w.metrics})

	ref, _ := w.registry.push(t, "sound", catalogImage(t, sampleCatalog))
	w.createCatalog(t, "sound", ref, nil)
	w.createCatalog(t, "missing", w.registry.address+"/missing:latest", nil)
	worse, _ := w.registry.push(t, "worse", catalogImage(t, soundDir))
	w.createCatalog(t, "worse", worse, nil)
	stale, _ := w.registry.push(t, "stale", catalogImage(t, soundDir))
	w.createCatalog(t, "stale", stale, everySecond(t))
	for _, name := range []string{"sound", "worse", "stale"} {
		w.waitReady(t, name, "")
	}
	w.createClusterCatalog(t, "contested", ref)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() { ended <- w.playUpstream(ctx, w.watchClusterCatalogs(t)) }()
	eventually.Succeeds(t, "what was before is known", p.has(`catalogd_invalid_packages{catalog="worse"} offset 10s == 0`))
	w.registry.push(t, "worse", brokenImage(t, "multiple-heads"))
	w.requestPoll(t, "worse", "now")
	w.registry.push(t, "stale", brokenImage(t, "invalid-yaml"))

	got, want := alerts{}, alerts{
		"CatalogdCatalogNotReady":     {"missing", "stale"},
		"CatalogdPollFailing":         {"missing"},
		"CatalogdContentStale":        {"stale"},
		"CatalogdContested":           {"contested"},
		"CatalogdInvalidPackagesGrew": {"worse"},
		"CatalogdStoreNearlyFull":     {""},
		"CatalogdCertificateExpiring": {""},
	}
	eventually.Succeeds(t, "all that is amiss has its alert", got.fired(p, want))
	stop()
	<-ended
	t.Run("dashboard", func(t *testing.T) {
		reader := newReader(&tls.Config{RootCAs: ca.pool()}, "")
		checkDashboard(t, w, p, func() { reader.get(t, "https://"+w.content+"/catalogs") })
	})

	answersOf(dialRegistry(t, grpcAddress, "sound").ListPackages(t.Context(), &api.ListPackageRequest{}))
	t.Run("documentation", func(t *testing.T) { checkMetricsAreDocumented(t, w) })

	w.signal(t, syscall.SIGTERM)
	w.wait(t, patience)
	want["CatalogdDown"] = []string{""}
	eventually.Succeeds(t, "a catalogd that is gone has its alert", got.fired(p, want))
	w.start(t) // for the cleanup

	for _, rule := range readRules(t).alerts() {
		if want[rule.Alert] == nil && !ofReplicas[rule.Alert] {
			t.Errorf("nothing here has %s fire", rule.Alert)
		}
	}
}

// TestReplicaAlerts lets a replica miss an update that it then cannot pull, and cuts all replicas off from the API
// server.
func TestReplicaAlerts(t *testing.T) {
	f := newFleet(t, 2, "--storage-limit=1Gi") // independent of this machine's disk
	p := startPrometheus(t, hurried(t, readRules(t)), map[string]string{
		"catalogd-0": f.replicas[0].metrics, "catalogd-1": f.replicas[1].metrics,
	})
	ref, first := f.registry.push(t, "sample", catalogImage(t, sampleCatalog))
	f.createCatalog(t, "sample", ref, nil)
	f.waitReady(t, "sample", first)
	f.allServe(t, "sample", first)

	_, others := f.leader(t)
	others[0].signal(t, syscall.SIGSTOP)
	second := f.update(t, "sample", catalogImage(t, soundDir), "while one is stopped")
	f.registry.stop()
	others[0].signal(t, syscall.SIGCONT)
	got, want := alerts{}, alerts{"CatalogdReplicaBehind": {"sample"}}
	eventually.Succeeds(t, "the replica that is behind has its alert", got.fired(p, want))
	f.registry.start(t)
	f.allServe(t, "sample", second)

	for _, r := range f.replicas {
		r.api.set(func(*http.Request) gateVerdict { return gateVerdict{breaks: true} })
	}
	want["CatalogdNoLeader"] = []string{""}
	eventually.Succeeds(t, "CatalogdNoLeader fires", got.fired(p, want))
	for _, r := range f.replicas {
		r.api.set(nil)
	}
	f.leader(t)
	for alert := range ofReplicas {
		if want[alert] == nil {
			t.Errorf("nothing here has %s fire", alert)
		}
	}
}

// monitoredArgs are the arguments of a catalogd with a certificate that expires tomorrow, and with too little room
// for an update of the sample catalog.
func monitoredArgs(t *testing.T, ca authority) []string {
	t.Helper()
	pair, dir := ca.issue(t, "catalogd", "127.0.0.1"), t.TempDir()
	return []string{
		"--tls-cert-file", writeFile(t, dir, "tls.crt", pair.certificate), "--tls-private-key-file", writeFile(t, dir, "tls.key", pair.key),
		"--storage-limit", "2Mi",
	}
}

func everySecond(t *testing.T) func(*unstructured.Unstructured) {
	return func(c *unstructured.Unstructured) {
		must.Succeed(t, unstructured.SetNestedField(c.Object, "1s", "spec", "pollingInterval"))
	}
}

// has reports whether a query has a result.
func (p *prometheus) has(expr string) func() error {
	return func() error {
		samples, err := p.query(expr)
		if err == nil && len(samples) == 0 {
			err = errors.New("no data of " + expr)
		}
		return err
	}
}

// alerts collects the alerts that have fired, with their catalogs; "" means no catalog. Some end before others
// begin.
type alerts map[string][]string

// fired records the firing alerts, and reports whether all wanted alerts, and no others, have fired by now.
func (a alerts) fired(p *prometheus, want alerts) func() error {
	return func() error {
		firing, err := p.firing()
		if err != nil {
			return err
		}
		for _, labels := range firing {
			if name, catalog := labels["alertname"], labels["catalog"]; !slices.Contains(a[name], catalog) {
				a[name] = append(a[name], catalog)
				slices.Sort(a[name])
			}
		}
		if diff := cmp.Diff(want, a); diff != "" {
			return fmt.Errorf("alerts and their catalogs (-want +got):\n%s", diff)
		}
		return nil
	}
}
