// Command operatorcontroller runs the catalog client, the cache and the resolver of operator-controller (OLM v1). It reads
// lines from the standard input, and answers each with a line of JSON:
//
//	reconcile CATALOG                fetch a ClusterCatalog, unless its version is cached
//	package CATALOG PACKAGE          read a package from the cache
//	resolve PACKAGE [RANGE]          find the bundle to install among all ClusterCatalogs
//	reference PACKAGE [RANGE]        find the same in the catalog of --reference
//	install CLUSTEREXTENSION         resolve its package, pull the bundle's image, apply what it contains
//
// The whole operator-controller cannot be built from the module proxy, which lacks a module that it needs.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	ocv1 "github.com/operator-framework/operator-controller/api/v1"
	"github.com/operator-framework/operator-controller/internal/operator-controller/catalogmetadata/cache"
	catalogclient "github.com/operator-framework/operator-controller/internal/operator-controller/catalogmetadata/client"
	"github.com/operator-framework/operator-controller/internal/operator-controller/resolve"
	"github.com/operator-framework/operator-controller/internal/operator-controller/scheme"
	httputil "github.com/operator-framework/operator-controller/internal/shared/util/http"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An answer is what a command found.
type answer struct {
	Done     bool   `json:"done,omitempty"`    // reconcile: the catalog is cached; install: the bundle is applied
	Fetches  int    `json:"fetches,omitempty"` // reconcile: since the start
	Packages int    `json:"packages,omitempty"`
	Channels int    `json:"channels,omitempty"`
	Bundle   string `json:"bundle,omitempty"`
	Version  string `json:"version,omitempty"`
	Image    string `json:"image,omitempty"`
	Error    string `json:"error,omitempty"`
}

// A peer is the part of operator-controller that reads catalogs.
type peer struct {
	config    *rest.Config
	api       client.Client
	store     catalogclient.Cache
	catalogs  *catalogclient.Client
	reference map[string]*declcfg.DeclarativeConfig // by package
	fetches   int
}

func main() {
	cas := flag.String("catalogd-cas-dir", "", "the directory with the CAs that the client trusts in addition to the system's")
	dir := flag.String("cache", "", "the directory of the cache")
	reference := flag.String("reference", "", "the directory of a file-based catalog")
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	if err := run(context.Background(), *cas, *dir, *reference); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, cas, dir, reference string) error {
	p, err := newPeer(ctx, cas, dir, reference)
	if err != nil {
		return err
	}
	answers := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		a, err := p.do(ctx, strings.Fields(lines.Text()))
		if err != nil {
			a.Error = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
	return lines.Err()
}

func newPeer(ctx context.Context, cas, dir, reference string) (*peer, error) {
	config, err := ctrl.GetConfig() // --kubeconfig
	if err != nil {
		return nil, err
	}
	api, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return nil, err
	}
	pool, err := httputil.NewCertPoolWatcher(cas, logr.Discard())
	if err == nil {
		err = pool.Start(ctx)
	}
	if err != nil {
		return nil, err
	}
	store := cache.NewFilesystemCache(dir)
	p := &peer{config: config, api: api, store: store}
	p.catalogs = catalogclient.New(store, func() (*http.Client, error) {
		p.fetches++
		return catalogclient.BuildHTTPClient(pool)
	})
	if reference != "" {
		p.reference, err = byPackage(ctx, reference)
	}
	return p, err
}

func (p *peer) do(ctx context.Context, words []string) (answer, error) {
	words = append(words, "", "", "")
	switch words[0] {
	case "reconcile":
		return p.reconcile(ctx, words[1])
	case "package":
		c, err := p.catalog(ctx, words[1])
		if err != nil {
			return answer{}, err
		}
		cfg, err := p.catalogs.GetPackage(ctx, c, words[2])
		if err != nil {
			return answer{}, err
		}
		return answer{Packages: len(cfg.Packages), Channels: len(cfg.Channels)}, nil
	case "resolve":
		return resolved(ctx, p.list, p.catalogs.GetPackage, wanted(words[1], words[2]))
	case "reference":
		return resolved(ctx, listed, p.referenced, wanted(words[1], words[2]))
	case "install":
		return p.install(ctx, words[1])
	}
	return answer{}, fmt.Errorf("unknown command %q", words[0])
}

func (p *peer) catalog(ctx context.Context, name string) (*ocv1.ClusterCatalog, error) {
	c := &ocv1.ClusterCatalog{}
	return c, p.api.Get(ctx, client.ObjectKey{Name: name}, c)
}

// reconcile does what operator-controller's ClusterCatalogReconciler does; its package cannot be built.
func (p *peer) reconcile(ctx context.Context, name string) (answer, error) {
	c, err := p.catalog(ctx, name)
	if err != nil || c.Status.ResolvedSource == nil || c.Status.ResolvedSource.Image == nil {
		return answer{}, err
	}
	if files, err := p.store.Get(name, c.Status.ResolvedSource.Image.Ref); err != nil || files == nil {
		if _, err := p.catalogs.PopulateCache(ctx, c); err != nil {
			return answer{}, err
		}
	}
	return answer{Done: true, Fetches: p.fetches}, nil
}

type (
	lister func(context.Context, ...client.ListOption) ([]ocv1.ClusterCatalog, error)
	getter func(context.Context, *ocv1.ClusterCatalog, string) (*declcfg.DeclarativeConfig, error)
)

func wanted(pkg, versions string) *ocv1.ClusterExtension {
	return &ocv1.ClusterExtension{Spec: ocv1.ClusterExtensionSpec{Source: ocv1.SourceConfig{
		Catalog: &ocv1.CatalogFilter{PackageName: pkg, Version: versions},
	}}}
}

func resolved(ctx context.Context, list lister, get getter, extension *ocv1.ClusterExtension) (answer, error) {
	resolver := resolve.CatalogResolver{
		WalkCatalogsFunc: resolve.CatalogWalker(list, get),
		Validations:      []resolve.ValidationFunc{resolve.NoDependencyValidation},
	}
	bundle, version, _, err := resolver.Resolve(ctx, extension, nil)
	if err != nil {
		return answer{}, err
	}
	return answer{Bundle: bundle.Name, Version: version.Version.String(), Image: bundle.Image}, nil
}

func (p *peer) list(ctx context.Context, options ...client.ListOption) ([]ocv1.ClusterCatalog, error) {
	var all ocv1.ClusterCatalogList
	err := p.api.List(ctx, &all, options...)
	return all.Items, err
}

func listed(context.Context, ...client.ListOption) ([]ocv1.ClusterCatalog, error) {
	return make([]ocv1.ClusterCatalog, 1), nil
}

func (p *peer) referenced(_ context.Context, _ *ocv1.ClusterCatalog, pkg string) (*declcfg.DeclarativeConfig, error) {
	cfg := *cmp.Or(p.reference[pkg], &declcfg.DeclarativeConfig{})
	cfg.Bundles = slices.Clone(cfg.Bundles) // the resolver filters in place
	return &cfg, nil
}

// byPackage splits a catalog.
func byPackage(ctx context.Context, dir string) (map[string]*declcfg.DeclarativeConfig, error) {
	whole, err := declcfg.LoadFS(ctx, os.DirFS(dir))
	if err != nil {
		return nil, err
	}
	all := map[string]*declcfg.DeclarativeConfig{}
	for _, p := range whole.Packages {
		all[p.Name] = &declcfg.DeclarativeConfig{Packages: []declcfg.Package{p}}
	}
	for _, c := range whole.Channels {
		all[c.Package].Channels = append(all[c.Package].Channels, c)
	}
	for _, b := range whole.Bundles {
		all[b.Package].Bundles = append(all[b.Package].Bundles, b)
	}
	for _, d := range whole.Deprecations {
		all[d.Package].Deprecations = append(all[d.Package].Deprecations, d)
	}
	return all, nil
}
