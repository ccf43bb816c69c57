package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// pieceSize is how much of a reply has one deadline. With Stall it makes the slowest reader that is served: 32 KiB in 30 s.
const pieceSize = 32 << 10

// unsentBytes is how much of a reply the kernel holds that it could not send yet. Left to itself it takes megabytes, and tells
// that there is room again only when a third is gone: a client that has become slow would look stalled for minutes.
const unsentBytes = 32 << 10

// maxHeld is what a connection holds back while more is about to follow: what net/http's buffer of a connection holds.
const maxHeld = 4 << 10

// listener hands out connections as the table admits them.
type listener struct {
	net.Listener
	table  *table
	stall  time.Duration
	closed chan struct{}
	close  func() error
}

func newListener(tcp net.Listener, t *table, stall time.Duration) *listener {
	l := &listener{Listener: tcp, table: t, stall: stall, closed: make(chan struct{})}
	l.close = sync.OnceValue(func() error {
		close(l.closed)
		return l.Listener.Close()
	})
	return l
}

// Accept waits for a client and for a place in the table.
func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tcp, ok := accepted.(*net.TCPConn)
	if !ok {
		return nil, fmt.Errorf("accepting a connection: it is a %T, not TCP", accepted)
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("accepting a connection: %w", err), tcp.Close())
	}
	limitUnsent(raw, unsentBytes)
	c := &conn{TCPConn: tcp, raw: raw, table: l.table, stall: l.stall}
	if !l.table.admit(c, l.closed) {
		_ = tcp.Close() // it was never used
		return nil, net.ErrClosed
	}
	return c, nil
}

// Close also ends an Accept that waits for a place.
func (l *listener) Close() error { return l.close() }

// conn is a connection below TLS, if there is TLS. Every write to it has a deadline that follows progress, whoever makes it:
// a handler, net/http with what it buffered, the TLS handshake, HTTP/2's frames of all streams together.
type conn struct {
	*net.TCPConn
	raw   syscall.RawConn // of TCPConn
	table *table
	stall time.Duration

	// What whoever looks for a connection to close must know. Over HTTP/2 these are of the streams: a client that takes nothing of
	// them could still have its pings answered.
	http2    atomic.Bool
	writes   atomic.Int32 // pieces of replies that the client has not taken yet
	taken    atomic.Int64 // bytes of replies that it took since the connection became busy
	progress atomic.Int64 // when it last took any, or a reply began: Unix nanoseconds

	holding bool   // by whoever writes the reply: more of it follows at once
	held    []byte // of the reply, to be sent with what follows; a piece of the table's, or nil

	mu       sync.Mutex
	deadline time.Time // for writing, as set from above: by crypto/tls, or a handler that wants less than stall
	extended time.Time // the deadline that TCPConn has if that is ours; it may be over

	place // guarded by table.mu
}

var _ io.ReaderFrom = (*conn)(nil) // net/http looks for it, to send files

type connKey struct{}

// withConn lets a handler find the connection that its request came by.
func withConn(ctx context.Context, nc net.Conn) context.Context {
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	return context.WithValue(ctx, connKey{}, nc)
}

func connOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}

// Write sends p, in pieces that have a deadline each; with what was held before. While the connection is holding, p is held if it is small.
func (c *conn) Write(p []byte) (written int, err error) {
	if c.holding && len(c.held)+len(p) <= maxHeld {
		c.hold(p)
		return len(p), nil
	}
	if held := len(c.held); held > 0 {
		first := p[:min(len(p), pieceSize-held)]
		c.hold(first)
		n, err := c.sendHeld(held)
		if written = int(n); err != nil {
			return written, err
		}
	}
	for err == nil && written < len(p) {
		piece := p[written:min(len(p), written+pieceSize)]
		n, sendErr := c.send(func() (int64, error) {
			n, err := c.TCPConn.Write(piece)
			return int64(n), err
		})
		written, err = written+int(n), sendErr
	}
	return written, err
}

// hold adds p to what is held, which it returns.
func (c *conn) hold(p []byte) []byte {
	if c.held == nil {
		c.held = c.table.piece()[:0]
	}
	c.held = append(c.held, p...)
	return c.held
}

// sendHeld sends what is held, and tells how much was sent of what is beyond its first bytes, which were reported as written before.
func (c *conn) sendHeld(reported int) (int64, error) {
	piece := c.held
	c.held = nil
	defer c.table.putPiece(piece)
	n, err := c.send(func() (int64, error) {
		n, err := c.TCPConn.Write(piece)
		return int64(n), err
	})
	return max(n-int64(reported), 0), err
}

// send writes one piece. What a stalled client has not taken is dropped with the connection: the kernel would else keep and
// offer it for minutes.
func (c *conn) send(piece func() (int64, error)) (int64, error) {
	now := time.Now()
	if err := c.extend(now); err != nil {
		return 0, err
	}
	multiplexed := c.http2.Load()
	if !multiplexed {
		c.beginWrite(now)
	}
	n, err := piece()
	if !multiplexed {
		c.endWrite(n)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = c.SetLinger(0)
	}
	return n, err
}

// extend gives the next piece a deadline: stall, or up to an eighth more. So pieces that follow each other soon share one, which is less
// work than to set it anew for each.
func (c *conn) extend(now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	least := now.Add(c.stall)
	if !c.extended.Before(least) && (c.deadline.IsZero() || !c.deadline.Before(c.extended)) {
		return nil
	}
	c.extended = least.Add(c.stall / 8)
	if !c.deadline.IsZero() && c.deadline.Before(c.extended) {
		c.extended = c.deadline
	}
	return c.TCPConn.SetWriteDeadline(c.extended)
}

// beginWrite notes that a piece is offered to the client. Here and in endWrite the progress is noted first: whoever looks between
// the two must not see the old one.
func (c *conn) beginWrite(now time.Time) {
	if c.writes.Load() == 0 {
		c.progressed(now)
	}
	c.writes.Add(1)
}

// endWrite notes that the client took n bytes of it, or a frame without content: 0; or nothing: -1.
func (c *conn) endWrite(n int64) {
	if n >= 0 {
		c.taken.Add(n)
		c.progressed(time.Now())
	}
	c.writes.Add(-1)
}

func (c *conn) progressed(now time.Time) { c.progress.Store(now.UnixNano()) }
func (c *conn) isWriting() bool          { return c.writes.Load() > 0 }

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline, c.extended = t, time.Time{}
	return c.TCPConn.SetWriteDeadline(t)
}

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *conn) Close() error {
	c.table.remove(c)
	return c.TCPConn.Close()
}
