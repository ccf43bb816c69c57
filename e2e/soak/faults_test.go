package soak

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

// faults selects the requests to a server that fail, and counts them. It is safe for concurrent use.
type faults struct {
	mu      sync.Mutex
	rng     *rand.Rand
	percent int // share of the requests; 0 means no faults
	counts  map[string]int
}

func newFaults(part string) *faults {
	return &faults{rng: random("faults of the " + part), counts: map[string]int{}}
}

// set sets the percentage of failing requests.
func (f *faults) set(percent int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.percent = percent
}

// pick returns the kind of fault of a request, or "".
func (f *faults) pick(kinds []string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rng.IntN(100) >= f.percent {
		return ""
	}
	kind := kinds[f.rng.IntN(len(kinds))]
	f.counts[kind]++
	return kind
}

// count counts a fault that was injected otherwise.
func (f *faults) count(kind string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[kind]++
}

func (f *faults) int64n(n int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rng.Int64N(n)
}

// total returns the number of faults.
func (f *faults) total() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, count := range f.counts {
		n += count
	}
	return n
}

func (f *faults) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(f.counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", kind, f.counts[kind]))
	}
	return strings.Join(parts, ", ")
}

// gate blocks requests while it is closed. The zero gate is open.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // nil while it is open
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

// pass waits until the gate is open. It returns false if ctx ends first.
func (g *gate) pass(ctx context.Context) bool {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	if opened == nil {
		return true
	}
	select {
	case <-opened:
		return true
	case <-ctx.Done():
		return false
	}
}
