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
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/operator-catalogs/catalogd/internal/lease"
	catalogsync "github.com/operator-catalogs/catalogd/internal/sync"
)

// leaseName is the Lease by which replicas of one namespace find out which of them leads.
const leaseName = "catalogd"

// connectTime is how long a replica that begins waits for the API server before it is ready with what it has.
const connectTime = 15 * time.Second

// replicaConfig is how this catalogd shares the work with others.
type replicaConfig struct {
	elect         bool
	leaseDuration time.Duration
	renewDeadline time.Duration
	retryPeriod   time.Duration
}

// addFlags adds the flags, with the names and defaults that Kubernetes' own components have.
func (r *replicaConfig) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&r.elect, "leader-elect", false, "serve beside other replicas in this namespace: one leads, which polls and publishes, the others follow it (default: true in a pod)")
	f.DurationVar(&r.leaseDuration, "leader-elect-lease-duration", 15*time.Second, "how long others wait for a leader that is gone before one of them leads")
	f.DurationVar(&r.renewDeadline, "leader-elect-renew-deadline", 10*time.Second, "how long a leader goes on that cannot renew its lease; less than --leader-elect-lease-duration")
	f.DurationVar(&r.retryPeriod, "leader-elect-retry-period", 2*time.Second, "how often the lease is renewed, or asked for")
}

// complete decides what nobody said.
func (r *replicaConfig) complete(f *pflag.FlagSet, inPod bool) {
	if !f.Changed("leader-elect") {
		r.elect = inPod
	}
}

func (r *replicaConfig) validate(check func(ok bool, format string, args ...any)) {
	check(r.leaseDuration >= time.Second && r.leaseDuration%time.Second == 0, "--leader-elect-lease-duration %s cannot be: it has to be whole seconds, 1s or more", r.leaseDuration)
	check(r.leaseDuration > r.renewDeadline, "--leader-elect-lease-duration %s has to be longer than --leader-elect-renew-deadline %s: make it longer", r.leaseDuration, r.renewDeadline)
	check(r.retryPeriod > 0, "--leader-elect-retry-period %s is too short: it has to be more than 0s", r.retryPeriod)
	check(r.renewDeadline > 2*r.retryPeriod, "--leader-elect-renew-deadline %s has to be longer than twice --leader-elect-retry-period %s: make it longer", r.renewDeadline, r.retryPeriod)
}

// newLease makes the lease by which this replica may lead; nil if there are no others.
func (c *cluster) newLease() (*lease.Lease, error) {
	cfg := c.cfg.replicas
	if !cfg.elect {
		return nil, nil
	}
	clients, err := kubernetes.NewForConfig(c.rest)
	if err != nil {
		return nil, fmt.Errorf("making a client of the API server: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("finding a name for this replica: %w", err)
	}
	return lease.New(lease.Config{
		Client:        clients.CoordinationV1(),
		Namespace:     c.cfg.namespace,
		Name:          leaseName,
		Identity:      host + "_" + string(uuid.NewUUID()), // the name alone may be that of a pod on a node that is cut off, too
		Duration:      cfg.leaseDuration,
		RenewDeadline: cfg.renewDeadline,
		RetryPeriod:   cfg.retryPeriod,
		CaughtUp:      c.ready,
		Working:       c.fit,
		Clock:         clock.RealClock{},
		Logger:        c.logger,
	}), nil
}

// fit tells why this replica must not lead, whoever else could: what its controller needs of the API server does not come, so that it would
// look at no catalog; or its volume does not answer.
func (c *cluster) fit(ctx context.Context) error {
	if !c.working.Load() {
		return errors.New("the API server does not give all that is watched")
	}
	return c.store.Ping(ctx)
}

// leadingMetric is 1 as long as this replica leads.
func (c *cluster) leadingMetric() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "catalogd", Name: "leading", Help: "1 if this replica leads: it polls images and publishes packages; else 0.",
	}, func() float64 {
		if c.lease == nil || c.lease.Left() > 0 {
			return 1
		}
		return 0
	})
}

// ready tells why this process is not ready: a catalog that has a digest in its status is not served here, or nothing is stored
// and nobody can say what should be. It must not get worse by a lost API server: what is stored goes on being served.
//
// A replica that begins brings what it has up to date first, as far as that can be had. From then on it stays ready while it follows changes: else
// all replicas but the leader would leave the Service at once whenever a catalog changes; and one catalog that cannot be had would keep it from
// serving the others.
func (c *cluster) ready(ctx context.Context) error {
	reader := c.cache.Load()
	if reader == nil {
		return c.readyAlone()
	}
	sources, err := catalogsync.List(ctx, *reader, kinds...)
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

// readyAlone tells why this process is not ready while nobody can say what should be served. One that begins beside others gives the API server
// some time to say so: meanwhile they serve what is newer than what it may have.
func (c *cluster) readyAlone() error {
	switch {
	case len(c.store.Catalogs()) == 0:
		return errors.New("not connected to the API server, and nothing is stored")
	case c.lease != nil && !c.caughtUp.Load() && time.Since(c.began) < connectTime:
		return errors.New("not connected to the API server yet")
	}
	return nil
}
