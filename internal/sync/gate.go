package sync

import (
	"maps"
	"slices"
	stdsync "sync"
)

// gate limits the images that are unpacked concurrently, and to half of that those of one registry: a slow registry must not
// delay catalogs of others. A catalog without a slot waits in a queue, not on a worker. It is woken when a slot frees up, and
// the slot is reserved for it. The zero value is ready for use.
type gate struct {
	mu    stdsync.Mutex
	slots int            // of the last call of enter
	hosts map[string]int // slots in use, by registry
	line  []waiter       // in order of arrival
}

// waiter is a catalog that waits for a slot for an image of a registry.
type waiter struct {
	catalog, host string
	wake          func(catalog string) // requeues the catalog without blocking; nil: it is never woken
	woken         bool                 // woken, and not back yet
}

// enter takes one of the slots for an image of a registry; the caller calls leave afterwards. If none is free, ok is false,
// and wake is called when one is. The catalog keeps its position in the queue.
func (g *gate) enter(catalog, host string, slots int, wake func(catalog string)) (leave func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hosts == nil {
		g.hosts = map[string]int{}
	}
	g.slots = slots
	at := slices.IndexFunc(g.line, func(w waiter) bool { return w.catalog == catalog })
	if at < 0 {
		at = len(g.line)
		g.line = append(g.line, waiter{})
	}
	g.line[at] = waiter{catalog: catalog, host: host, wake: wake} // a slot that was reserved for it is free again
	if !g.hasSlot(host, g.taken()) {
		return nil, false
	}
	g.line = slices.Delete(g.line, at, at+1)
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

// passed ends a pass over a catalog. A slot that was reserved for it and is unused goes to others.
func (g *gate) passed(catalog string, waits bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !waits {
		g.line = slices.DeleteFunc(g.line, func(w waiter) bool { return w.catalog == catalog })
	}
	g.offer()
}

// offer wakes as many waiters as there are free slots, in order of arrival.
func (g *gate) offer() {
	if len(g.line) == 0 {
		return
	}
	taken := g.taken()
	for i := range g.line {
		if w := &g.line[i]; w.wake != nil && !w.woken && g.hasSlot(w.host, taken) {
			taken[w.host]++
			w.woken = true
			w.wake(w.catalog)
		}
	}
}

// taken returns the slots in use or reserved, by registry.
func (g *gate) taken() map[string]int {
	taken := maps.Clone(g.hosts)
	for _, w := range g.line {
		if w.woken {
			taken[w.host]++
		}
	}
	return taken
}

// hasSlot reports whether a slot for an image of a registry is free, given the taken ones.
func (g *gate) hasSlot(host string, taken map[string]int) bool {
	all := 0
	for _, used := range taken {
		all += used
	}
	return all < g.slots && taken[host] < max(1, g.slots/2)
}
