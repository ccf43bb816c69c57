package sync

import (
	"maps"
	"slices"
	stdsync "sync"
)

// gate bounds how many images are unpacked at a time, and to half of that how many of one registry: one that is slow, but not
// so slow as to be hung up on, must not keep catalogs of others waiting. A catalog that finds no place is remembered and told when
// there is one, so that it need not hold up a worker until then. The zero value is ready for use.
type gate struct {
	mu      stdsync.Mutex
	wake    func(catalog string) // has a catalog come again; nil: nobody is told
	most    int                  // places, as the last who came said
	hosts   map[string]int       // places taken, by registry
	waiting []waiter             // in the order in which they came
	woken   map[string]string    // the registries of catalogs that were told and have not come yet
}

// waiter is a catalog that found no place for an image of a registry.
type waiter struct{ catalog, host string }

// onPlace says how a catalog is told that there is a place for it. It must not block.
func (g *gate) onPlace(wake func(catalog string)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wake = wake
}

// enter gives a catalog a place for an image of a registry, most being there in all; the catalog calls leave afterwards. If there
// is none, ok is false, and the catalog comes again once it is told.
func (g *gate) enter(catalog, host string, most int) (leave func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hosts == nil {
		g.hosts, g.woken = map[string]int{}, map[string]string{}
	}
	g.most = most
	g.forget(catalog)
	if !g.hasPlace(host, g.hosts) {
		g.waiting = append(g.waiting, waiter{catalog, host})
		return nil, false
	}
	g.hosts[host]++
	return func() { g.leave(host) }, true
}

func (g *gate) leave(host string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hosts[host]--; g.hosts[host] == 0 {
		delete(g.hosts, host)
	}
	g.offer()
}

// passed is called at the end of each pass over a catalog. What it was told and made no use of is offered to others.
func (g *gate) passed(catalog string, waits bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !waits {
		g.forget(catalog)
	}
	g.offer()
}

func (g *gate) forget(catalog string) {
	g.waiting = slices.DeleteFunc(g.waiting, func(w waiter) bool { return w.catalog == catalog })
	delete(g.woken, catalog)
}

// offer tells as many of those that wait as there are places for, first come, first told.
func (g *gate) offer() {
	if len(g.waiting) == 0 || g.wake == nil {
		return
	}
	taken := maps.Clone(g.hosts)
	for _, host := range g.woken {
		taken[host]++
	}
	g.waiting = slices.DeleteFunc(g.waiting, func(w waiter) bool {
		if !g.hasPlace(w.host, taken) {
			return false
		}
		taken[w.host]++
		g.woken[w.catalog] = w.host
		g.wake(w.catalog)
		return true
	})
}

// hasPlace tells whether there is a place for an image of a registry beside those that are taken.
func (g *gate) hasPlace(host string, taken map[string]int) bool {
	all := 0
	for _, places := range taken {
		all += places
	}
	return all < g.most && taken[host] < max(1, g.most/2)
}
