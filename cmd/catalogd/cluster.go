package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/operator-catalogs/catalogd/apis/olmv1"
	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/bundle/prefetch"
	"github.com/operator-catalogs/catalogd/internal/lease"
	"github.com/operator-catalogs/catalogd/internal/olmv0"
	"github.com/operator-catalogs/catalogd/internal/poll"
	"github.com/operator-catalogs/catalogd/internal/registry"
	"github.com/operator-catalogs/catalogd/internal/serve"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/store"
	catalogsync "github.com/operator-catalogs/catalogd/internal/sync"
	"github.com/operator-catalogs/catalogd/internal/sync/catalogsource"
	"github.com/operator-catalogs/catalogd/internal/sync/clustercatalog"
)

// cluster is the part of catalogd that needs the API server. The content service does not depend on it.
type cluster struct {
	cfg        config
	rest       *rest.Config
	logger     *slog.Logger
	store      *store.Store
	polls      *poll.Log
	registries *registry.Registries
	metrics    *catalogsync.Metrics
	tracer     trace.Tracer // nil: no traces

	registryAPI *olmv0.Server // nil: none

	prefetcher *prefetch.Prefetcher // nil: no bundle images are pulled

	lease *lease.Lease // nil: there is one replica

	hasClusterCatalogs atomic.Bool // whether the running manager reconciles ClusterCatalogs

	cache    atomic.Pointer[client.Reader]      // of the running manager; nil until its cache has all sources
	engine   atomic.Pointer[catalogsync.Engine] // of the running manager; nil without one
	working  atomic.Bool                        // whether its cache has all that the controllers wait for
	caughtUp atomic.Bool                        // whether this process was ready once
	began    time.Time
}

// service returns the configuration of the content service, which ends with ctx.
func (c *cluster) service(ctx context.Context) serve.Config {
	return serve.Config{
		Catalogs: c.store,
		Polls:    c.pollTimes,
		Sources:  c.sources,
		Priority: c.priority,
		Awaited:  c.awaited,
		Expected: c.expected,
		Tracer:   c.tracer,
		Done:     ctx.Done(),
		Logger:   c.logger,
	}
}

// kinds returns the kinds of objects that define catalogs. That of OLM v1 counts while the API server has its CRD.
func (c *cluster) kinds() []catalogsync.Kind {
	kinds := []catalogsync.Kind{catalogsource.Kind{}}
	if c.hasClusterCatalogs.Load() {
		kinds = append(kinds, c.clusterCatalog())
	}
	return kinds
}

func (c *cluster) clusterCatalog() clustercatalog.Kind {
	return clustercatalog.Kind{Namespace: c.cfg.sync.Namespace, BaseURL: c.cfg.content.externalURL, Registry: c.cfg.clusterCatalogRegistry}
}

// newRegistries returns the access to image registries.
func newRegistries(cfg config, logger *slog.Logger) *registry.Registries {
	return registry.New(registry.Config{
		UserAgent: "catalogd/" + version,
		ConfFile:  cfg.registries,
		CADir:     cfg.caDir,
		Jobs:      2, // a pull needs one at a time; the second is for the pull that interrupts it
		Now:       time.Now,
		Backoff:   poll.Backoff,
		Logger:    logger,
	})
}

// clusterConfig returns how to reach the API server, without a request.
func clusterConfig(kubeconfig string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	cfg, err := rest.InClusterConfig()
	if kubeconfig != "" || err != nil {
		cfg, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("finding the API server: %w (run in a pod, or set --kubeconfig)", err)
	}
	cfg.UserAgent = "catalogd/" + version
	cfg.QPS = -1 // priority and fairness of the API server limits the requests
	return cfg, nil
}

// jobs returns the functions to run.
func (c *cluster) jobs() []job {
	if c.lease == nil {
		return []job{c.run}
	}
	return []job{c.run, c.lease.Run}
}

// run keeps a manager running until ctx ends. If it fails, since the API server is unreachable or lacks the CRDs, run starts
// another one after a backoff.
func (c *cluster) run(ctx context.Context) error {
	for failures := 1; ; failures++ {
		started := time.Now()
		err := c.runManager(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(started) > 10*time.Minute {
			failures = 1
		}
		wait := min(poll.Backoff(failures), 30*time.Second)
		c.logger.Error("not connected to the API server; stored content is still served", "error", err, "retryIn", wait.Round(time.Second))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

func (c *cluster) runManager(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	api, err := discovery.NewDiscoveryClientForConfig(c.rest)
	if err != nil {
		return err
	}
	if c.cfg.clusterCatalogs {
		found, err := knowsClusterCatalogs(ctx, api)
		if err != nil {
			return err
		}
		c.hasClusterCatalogs.Store(found)
	}
	syncConfig := c.cfg.sync
	syncConfig.BaseURL, syncConfig.Registries, syncConfig.ServerVersion = c.cfg.content.externalURL, c.registries, api.ServerVersionWithContext
	syncConfig.Incomplete = c.cfg.clusterCatalogs && !c.hasClusterCatalogs.Load()
	mgr, err := c.newManager(syncConfig)
	if err != nil {
		return err
	}
	if syncConfig.Incomplete {
		await := func(ctx context.Context) error { return c.awaitClusterCatalogs(ctx, api) }
		if err := mgr.Add(manager.RunnableFunc(await)); err != nil {
			return err
		}
	}
	engine := &catalogsync.Engine{
		Client:     mgr.GetClient(),
		Live:       mgr.GetAPIReader(),
		Store:      c.store,
		Polls:      c.polls,
		Metrics:    c.metrics,
		Recorder:   mgr.GetEventRecorder("catalogd"),
		Clock:      clock.RealClock{},
		Tracer:     c.tracer,
		Config:     syncConfig,
		Prefetched: c.prefetched(),
		Mirrors: []catalogsync.Mirror{
			clustercatalog.Mirror{
				Kind: c.clusterCatalog(), Enabled: c.hasClusterCatalogs.Load(), Client: mgr.GetClient(), Live: mgr.GetAPIReader(),
			},
			c.offers(mgr),
		},
	}
	if c.registryAPI != nil {
		engine.Prepare = c.registryAPI.Prepare
	}
	if c.lease != nil { // a nil *Lease is no nil Leadership
		engine.Leadership = c.lease
	}
	if err := engine.Register(mgr, c.kinds()...); err != nil {
		return err
	}
	c.engine.Store(engine)
	defer c.engine.Store(nil)
	defer c.cache.Store(nil)
	defer c.working.Store(false)
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return c.follow(ctx, mgr) })); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// knowsClusterCatalogs reports whether the API server has the CRD of ClusterCatalogs.
func knowsClusterCatalogs(ctx context.Context, api *discovery.DiscoveryClient) (bool, error) {
	resources, err := api.ServerResourcesForGroupVersionWithContext(ctx, olmv1.GroupVersion.String())
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return slices.ContainsFunc(resources.APIResources, func(r metav1.APIResource) bool { return r.Kind == "ClusterCatalog" }), nil
}

// awaitClusterCatalogs ends with an error once the API server has the CRD of ClusterCatalogs.
func (c *cluster) awaitClusterCatalogs(ctx context.Context, api *discovery.DiscoveryClient) error {
	c.logger.Error("--cluster-catalogs is set, but the API server has no CRD of ClusterCatalogs; CatalogSources are served without: " +
		"apply config/crd/olmv1, or remove the flag")
	return wait.PollUntilContextCancel(ctx, 10*time.Second, false, func(ctx context.Context) (bool, error) {
		if found, err := knowsClusterCatalogs(ctx, api); err == nil && found {
			return false, errors.New("the CRD of ClusterCatalogs was created; starting again with them")
		}
		return false, nil
	})
}

// follow records when the cache of a manager is synced, until ctx ends.
func (c *cluster) follow(ctx context.Context, mgr manager.Manager) error {
	for _, kind := range c.kinds() {
		if _, err := mgr.GetCache().GetInformer(ctx, kind.New()); err != nil { // waits for the sync
			return err
		}
	}
	reader := client.Reader(mgr.GetClient())
	c.cache.Store(&reader)
	if err := catalogsync.WaitForCache(ctx, mgr.GetCache(), c.kinds()...); err != nil {
		return err
	}
	c.working.Store(true)
	<-ctx.Done()
	return nil
}

func (c *cluster) newManager(cfg catalogsync.Config) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme), olmv1.AddToScheme(scheme),
		v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	fenced := rest.CopyConfig(c.rest)
	if c.lease != nil {
		fenced.Wrap(c.lease.Fence)
	}
	return ctrl.NewManager(fenced, ctrl.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"}, // run serves them, also without a manager
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject:         cfg.Watched(c.kinds()...),
			// Memory holds the sources only, and the metadata of OperatorPackages, Secrets and ConfigMaps.
			ReaderFailOnMissingInformer: true,
		},
	})
}

// source returns the source of a catalog as the cache has it.
func (c *cluster) source(catalog string) (src source.Source, ok bool) {
	reader := c.cache.Load()
	if reader == nil {
		return src, false
	}
	src, err := catalogsync.Get(context.Background(), *reader, catalog, c.kinds()...) // from memory, without waiting
	return src, err == nil
}

// pollTimes returns the times of the last and the next poll of a catalog.
func (c *cluster) pollTimes(catalog string) (last, next time.Time) {
	entry := c.polls.Get(catalog)
	return entry.Last, entry.Next
}

// priority returns the priority of a catalog, by which results of several catalogs are ordered; 0 while it is unknown.
func (c *cluster) priority(catalog string) int32 {
	src, _ := c.source(catalog)
	return src.Priority
}

// awaited returns what this replica should serve of a catalog but does not yet.
func (c *cluster) awaited(catalog string) serve.Awaited {
	reader := c.cache.Load()
	if reader == nil {
		return serve.Awaited{Unknown: true}
	}
	src, err := catalogsync.Get(context.Background(), *reader, catalog, c.kinds()...) // from memory, as in source
	if err != nil {
		return serve.Awaited{Unknown: !apierrors.IsNotFound(err)}
	}
	return serve.Awaited{Exists: src.State == source.Available, Digest: catalogsync.Awaited(src, c.store)}
}

// list returns the sources of all catalogs in the cache.
func (c *cluster) list() []source.Source {
	reader := c.cache.Load()
	if reader == nil {
		return nil
	}
	sources, err := catalogsync.List(context.Background(), *reader, c.kinds()...) // from memory, as in source
	if err != nil {
		return nil
	}
	return sources
}

// sources returns all catalogs for the content service.
func (c *cluster) sources() []serve.Source {
	var out []serve.Source
	for _, src := range c.list() {
		s := serve.Source{
			Name: src.Name, Image: cmp.Or(src.Image.Template, src.Image.Ref), DisplayName: src.Names.Display,
			Publisher: src.Names.Publisher, Description: src.Names.Description, Priority: src.Priority,
		}
		for _, condition := range src.Observed.Conditions {
			s.Conditions = append(s.Conditions, serve.Condition{
				Type: condition.Type, Status: string(condition.Status), Reason: condition.Reason, Message: condition.Message,
				LastTransitionTime: condition.LastTransitionTime.UTC(),
			})
		}
		out = append(out, s)
	}
	return out
}

// expected returns the catalogs that await a digest.
func (c *cluster) expected() (names []string) {
	for _, src := range c.list() {
		if catalogsync.Awaited(src, c.store) != "" {
			names = append(names, src.Name)
		}
	}
	return names
}
