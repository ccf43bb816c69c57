package listen

import (
	"container/list"
	"iter"
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
//  3. the one that has been silent for longest: event streams must not keep everybody else out, nor a few clients that wait beside them.
//
// If none may go yet, the next client waits. So a request that is being worked on is not cut within silent, whatever comes, and not at
// all as long as others leave in time; a reply that is read is not cut as long as its client keeps pace.
type table struct {
	maxConns, maxRequests int
	prompt                time.Duration // how long a connection may wait, whatever comes

	// After how long without progress a busy connection may give way. A client that reads slowly opens its window only now and then,
	// every several seconds, so a piece may take it as long as stalled, if on average it takes one each pace.
	pace, stalled, silent time.Duration

	mu       sync.Mutex
	waiting  list.List // of *conn; the front has waited longest
	busy     map[*conn]struct{}
	requests int // in hand, of all connections here
	leaving  int // requests of connections that were closed, whose handlers are about to notice: they have their memory still

	pieces  sync.Pool     // of *[pieceSize]byte, for connections to write from
	changed chan struct{} // holds a token after a place may have become free; only Accept waits, and there is one
	evicted prometheus.Counter
}

// place is what the table knows of a connection.
type place struct {
	element   *list.Element // in table.waiting; nil: busy, or gone
	since     time.Time     // when it began to wait
	handlers  int           // requests in hand
	answering int           // those of them that were read whole
	busySince time.Time     // when answering became 1
	gone      bool          // it was closed, and counts no more; its handlers may still be about to notice
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

// piece lends memory of pieceSize bytes, to be given back by putPiece.
func (t *table) piece() []byte { return t.pieces.Get().(*[pieceSize]byte)[:] }

func (t *table) putPiece(piece []byte) { t.pieces.Put((*[pieceSize]byte)(piece[:pieceSize])) }

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
	if t.leaving > maxStreams {
		return t.prompt
	}
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

// whoGivesWay returns the connection that does, or when to look again.
func (t *table) whoGivesWay() (victim *conn, wait time.Duration) {
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
	for _, gives := range []func(*conn, time.Time) bool{t.isStalled, t.isSilent} {
		if victim := t.oldest(now, gives); victim != nil {
			return victim, 0
		}
	}
	return nil, wait
}

// isStalled tells whether the client of a connection in the middle of a reply does not read it: it took nothing for long, or for a while
// and little before.
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

// oldest returns the busy connection whose last progress was longest ago, of those that are meant.
func (t *table) oldest(now time.Time, meant func(*conn, time.Time) bool) (found *conn) {
	for c := range t.busy {
		if meant(c, now) && (found == nil || c.progress.Load() < found.progress.Load()) {
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
	t.leaving += c.handlers
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
// bound of all requests in hand, the greediest connection gives way. whole: it was read to its end, which else answer notes later.
// False: the connection of the request is closed, so nobody waits for an answer.
func (t *table) begin(c *conn, whole bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.gone {
		return false
	}
	c.handlers++
	t.requests++
	if t.requests > t.maxRequests {
		t.evict(t.greediest())
	}
	if c.gone { // it was the greediest; no handler gets the request
		t.leaving--
		t.wake()
		return false
	}
	if whole {
		t.markBusy(c)
	}
	return true
}

// greediest returns the connection that has the most requests in hand, when there are more than maxRequests: so one has more than
// requestsPer. What a page of a browser sends at a time is no greed, whoever has a few less: of such connections it is the one whose
// last progress was longest ago.
func (t *table) greediest() (found *conn) {
	rank := func(c *conn) (requests int, progress int64) { return max(c.handlers, modest), c.progress.Load() }
	for c := range t.all() {
		if c.handlers < requestsPer {
			continue
		}
		if found == nil {
			found = c
			continue
		}
		most, oldest := rank(found)
		if requests, progress := rank(c); requests > most || requests == most && progress < oldest {
			found = c
		}
	}
	return found
}

// all are the open connections.
func (t *table) all() iter.Seq[*conn] {
	return func(yield func(*conn) bool) {
		for c := range t.busy {
			if !yield(c) {
				return
			}
		}
		for e := t.waiting.Front(); e != nil; e = e.Next() {
			if !yield(e.Value.(*conn)) {
				return
			}
		}
	}
}

// answer notes that a request that began was read whole.
func (t *table) answer(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.markBusy(c)
}

// markBusy is answer for a caller that holds mu.
func (t *table) markBusy(c *conn) {
	if c.gone {
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

// end notes that a request is no longer in hand: its handler returned, and over HTTP/2 its stream is closed; answered: that it was read whole.
func (t *table) end(c *conn, answered bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.gone {
		t.leaving--
		t.wake()
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
