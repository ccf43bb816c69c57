package e2e

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// operatorController reads catalogs as operator-controller v1.11.0 does (internal/operator-controller/catalogmetadata and
// controllers/clustercatalog_controller.go). Its binary cannot be built here, as a module that it needs is not available.
type operatorController struct {
	web     http.Client
	cache   string            // a directory
	refs    map[string]string // the cached version of each catalog
	fetches int
}

// newOperatorController returns a client that trusts the system's CAs and those in a directory, as --catalogd-cas-dir
// names it. It speaks HTTP/1.1 and sends no credentials.
func newOperatorController(t *testing.T, casDir string) *operatorController {
	t.Helper()
	roots, err := x509.SystemCertPool()
	must.Succeed(t, err)
	files, err := os.ReadDir(casDir)
	must.Succeed(t, err)
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(casDir, file.Name()))
		must.Succeed(t, err)
		if !roots.AppendCertsFromPEM(content) {
			t.Fatalf("%s has no certificate", file.Name())
		}
	}
	transport := &http.Transport{ // without ForceAttemptHTTP2, a TLS configuration means HTTP/1.1
		Proxy:           http.ProxyFromEnvironment,
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &operatorController{
		web: http.Client{Transport: transport, Timeout: 5 * time.Minute}, cache: t.TempDir(), refs: map[string]string{},
	}
}

// reconcile makes one pass over a ClusterCatalog. done is false while the catalog is not ready to be cached.
func (o *operatorController) reconcile(c *unstructured.Unstructured) (done bool, err error) {
	ref, _, _ := unstructured.NestedString(c.Object, "status", "resolvedSource", "image", "ref")
	if ref == "" {
		return false, nil
	}
	if o.refs[c.GetName()] == ref {
		return true, nil
	}
	base, _, _ := unstructured.NestedString(c.Object, "status", "urls", "base")
	if serving, _ := conditionOf(c, "Serving"); serving.status != "True" || base == "" {
		return false, fmt.Errorf("catalog %s has a digest, but is not served", c.GetName())
	}
	all, err := url.JoinPath(base, "api", "v1", "all")
	if err != nil {
		return false, err
	}
	if err := o.fetch(c.GetName(), all); err != nil {
		return false, err
	}
	o.refs[c.GetName()] = ref
	return true, nil
}

// fetch caches a catalog, as files <package>/<schema>/<name or schema>.json.
func (o *operatorController) fetch(catalog, url string) error {
	o.fetches++
	response, err := o.web.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK || response.ProtoMajor != 1 {
		return fmt.Errorf("GET %s: %s %s", url, response.Proto, response.Status)
	}
	dir := filepath.Join(o.cache, catalog)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return declcfg.WalkMetasReader(response.Body, func(meta *declcfg.Meta, err error) error {
		if err != nil {
			return err
		}
		pkg, name := meta.Package, meta.Name
		if meta.Schema == declcfg.SchemaPackage {
			pkg = meta.Name
		}
		if name == "" {
			name = meta.Schema
		}
		path := filepath.Join(dir, pkg, meta.Schema, name+".json")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, meta.Blob, 0o600)
	})
}

// load returns the cached catalog.
func (o *operatorController) load(t *testing.T, catalog string) *declcfg.DeclarativeConfig {
	t.Helper()
	cfg, err := declcfg.LoadFS(t.Context(), os.DirFS(filepath.Join(o.cache, catalog)))
	must.Succeed(t, err)
	return cfg
}

// getPackage returns a package of the cached catalog, as the resolver reads it.
func (o *operatorController) getPackage(ctx context.Context, c *unstructured.Unstructured, pkg string) (*declcfg.DeclarativeConfig, error) {
	if serving, _ := conditionOf(c, "Serving"); serving.status != "True" {
		return nil, fmt.Errorf("catalog %q is not being served", c.GetName())
	}
	if o.refs[c.GetName()] != resolvedRef(c) {
		return nil, fmt.Errorf("cache for catalog %q not found", c.GetName())
	}
	files, err := fs.Sub(os.DirFS(filepath.Join(o.cache, c.GetName())), pkg)
	if err != nil {
		return nil, fmt.Errorf("error getting package %q: %w", pkg, err)
	}
	cfg, err := declcfg.LoadFS(ctx, files)
	if errors.Is(err, fs.ErrNotExist) {
		return &declcfg.DeclarativeConfig{}, nil
	}
	return cfg, err
}

// TestOperatorControllerCases has the cases of operator-controller's client_test.go that depend on the server. Those about
// its own cache and HTTP client (errors of both, and an invalid package in the cache) have no counterpart here.
func TestOperatorControllerCases(t *testing.T) {
	w := newOLMWorld(t)
	ref, digest := w.registry.push(t, "cases", catalogImage(t, sampleCatalog))
	w.createClusterCatalog(t, "cases", ref)
	c := w.waitServing(t, "cases", digest)
	cas := w.casDir(t)
	o := newOperatorController(t, cas)
	for _, test := range []struct{ name, pkg, want string }{
		{"cache unpopulated", "skupper-operator", `cache for catalog "cases" not found`},
		{"package present", "skupper-operator", ""},
		{"package missing", "pkg-missing", ""},
		{"invalid package path", "/", `error getting package "/"`},
	} {
		cfg, err := o.getPackage(t.Context(), c, test.pkg)
		if got := fmt.Sprint(err); !strings.Contains(got, cmp.Or(test.want, "<nil>")) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
		if err == nil && (len(cfg.Packages) == 1) != (test.name == "package present") {
			t.Errorf("%s: got %d packages", test.name, len(cfg.Packages))
		}
		if test.name == "cache unpopulated" {
			_, err := o.reconcile(c)
			must.Succeed(t, err)
		}
	}

	if _, err := newOperatorController(t, t.TempDir()).reconcile(c); err == nil {
		t.Error("a client without catalogd's CA reads it")
	}
	elsewhere := c.DeepCopy()
	must.Succeed(t, unstructured.SetNestedField(elsewhere.Object, "https://"+w.content+"/catalogs/absent", "status", "urls", "base"))
	fresh := newOperatorController(t, cas)
	if _, err := fresh.reconcile(elsewhere); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("unexpected status: got %v", err)
	}
	unavailable := `{"spec":{"availabilityMode":"Unavailable"}}`
	must.Succeed(t, w.Patch(t.Context(), c, client.RawPatch("application/merge-patch+json", []byte(unavailable))))
	eventually.Succeeds(t, "the catalog is withdrawn", func() error {
		return wantCondition(w.clusterCatalog(t, "cases"), "Serving", "False")
	})
	now := w.clusterCatalog(t, "cases")
	if _, err := o.getPackage(t.Context(), now, "skupper-operator"); err == nil || !strings.Contains(err.Error(), "is not being served") {
		t.Errorf("not served: got %v", err)
	}
	if done, err := o.reconcile(now); done || err != nil {
		t.Errorf("a withdrawn catalog is fetched: %t %v", done, err)
	}
}
