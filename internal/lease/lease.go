// Package lease elects the leader of several replicas. It is client-go's leader election, by a Lease in the API
// server, with three additions: a replica knows how long it surely holds the lease, and makes no write after
// that (see Fence); a replica that has not caught up waits for those that have; and one that does not work gives
// the lease up.
package lease

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=catalogd-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=catalogd-system,resources=leases,resourceNames=catalogd,verbs=get;update

// standBack is how long a replica that has not caught up leaves a free lease to others.
const standBack = time.Minute

// Config configures a Lease.
type Config struct {
	Client    coordinationv1.LeasesGetter
	Namespace string
	Name      string
	Identity  string // of this process; another process of the same pod needs another one

	Duration      time.Duration // of the lease: how long others wait for a lost leader
	RenewDeadline time.Duration // how long a leader that cannot renew the lease continues; less than Duration
	RetryPeriod   time.Duration // interval between attempts to renew or acquire the lease

	CaughtUp func(context.Context) error // its error is why another replica should lead; nil: no check
	Working  func(context.Context) error // its error is why this replica must not lead; nil: no check

	Clock  clock.PassiveClock
	Logger *slog.Logger
}

// Lease is a lease that this replica holds, or waits for while Run runs. Its methods may be called concurrently.
type Lease struct {
	cfg  Config
	lock resourcelock.Interface

	mu      sync.Mutex
	asked   time.Time       // when the last successful request for the lease was sent; zero: not held
	term    context.Context // of writes while the lease is held; else nil
	end     context.CancelFunc
	free    time.Time // since when the lease is free and left to others; zero: not free
	renewed time.Time // the holder's last renewal
	changed chan struct{}
}

// New returns a lease that is not requested before Run.
func New(cfg Config) *Lease {
	l := &Lease{cfg: cfg, changed: make(chan struct{})}
	l.lock = &lock{lease: l, LeaseLock: resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: cfg.Namespace, Name: cfg.Name},
		Client:     cfg.Client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: cfg.Identity},
	}}
	return l
}

// Run takes part in the election until ctx ends, then releases the lease. Its error is one of the configuration.
func (l *Lease) Run(ctx context.Context) error {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            l.lock,
		Name:            l.cfg.Name,
		LeaseDuration:   l.cfg.Duration,
		RenewDeadline:   l.cfg.RenewDeadline,
		RetryPeriod:     l.cfg.RetryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { l.cfg.Logger.Info("this replica is the leader", "identity", l.cfg.Identity) },
			OnStoppedLeading: func() { l.keep(time.Time{}); l.cfg.Logger.Info("this replica is not the leader") },
			OnNewLeader: func(identity string) {
				if identity != l.cfg.Identity {
					l.cfg.Logger.Info("another replica is the leader", "identity", identity)
				}
			},
		},
	})
	if err != nil {
		return fmt.Errorf("preparing the leader election: %w", err)
	}
	l.catchUp(ctx)
	for ctx.Err() == nil {
		elector.Run(ctx) // until the lease is lost
	}
	return nil
}

// catchUp waits until this replica has caught up, or standBack is over. The elector would retry as well, but log
// errors.
func (l *Lease) catchUp(ctx context.Context) {
	if l.cfg.CaughtUp == nil {
		return
	}
	tick := time.NewTicker(l.cfg.RetryPeriod)
	defer tick.Stop()
	for began := l.cfg.Clock.Now(); ; {
		if err := l.cfg.CaughtUp(ctx); err == nil || ctx.Err() != nil {
			return
		}
		if l.cfg.Clock.Since(began) >= standBack {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.free = began
			return
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// Left returns how long this replica surely holds the lease; 0 if it does not, or if that is uncertain. Others
// acquire it no sooner than Duration after the renewal. Work in progress has the time between RenewDeadline and
// Duration to end.
func (l *Lease) Left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left()
}

// left is Left for a caller that holds mu.
func (l *Lease) left() time.Duration {
	if l.asked.IsZero() {
		return 0
	}
	since := l.cfg.Clock.Since(l.asked)
	if since >= l.cfg.RenewDeadline {
		return 0
	}
	return l.cfg.Duration - since
}

// Changed returns a channel that is closed when the lease is next acquired or lost. To miss no change, call it
// before Left.
func (l *Lease) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// lock is the Lease object. It passes what it reads and writes to lease.
type lock struct {
	resourcelock.LeaseLock
	lease *Lease
}

// Get implements resourcelock.Interface.
func (k *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := k.LeaseLock.Get(ctx)
	if err == nil {
		k.lease.observe(record)
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (k *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return k.lease.take(ctx, record, k.LeaseLock.Create)
}

// Update implements resourcelock.Interface.
func (k *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return k.lease.take(ctx, record, k.LeaseLock.Update)
}

// observe records the holder in the Lease object: another holder, or a renewal, after which the lease is not
// free.
func (l *Lease) observe(record *resourcelock.LeaderElectionRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if record.HolderIdentity != l.cfg.Identity {
		l.note(time.Time{})
	}
	if renewed := record.RenewTime.Time; record.HolderIdentity != "" && !renewed.Equal(l.renewed) {
		if !l.renewed.IsZero() { // the first record may be of a lost holder
			l.free = time.Time{}
		}
		l.renewed = renewed
	}
}

// take makes a write that acquires, renews or releases the lease.
func (l *Lease) take(
	ctx context.Context, record resourcelock.LeaderElectionRecord, write func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	if record.HolderIdentity != l.cfg.Identity { // released; before the write, after which another may hold it
		l.keep(time.Time{})
		return write(ctx, record)
	}
	if err := l.unfit(ctx); err != nil {
		return err
	}
	asked := l.cfg.Clock.Now()
	err := write(ctx, record)
	if err == nil {
		l.keep(asked)
	}
	return err
}

// keep records when the held lease was requested; zero: it is lost, and writes in progress are canceled. It
// closes the channel of Changed on a change, and also if the lease had expired in between: others may have acted
// as if it were lost.
func (l *Lease) keep(asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note(asked)
}

// note is keep for a caller that holds mu.
func (l *Lease) note(asked time.Time) {
	ranOut := l.left() == 0
	l.asked = asked
	ours, isOurs := l.term != nil, !asked.IsZero()
	switch {
	case ours && !isOurs:
		l.end()
		l.term = nil
	case !ours && isOurs:
		l.term, l.end = context.WithCancel(context.Background())
	}
	if ours != isOurs || (isOurs && ranOut) {
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// hold returns Left and the context of writes, which is nil only if Left is 0.
func (l *Lease) hold() (time.Duration, context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left(), l.term
}

// unfit returns why this replica must not acquire or keep the lease.
func (l *Lease) unfit(ctx context.Context) error {
	if l.cfg.Working != nil {
		if err := l.cfg.Working(ctx); err != nil {
			return fmt.Errorf("not ready to lead: %w", err)
		}
	}
	if l.Left() > 0 || l.cfg.CaughtUp == nil {
		return nil
	}
	behind := l.cfg.CaughtUp(ctx)
	if behind == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free.IsZero() {
		l.free = l.cfg.Clock.Now()
	}
	if l.cfg.Clock.Since(l.free) < standBack {
		return fmt.Errorf("leaving the lease to other replicas for a while: %w", behind)
	}
	return nil
}
