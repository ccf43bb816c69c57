package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
