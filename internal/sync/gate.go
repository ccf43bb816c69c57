package sync

import (
	"context"
	stdsync "sync"

	"golang.org/x/sync/semaphore"
)

// gate bounds how many images are unpacked at a time, and to half of that how many of one registry: one that is slow, but not
// so slow as to be hung up on, must not keep catalogs of others waiting. The zero value is ready for use.
type gate struct {
	mu    stdsync.Mutex
	all   *semaphore.Weighted
	hosts map[string]*hostGate
}

// hostGate is there for as long as somebody is in it, or waits to be.
type hostGate struct {
	*semaphore.Weighted
	users int
}

// enter waits until one more image of a registry may be unpacked, most at a time in all. The caller calls leave afterwards.
// The error is that of ctx.
func (g *gate) enter(ctx context.Context, host string, most int) (leave func(), err error) {
	all, one := g.of(host, most)
	if err := one.Acquire(ctx, 1); err != nil {
		g.release(host)
		return nil, err
	}
	if err := all.Acquire(ctx, 1); err != nil { // holding up none but those of the same registry
		one.Release(1)
		g.release(host)
		return nil, err
	}
	return func() {
		all.Release(1)
		one.Release(1)
		g.release(host)
	}, nil
}

func (g *gate) of(host string, most int) (all *semaphore.Weighted, one *hostGate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hosts == nil {
		g.all, g.hosts = semaphore.NewWeighted(int64(most)), map[string]*hostGate{}
	}
	one = g.hosts[host]
	if one == nil {
		one = &hostGate{Weighted: semaphore.NewWeighted(int64(max(1, most/2)))}
		g.hosts[host] = one
	}
	one.users++
	return g.all, one
}

func (g *gate) release(host string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hosts[host].users--; g.hosts[host].users == 0 {
		delete(g.hosts, host)
	}
}
