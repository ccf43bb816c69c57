package listen

import (
	"container/list"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// table holds the open connections of a port and decides who gives way.
//
// A connection waits from when it was taken, and again from when its last request was answered, until the next request was read
// whole: in the TLS handshake, in a header, in a body, or idle. It is busy while it is answered; over HTTP/2, while any of its
// streams is. Who gives way when one more comes:
//
//  1. the one that has waited longest, unless even that has only just come: all get the time to be prompt;
//  2. of those whose client does not take the reply that is being written to it, the one that has not for longest;
//  3. when not one waits, the one that has been silent for longest: event streams must not keep everybody else out.
//
// If none may go yet, the next client waits. So a request that is being worked on is never cut while there is any other choice.
type table struct {
	maxConns, maxRequests int
	prompt                time.Duration // how long a connection may wait, whatever comes
	stalled, silent       time.Duration // after how long without progress a busy one may give way

	mu       sync.Mutex
	waiting  list.List // of *conn; the front has waited longest
	busy     map[*conn]struct{}
	requests int // whose handler runs, of all connections here

	changed chan struct{} // holds a token after a place may have become free; only Accept waits, and there is one
	evicted prometheus.Counter
}

// place is what the table knows of a connection.
type place struct {
	element   *list.Element // in table.waiting; nil: busy, or gone
	since     time.Time     // when it began to wait
	handlers  int           // requests whose handler runs
	answering int           // those of them that were read whole
	gone      bool          // it was closed, and counts no more; its handlers may still be about to notice
}

func newTable(cfg Config) *table {
	return &table{
		maxConns:    cfg.MaxConnections,
		maxRequests: requestsPer * cfg.MaxConnections,
		prompt:      cfg.prompt,
		stalled:     cfg.Stall / 30, // 1 s of the default
		silent:      cfg.Stall / 6,  // 5 s
		busy:        map[*conn]struct{}{},
		changed:     make(chan struct{}, 1),
		evicted: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "catalogd", Name: "connections_evicted_total", Help: "Connections that were closed to make room for others.",
		}),
	}
}

func (t *table) register(registry prometheus.Registerer, port string) error {
	if registry == nil {
		return nil
	}
	registry = prometheus.WrapRegistererWith(prometheus.Labels{"port": port}, registry)
	if err := registry.Register(t.evicted); err != nil {
		return err
	}
	return registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "catalogd", Name: "connections", Help: "Open connections.",
	}, func() float64 {
		t.mu.Lock()
		defer t.mu.Unlock()
		return float64(t.open())
	}))
}

func (t *table) open() int { return t.waiting.Len() + len(t.busy) }

// admit gives c a place, and waits for one if it must; false: closed was closed meanwhile.
func (t *table) admit(c *conn, closed <-chan struct{}) bool {
	for {
		wait := t.tryAdmit(c)
		if wait <= 0 {
			return true
		}
		timer := time.NewTimer(wait)
		select {
		case <-closed:
			timer.Stop()
			return false
		case <-t.changed:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// tryAdmit gives c a place, or tells when to look again though nothing changes.
func (t *table) tryAdmit(c *conn) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open() >= t.maxConns {
		victim, wait := t.whoGivesWay()
		if wait > 0 {
			return wait
		}
		t.evict(victim)
	}
	t.wait(c)
	return 0
}

func (t *table) wait(c *conn) {
	c.since = time.Now()
	c.element = t.waiting.PushBack(c)
}

// whoGivesWay returns the connection that does, or how long until one may.
func (t *table) whoGivesWay() (victim *conn, wait time.Duration) {
	front := t.waiting.Front()
	if front != nil {
		victim = front.Value.(*conn)
		if wait = t.prompt - time.Since(victim.since); wait <= 0 {
			return victim, 0
		}
	}
	stalled, silent := t.oldest((*conn).isWriting), t.oldest(func(*conn) bool { return true })
	switch {
	case stalled != nil && stalled.quiet() > t.stalled:
		return stalled, 0
	case front != nil:
		return nil, wait
	case silent != nil && silent.quiet() > t.silent:
		return silent, 0
	}
	return nil, t.stalled
}

// oldest returns the busy connection whose last progress was longest ago, of those that are meant.
func (t *table) oldest(meant func(*conn) bool) (found *conn) {
	for c := range t.busy {
		if meant(c) && (found == nil || c.progress.Load() < found.progress.Load()) {
			found = c
		}
	}
	return found
}

// evict closes a connection. The goroutine that serves it ends by the error of its next read or write. What the kernel still has
// of a reply that was finished is sent; of a reply in the middle it is dropped.
func (t *table) evict(c *conn) {
	if c.answering > 0 {
		_ = c.SetLinger(0)
	}
	t.forget(c)
	t.evicted.Inc()
	_ = c.TCPConn.Close()
}

func (t *table) forget(c *conn) {
	if c.gone {
		return
	}
	c.gone = true
	t.requests -= c.handlers
	if c.element != nil {
		t.waiting.Remove(c.element)
	}
	delete(t.busy, c)
	t.wake()
}

func (t *table) wake() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// remove takes a connection out that was closed.
func (t *table) remove(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(c)
}

// begin counts a request that a handler now gets. Connections are bounded, but one of HTTP/2 carries many requests: past the
// bound of all requests in hand, the connection that has the most gives way.
func (t *table) begin(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.gone {
		return
	}
	c.handlers++
	t.requests++
	if t.requests <= t.maxRequests {
		return
	}
	most := c
	for other := range t.busy {
		if other.handlers > most.handlers {
			most = other
		}
	}
	for e := t.waiting.Front(); e != nil; e = e.Next() {
		if other := e.Value.(*conn); other.handlers > most.handlers {
			most = other
		}
	}
	t.evict(most)
}

// answer notes that a request that began was read whole.
func (t *table) answer(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.gone {
		return
	}
	c.answering++
	c.progressed()
	if c.element != nil {
		t.waiting.Remove(c.element)
		c.element = nil
		t.busy[c] = struct{}{}
	}
}

// end notes that the handler of a request returned; answered: that it was read whole.
func (t *table) end(c *conn, answered bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.gone {
		return
	}
	c.handlers--
	t.requests--
	if !answered {
		return
	}
	c.answering--
	if c.answering == 0 {
		delete(t.busy, c)
		t.wait(c)
		t.wake()
	}
}
