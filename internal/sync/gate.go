package sync

import (
	"maps"
	"slices"
	stdsync "sync"
)

// gate bounds how many images are unpacked at a time, and to half of that how many of one registry: one that is slow, but not
// so slow as to be hung up on, must not keep catalogs of others waiting. A catalog that finds no place stands in a line and is told when
// there is one, so that it need not hold up a worker until then; the place is kept for it. The zero value is ready for use.
type gate struct {
	mu    stdsync.Mutex
	most  int            // places, as the last who came said
	hosts map[string]int // places taken, by registry
	line  []waiter       // in the order in which they came
}

// waiter is a catalog that found no place for an image of a registry.
type waiter struct {
	catalog, host string
	wake          func(catalog string) // requeues the catalog and does not block; nil: nobody is told
	told          bool                 // woken, and not there yet
}

// enter gives a catalog a place for an image of a registry, most being there in all; the catalog calls leave afterwards. If there
// is none, ok is false, and the catalog comes again once it is told; it stays where it is in the line.
func (g *gate) enter(catalog, host string, most int, wake func(catalog string)) (leave func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hosts == nil {
		g.hosts = map[string]int{}
	}
	g.most = most
	at := slices.IndexFunc(g.line, func(w waiter) bool { return w.catalog == catalog })
	if at < 0 {
		at = len(g.line)
		g.line = append(g.line, waiter{})
	}
	g.line[at] = waiter{catalog: catalog, host: host, wake: wake} // its own place, if it was told of one, is not taken
	if !g.hasPlace(host, g.taken()) {
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

// passed is called at the end of each pass over a catalog. What it was told and made no use of is offered to others.
func (g *gate) passed(catalog string, waits bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !waits {
		g.line = slices.DeleteFunc(g.line, func(w waiter) bool { return w.catalog == catalog })
	}
	g.offer()
}

// offer tells as many of those that wait as there are places for, first come, first told.
func (g *gate) offer() {
	if len(g.line) == 0 {
		return
	}
	taken := g.taken()
	for i := range g.line {
		if w := &g.line[i]; w.wake != nil && !w.told && g.hasPlace(w.host, taken) {
			taken[w.host]++
			w.told = true
			w.wake(w.catalog)
		}
	}
}

// taken are the places, by registry, that are taken or kept for those who were told.
func (g *gate) taken() map[string]int {
	taken := maps.Clone(g.hosts)
	for _, w := range g.line {
		if w.told {
			taken[w.host]++
		}
	}
	return taken
}

// hasPlace tells whether there is a place for an image of a registry beside those that are taken.
func (g *gate) hasPlace(host string, taken map[string]int) bool {
	all := 0
	for _, places := range taken {
		all += places
	}
	return all < g.most && taken[host] < max(1, g.most/2)
}
