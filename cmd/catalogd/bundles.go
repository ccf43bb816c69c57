package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/operator-catalogs/catalogd/internal/bundle/prefetch"
	"github.com/operator-catalogs/catalogd/internal/bundle/pull"
	"github.com/operator-catalogs/catalogd/internal/registry"
	"github.com/operator-catalogs/catalogd/internal/serve"
	"github.com/operator-catalogs/catalogd/internal/source"
	catalogsync "github.com/operator-catalogs/catalogd/internal/sync"
)

// bundleConfig has the values of the flags about bundle images.
type bundleConfig struct {
	pull       bool
	registries []string
	cacheBytes int64
	limits     pull.Limits
}

// minCache is the least limit of the cache: a bundle of the default size must fit.
const minCache = 10 << 20

func newBundleConfig() bundleConfig {
	return bundleConfig{cacheBytes: 256 << 20, limits: pull.DefaultLimits()}
}

func (c *bundleConfig) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&c.pull, "bundle-content", false, "pull the images of bundles on demand and serve their content, to clients that may get the "+
		"path /bundle-content/CATALOG")
	f.StringSliceVar(&c.registries, "bundle-registries", nil, "`hosts`, with port unless it is 443, from which bundle images may be "+
		"pulled; a loopback address must be listed as such (default: the registry of each catalog's image, and mirrors)")
	f.Var((*byteCount)(&c.cacheBytes), "bundle-cache-bytes", "limit of the bytes of cached bundles in the data directory")
	f.Var((*byteCount)(&c.limits.Bytes), "max-bundle-bytes", "limit of the total bytes of the files of a bundle image; its compressed "+
		"layers may have twice as many")
	f.Var((*byteCount)(&c.limits.FileBytes), "max-bundle-file-bytes", "limit of the bytes of one file of a bundle image")
	f.IntVar(&c.limits.Files, "max-bundle-files", c.limits.Files, "limit of the number of `files` and directories of a bundle image")
}

func (c *bundleConfig) validate(check func(ok bool, format string, args ...any)) {
	check(c.cacheBytes >= minCache, "--bundle-cache-bytes %d must be at least 10Mi (%d)", c.cacheBytes, minCache)
	check(c.limits.Bytes > 0 && c.limits.FileBytes > 0 && c.limits.Files > 0,
		"--max-bundle-bytes, --max-bundle-file-bytes and --max-bundle-files must be at least 1")
	for _, host := range c.registries {
		_, err := name.NewRegistry(host, name.StrictValidation)
		check(err == nil, "--bundle-registries %q is not a registry: write host, or host:port", host)
	}
}

// cacheLimit returns the limit of the cache; 0 if nothing is to be cached.
func (c *bundleConfig) cacheLimit() int64 {
	if !c.pull {
		return 0
	}
	return c.cacheBytes
}

// addBundles lets a service pull bundle images if a flag says so, and returns the jobs of that.
func (c *cluster) addBundles(service *serve.Config, metrics prometheus.Registerer) []job {
	if !c.cfg.bundles.pull {
		return nil
	}
	limits := c.cfg.bundles.limits
	limits.Ratio = c.cfg.sync.Limits.Ratio
	puller := pull.New(pull.Config{Cache: c.store.Cache(), Client: c.bundleClient, Limits: limits, Logger: c.logger})
	metrics.MustRegister(puller)
	service.Bundles = puller
	c.prefetcher = prefetch.New(prefetch.Config{
		Store: c.store, Images: puller, Share: c.cfg.bundles.cacheBytes / 4 * 3, Logger: c.logger,
		Wanted: func(catalog string) bool {
			src, ok := c.source(catalog)
			return ok && src.Prefetch
		},
		Notify: func(ctx context.Context, catalog string) {
			if engine := c.engine.Load(); engine != nil {
				ctx, stop := context.WithTimeout(ctx, 10*time.Second) // its manager may end
				defer stop()
				engine.Reconcile(ctx, catalog)
			}
		},
	})
	return []job{puller.Run, c.prefetcher.Run}
}

// prefetched returns what reports how far the wanted bundles of a catalog are cached; nil if no images are pulled.
func (c *cluster) prefetched() catalogsync.Prefetched {
	if c.prefetcher == nil {
		return nil
	}
	return func(catalog string) (source.Prefetch, bool) {
		r, ok := c.prefetcher.Report(catalog)
		return source.Prefetch{Bundles: r.Bundles, Cached: r.Cached, Failed: r.Failed, Message: r.Failure}, ok
	}
}

// bundleClient returns the client for the bundle images of a catalog: it has the credentials of the catalog, and reaches the
// allowed registries only.
func (c *cluster) bundleClient(ctx context.Context, catalog string) (*registry.Client, error) {
	engine := c.engine.Load()
	src, ok := c.source(catalog)
	if engine == nil || !ok {
		return nil, errors.New("the API server, which has the credentials of the catalog, cannot be asked")
	}
	access, err := engine.RegistryAccess(ctx, src)
	if err != nil {
		return nil, fmt.Errorf("reading the access of catalog %s to registries: %w", catalog, err)
	}
	var only []string
	for _, host := range c.cfg.bundles.registries {
		listed, err := name.NewRegistry(host)
		if err != nil {
			return nil, err
		}
		only = append(only, listed.RegistryStr()) // docker.io is index.docker.io
	}
	if len(only) == 0 {
		if only, err = c.registriesOf(catalog, access); err != nil {
			return nil, err
		}
	}
	access.Confined, access.Only = true, only
	return c.registries.Client(catalog, access)
}

// registriesOf returns the registries of the image that a catalog serves.
func (c *cluster) registriesOf(catalog string, access registry.Access) ([]string, error) {
	served, ok := c.store.Catalog(catalog)
	if !ok {
		return nil, fmt.Errorf("catalog %s is not served", catalog)
	}
	ref, err := name.ParseReference(served.Image)
	if err != nil {
		return nil, err
	}
	client, err := c.registries.Client(catalog, access)
	if err != nil {
		return nil, err
	}
	return client.Registries(ref), nil
}
