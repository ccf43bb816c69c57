package listen

import (
	"cmp"
	"container/list"
	"iter"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// table holds the open connections of a port and chooses the one to evict.
//
// A connection waits from its start, and after each response, until the next request is complete: in the TLS handshake, in a
// header, in a body, or idle. It is busy while a request is answered. When a new connection needs a place, the table evicts:
//
//  1. the one that has waited longest, at least prompt;
//  2. otherwise, of those whose client stalls in a response, the one with the oldest progress;
//  3. otherwise, of those that are silent, such as event streams, the one with the oldest progress.
//
// If none qualifies, the new connection waits. So a request that is being answered is safe for the time silent, and a
// response as long as its client keeps pace.
type table struct {
	maxConns, maxRequests int
	prompt                time.Duration // before a waiting connection is evicted

	// The times without progress before a busy connection can be evicted. A slow reader opens its window only every several
	// seconds, so it may take stalled for a piece if it takes a piece each pace on average.
	pace, stalled, silent time.Duration

	mu       sync.Mutex
	waiting  list.List // of *conn; the front has waited longest
	busy     map[*conn]struct{}
	requests int // in flight, of all open connections
	leaving  int // in flight, of closed connections; their handlers still hold memory

	pieces  sync.Pool     // of *[pieceSize]byte, buffers of connections
	changed chan struct{} // receives when a place may be free; only the one Accept waits for it
	evicted prometheus.Counter
}

// place is the state of a connection in the table.
type place struct {
	element   *list.Element // in table.waiting; nil: busy or closed
	since     time.Time     // when it began to wait
	requests  int           // in flight
	answering int           // those of them that are complete
	busySince time.Time     // when answering became 1
	closed    bool          // it no longer counts; its handlers may still run
	tag       string        // set by Tag
	draining  bool          // it is closed once no request is in flight
}

func newTable(cfg Config) *table {
	return &table{
		maxConns:    cfg.MaxConnections,
		maxRequests: requestsPer * cfg.MaxConnections,
		prompt:      cfg.prompt,
		pace:        cfg.Stall / 30, // 1 s of the default
		stalled:     cfg.Stall / 3,  // 10 s
		silent:      cfg.Stall / 6,  // 5 s
		busy:        map[*conn]struct{}{},
		pieces:      sync.Pool{New: func() any { return new([pieceSize]byte) }},
		changed:     make(chan struct{}, 1),
		evicted: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "catalogd", Name: "connections_evicted_total", Help: "Connections closed to make room for others.",
		}),
	}
}

func (t *table) register(registry prometheus.Registerer, port string) error {
	registry = prometheus.WrapRegistererWith(prometheus.Labels{"port": port}, registry) // no-op for nil
	connections := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "catalogd", Name: "connections", Help: "Open connections.",
	}, func() float64 {
		t.mu.Lock()
		defer t.mu.Unlock()
		return float64(t.open())
	})
	return cmp.Or(registry.Register(t.evicted), registry.Register(connections))
}

// piece returns a buffer of pieceSize bytes until putPiece.
func (t *table) piece() []byte { return t.pieces.Get().(*[pieceSize]byte)[:] }

func (t *table) putPiece(piece []byte) { t.pieces.Put((*[pieceSize]byte)(piece[:pieceSize])) }

func (t *table) open() int { return t.waiting.Len() + len(t.busy) }

// admit adds c and waits for a place if necessary. It returns false if closed is closed meanwhile.
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

// tryAdmit adds c, or returns how long to wait before the next attempt if nothing changes.
func (t *table) tryAdmit(c *conn) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leaving > maxStreams {
		return t.prompt
	}
	if t.open() >= t.maxConns {
		victim, wait := t.victim()
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

// victim returns the connection to evict, or how long to wait before the next attempt.
func (t *table) victim() (victim *conn, wait time.Duration) {
	now := time.Now()
	wait = min(t.prompt, t.pace)
	if front := t.waiting.Front(); front != nil {
		victim = front.Value.(*conn)
		rest := t.prompt - now.Sub(victim.since)
		if rest <= 0 {
			return victim, 0
		}
		wait = min(wait, rest)
	}
	for _, evictable := range []func(*conn, time.Time) bool{t.isStalled, t.isSilent} {
		if victim := t.oldest(now, evictable); victim != nil {
			return victim, 0
		}
	}
	return nil, wait
}

// isStalled reports whether the client does not read a response: it took nothing for the time stalled, or for pace after being
// slower than a piece each pace.
func (t *table) isStalled(c *conn, now time.Time) bool {
	quiet := now.Sub(time.Unix(0, c.progress.Load()))
	if !c.isWriting() || quiet <= t.pace {
		return false
	}
	return quiet > t.stalled || float64(c.taken.Load()) < pieceSize*float64(now.Sub(c.busySince))/float64(t.pace)
}

func (t *table) isSilent(c *conn, now time.Time) bool {
	return !c.isWriting() && now.Sub(time.Unix(0, c.progress.Load())) > t.silent
}

// oldest returns the evictable busy connection with the oldest progress, nil if there is none.
func (t *table) oldest(now time.Time, evictable func(*conn, time.Time) bool) (found *conn) {
	for c := range t.busy {
		if evictable(c, now) && (found == nil || c.progress.Load() < found.progress.Load()) {
			found = c
		}
	}
	return found
}

// evict closes a connection, which fails the next read or write of its goroutine. The kernel still sends a finished response;
// an unfinished one is dropped.
func (t *table) evict(c *conn) {
	if c.answering > 0 {
		_ = c.SetLinger(0)
	}
	t.drop(c)
	t.evicted.Inc()
	_ = c.TCPConn.Close()
}

// drop removes a closed connection from the counts.
func (t *table) drop(c *conn) {
	if c.closed {
		return
	}
	c.closed = true
	t.requests -= c.requests
	t.leaving += c.requests
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

// remove removes a closed connection.
func (t *table) remove(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(c)
}

// begin counts a request before its handler runs. If the requests of all connections exceed the limit, it evicts the
// greediest connection. complete reports whether the request was read to its end; otherwise completed follows. begin returns
// false if the connection is closed.
func (t *table) begin(c *conn, complete bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.closed {
		return false
	}
	c.requests++
	t.requests++
	if t.requests > t.maxRequests {
		t.evict(t.greediest())
	}
	if c.closed { // it was the greediest
		t.leaving--
		t.wake()
		return false
	}
	if complete {
		t.markBusy(c)
	}
	return true
}

// greediest returns the connection with the most requests in flight when there are more than maxRequests, so at least one
// connection has more than requestsPer. Up to modest requests, as a web page sends them, count as equal; of equal connections
// it returns the one with the oldest progress.
func (t *table) greediest() (found *conn) {
	compare := func(a, b *conn) int {
		return cmp.Or(cmp.Compare(max(a.requests, modest), max(b.requests, modest)), cmp.Compare(b.progress.Load(), a.progress.Load()))
	}
	for c := range t.all() {
		if c.requests >= requestsPer && (found == nil || compare(c, found) > 0) {
			found = c
		}
	}
	return found
}

// all returns the open connections.
func (t *table) all() iter.Seq[*conn] {
	return func(yield func(*conn) bool) {
		for c := range t.busy {
			if !yield(c) {
				return
			}
		}
		for e := t.waiting.Front(); e != nil && yield(e.Value.(*conn)); e = e.Next() {
		}
	}
}

// completed records that a request in flight was read to its end.
func (t *table) completed(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.markBusy(c)
}

// markBusy is completed for callers that hold mu.
func (t *table) markBusy(c *conn) {
	if c.closed {
		return
	}
	now := time.Now()
	c.answering++
	if c.answering == 1 {
		c.busySince = now
		c.taken.Store(0)
	}
	c.progressed(now)
	if c.element != nil {
		t.waiting.Remove(c.element)
		c.element = nil
		t.busy[c] = struct{}{}
	}
}

// end records that a request is no longer in flight. complete reports whether it was read to its end.
func (t *table) end(c *conn, complete bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.closed {
		t.leaving--
		t.wake()
		return
	}
	c.requests--
	t.requests--
	t.closeIfDrained(c)
	if !complete {
		return
	}
	c.answering--
	if c.answering == 0 {
		delete(t.busy, c)
		t.wait(c)
		t.wake()
	}
}

// afterResponse is how long net/http may take to send the end of a response after its handler returned.
const afterResponse = time.Second

// drain closes each connection with a tag as soon as no request is in flight on it.
func (t *table) drain(tag string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.all() {
		if c.tag == tag {
			c.draining = true
			t.closeIfDrained(c)
		}
	}
}

// closeIfDrained closes a draining connection soon, unless requests are in flight then. The caller holds mu.
func (t *table) closeIfDrained(c *conn) {
	if !c.draining || c.requests > 0 {
		return
	}
	time.AfterFunc(afterResponse, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if c.requests == 0 {
			t.drop(c)
			_ = c.TCPConn.Close()
		}
	})
}
