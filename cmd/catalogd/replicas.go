package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/clock"

	"github.com/operator-catalogs/catalogd/internal/lease"
	catalogsync "github.com/operator-catalogs/catalogd/internal/sync"
)

// leaseName is the Lease by which the replicas of a namespace elect the leader.
const leaseName = "catalogd"

// connectTime is how long a starting replica waits for the API server before it is ready with its stored content.
const connectTime = 15 * time.Second

// replicaConfig has the flags of the leader election.
type replicaConfig struct {
	elect bool
	lease lease.Config // its durations
}

// addFlags adds the flags, with the names and defaults that Kubernetes' own components have.
func (r *replicaConfig) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&r.elect, "leader-elect", false,
		"run beside other replicas in this namespace: the leader polls and publishes, the others follow it (default: true in a pod)")
	f.DurationVar(&r.lease.Duration, "leader-elect-lease-duration", 15*time.Second,
		"how long other replicas wait for a lost leader before one of them takes over")
	f.DurationVar(&r.lease.RenewDeadline, "leader-elect-renew-deadline", 10*time.Second,
		"how long a leader that cannot renew its lease continues; less than --leader-elect-lease-duration")
	f.DurationVar(&r.lease.RetryPeriod, "leader-elect-retry-period", 2*time.Second, "interval between attempts to renew or acquire the lease")
}

// complete sets the defaults.
func (r *replicaConfig) complete(f *pflag.FlagSet, inPod bool) {
	if !f.Changed("leader-elect") {
		r.elect = inPod
	}
}

func (r *replicaConfig) validate(check func(ok bool, format string, args ...any)) {
	check(r.lease.Duration >= time.Second &&
		r.lease.Duration%time.Second == 0, "--leader-elect-lease-duration %s is invalid: set whole seconds, at least 1s", r.lease.Duration)
	check(r.lease.Duration > r.lease.RenewDeadline, "--leader-elect-lease-duration %s must be longer than --leader-elect-renew-deadline %s",
		r.lease.Duration, r.lease.RenewDeadline)
	check(r.lease.RetryPeriod > 0, "--leader-elect-retry-period %s must be longer than 0s", r.lease.RetryPeriod)
	check(r.lease.RenewDeadline > 2*r.lease.RetryPeriod,
		"--leader-elect-renew-deadline %s must be longer than twice --leader-elect-retry-period %s", r.lease.RenewDeadline, r.lease.RetryPeriod)
}

// newLease returns the lease for the leader election; nil if there is one replica.
func (c *cluster) newLease() (*lease.Lease, error) {
	cfg := c.cfg.replicas.lease
	if !c.cfg.replicas.elect {
		return nil, nil
	}
	client, err := coordinationv1client.NewForConfig(c.rest)
	if err != nil {
		return nil, fmt.Errorf("creating a client for Leases: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("reading the host name, which identifies this replica: %w", err)
	}
	cfg.Client, cfg.Namespace, cfg.Name = client, c.cfg.sync.Namespace, leaseName
	cfg.Identity = host + "_" + string(uuid.NewUUID()) // the name alone may be that of a pod on a node that is cut off, too
	cfg.CaughtUp, cfg.Working = c.ready, c.fit
	cfg.Clock, cfg.Logger = clock.RealClock{}, c.logger
	return lease.New(cfg), nil
}

// fit returns why this replica must not lead: its caches are not synced, so that it would reconcile nothing, or its volume
// does not respond.
func (c *cluster) fit(ctx context.Context) error {
	if !c.working.Load() {
		return errors.New("waiting for caches to sync")
	}
	return c.store.Ping(ctx)
}

// leadingMetric is 1 while this replica leads.
func (c *cluster) leadingMetric() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "catalogd", Name: "leading", Help: "1 if this replica leads, that is, polls images and publishes packages; else 0.",
	}, func() float64 {
		if c.lease == nil || c.lease.Left() > 0 {
			return 1
		}
		return 0
	})
}

// ready returns why this process is not ready: it does not serve a catalog that has a digest in its status, or nothing is
// stored and the API server is unreachable. The loss of the API server must not end readiness: stored content is served.
//
// A starting replica first brings its content up to date, as far as images are available. It then stays ready while it
// follows changes. Otherwise all followers would leave the Service whenever a catalog changes, and one unavailable catalog
// would keep a replica from serving the others.
func (c *cluster) ready(ctx context.Context) error {
	reader := c.cache.Load()
	if reader == nil {
		return c.readyAlone()
	}
	sources, err := catalogsync.List(ctx, *reader, c.kinds()...)
	if err != nil {
		return fmt.Errorf("listing CatalogSources: %w", err)
	}
	lag := catalogsync.LagOf(sources, c.store, c.polls)
	missing := lag.Missing
	if !c.caughtUp.Load() {
		missing = slices.Sorted(slices.Values(slices.Concat(missing, lag.Failing)))
	}
	switch {
	case len(missing) > 0:
		return fmt.Errorf("not served yet: %s", strings.Join(missing, ", "))
	case len(lag.Behind) > 0 && !c.caughtUp.Load():
		return fmt.Errorf("not brought up to date yet: %s", strings.Join(lag.Behind, ", "))
	}
	c.caughtUp.Store(true)
	return nil
}

// readyAlone returns why this process is not ready while the API server is unreachable. A starting replica waits some time for
// the API server: the other replicas may serve newer content.
func (c *cluster) readyAlone() error {
	switch {
	case len(c.store.Catalogs()) == 0:
		return errors.New("not connected to the API server, and nothing is stored")
	case c.lease != nil && !c.caughtUp.Load() && time.Since(c.began) < connectTime:
		return errors.New("not connected to the API server yet")
	}
	return nil
}
