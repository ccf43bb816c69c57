// Package lease lets one of several replicas lead. It is client-go's leader election, by a Lease in the API server, with three things
// added: a replica knows for how long it surely leads, so that it makes no write after that (see Fence); one that has not caught up stands
// back for those that have; and one that does not work any more gives the lease up.
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

// standBack is how long a replica that has not caught up leaves a free lease to others. If nobody took it by then, there is nobody.
const standBack = time.Minute

// Config is what a lease is made of.
type Config struct {
	Client    coordinationv1.LeasesGetter
	Namespace string
	Name      string
	Identity  string // of this process: not even another one of the same pod may have it

	Duration      time.Duration // for how long the lease is given: how long the others wait for a leader that is gone
	RenewDeadline time.Duration // how long a leader that cannot renew the lease goes on; less than Duration
	RetryPeriod   time.Duration // how often the lease is renewed, or asked for

	CaughtUp func(context.Context) error // why another replica should rather lead; nil: nothing
	Working  func(context.Context) error // why this replica must not lead any longer; nil: nothing

	Clock  clock.PassiveClock
	Logger *slog.Logger
}

// Lease is a lease that this replica has, or waits for while it Runs. It is safe for concurrent use.
type Lease struct {
	cfg  Config
	lock resourcelock.Interface

	mu      sync.Mutex
	asked   time.Time       // when the request was sent by which the lease was given or renewed last; zero: it is not ours
	term    context.Context // of the writes that are made while it is ours; nil if it is not
	end     context.CancelFunc
	free    time.Time // since when it could have been taken, and was left to others; zero: it is not free
	renewed time.Time // when its holder says that it renewed it last
	changed chan struct{}
}

// New makes a lease that nobody asks for yet.
func New(cfg Config) *Lease {
	l := &Lease{cfg: cfg, changed: make(chan struct{})}
	l.lock = &lock{lease: l, LeaseLock: resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: cfg.Namespace, Name: cfg.Name},
		Client:     cfg.Client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: cfg.Identity},
	}}
	return l
}

// Run takes part in the election until ctx ends, and gives the lease up then. Its error is one of the configuration.
func (l *Lease) Run(ctx context.Context) error {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            l.lock,
		Name:            l.cfg.Name,
		LeaseDuration:   l.cfg.Duration,
		RenewDeadline:   l.cfg.RenewDeadline,
		RetryPeriod:     l.cfg.RetryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { l.cfg.Logger.Info("this replica leads", "identity", l.cfg.Identity) },
			OnStoppedLeading: func() { l.keep(time.Time{}); l.cfg.Logger.Info("this replica does not lead") },
			OnNewLeader: func(identity string) {
				if identity != l.cfg.Identity {
					l.cfg.Logger.Info("another replica leads", "identity", identity)
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

// catchUp waits until this replica has caught up, or others had their time to lead. The elector would ask as well, and make an error of it.
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

// Left is for how long the lease is this replica's, whatever happens; 0 if it is not, or not for sure. Others take it no sooner than Duration
// after the API server renewed it, which was after it was asked to. What is begun has the time between RenewDeadline and Duration
// to end.
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

// Changed returns a channel that is closed when the lease is got or lost next. Whoever does not want to miss that asks for the channel
// before Left.
func (l *Lease) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// lock is the Lease object, with an eye on what becomes of it.
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

// observe notes who has the lease: that somebody renewed it, so that it is not free; or that it is not ours, whatever we thought.
func (l *Lease) observe(record *resourcelock.LeaderElectionRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if record.HolderIdentity != l.cfg.Identity {
		l.note(time.Time{})
	}
	if renewed := record.RenewTime.Time; record.HolderIdentity != "" && !renewed.Equal(l.renewed) {
		if !l.renewed.IsZero() { // the first that is seen may be of one that is long gone
			l.free = time.Time{}
		}
		l.renewed = renewed
	}
}

// take makes a write that takes the lease, renews it, or gives it up.
func (l *Lease) take(ctx context.Context, record resourcelock.LeaderElectionRecord, write func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	if record.HolderIdentity != l.cfg.Identity { // given up; before the write, as another may have it from then on
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

// keep notes when the lease was asked for that is ours now; zero: it is not any more, and what is being written under it ends. Who waits for
// Changed is told, also if it had run out meanwhile and its holder did not change: something may have been done as if it were not ours.
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

// hold is Left with the term of it, which is nil only if nothing is left.
func (l *Lease) hold() (time.Duration, context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left(), l.term
}

// unfit tells why this replica is not to have the lease, or not to have it yet.
func (l *Lease) unfit(ctx context.Context) error {
	if l.cfg.Working != nil {
		if err := l.cfg.Working(ctx); err != nil {
			return fmt.Errorf("not fit to lead: %w", err)
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
		return fmt.Errorf("leaving the lead to others for a while: %w", behind)
	}
	return nil
}
