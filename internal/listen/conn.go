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

// pieceSize is the number of bytes of a response that share a deadline. With the default Stall the slowest served reader takes
// 32 KiB in 30 s.
const pieceSize = 32 << 10

// unsentBytes is the limit of unsent bytes that the kernel holds for a connection. By default it accepts megabytes and reports
// free space only after sending a third, so a client that becomes slow would look stalled for minutes.
const unsentBytes = 32 << 10

// listener returns connections that the table admits.
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

// Accept waits for a connection and for a place in the table.
func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tcp, ok := accepted.(*net.TCPConn)
	if !ok {
		return nil, fmt.Errorf("accepting a connection: unexpected type %T", accepted)
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("accepting a connection: %w", err), tcp.Close())
	}
	limitUnsent(raw, unsentBytes)
	c := &conn{TCPConn: tcp, raw: raw, table: l.table, stall: l.stall}
	if !l.table.admit(c, l.closed) {
		_ = tcp.Close() // unused
		return nil, net.ErrClosed
	}
	return c, nil
}

// Close also ends an Accept that is waiting for a place.
func (l *listener) Close() error { return l.close() }

// conn is a TCP connection, below TLS if TLS is used. Every write has a deadline that follows progress: those of handlers, of
// the buffers of net/http, of the TLS handshake and of HTTP/2 frames.
type conn struct {
	*net.TCPConn
	raw   syscall.RawConn // of TCPConn
	table *table
	stall time.Duration

	// The table chooses connections to evict by these. Over HTTP/2 they count streams, because a client that reads no stream
	// can still answer pings.
	http2    atomic.Bool
	writes   atomic.Int32 // unfinished writes of pieces
	taken    atomic.Int64 // bytes of responses taken by the client since the connection became busy
	progress atomic.Int64 // Unix time in ns of the last progress of a response

	holding bool   // set by fileResponse while net/http writes the header
	held    []byte // that header, in a piece of the table; ReadFrom sends it

	mu       sync.Mutex
	deadline time.Time // for writing, set by crypto/tls or a handler
	extended time.Time // for writing, set by extend; zero if deadline applies

	place // guarded by table.mu
}

var _ io.ReaderFrom = (*conn)(nil) // used by net/http to send files

type connKey struct{}

// withConn adds the connection to the context of its requests.
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

// Write sends p, or holds it for ReadFrom.
func (c *conn) Write(p []byte) (int, error) {
	if c.holding && len(c.held)+len(p) < pieceSize {
		c.hold(p)
		return len(p), nil
	}
	if err := c.sendHeld(); err != nil {
		return 0, err
	}
	return c.writePieces(p)
}

// writePieces sends p in pieces, each with a deadline.
func (c *conn) writePieces(p []byte) (written int, err error) {
	for err == nil && written < len(p) {
		piece := p[written:min(len(p), written+pieceSize)]
		var n int64
		n, err = c.send(func() (int64, error) {
			n, err := c.TCPConn.Write(piece)
			return int64(n), err
		})
		written += int(n)
	}
	return written, err
}

// send writes one piece. If the client stalls, unsent data is dropped with the connection; otherwise the kernel would keep it
// for minutes.
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

// extend sets the deadline of the next piece: stall or up to an eighth more, so that pieces in quick succession share a
// deadline.
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

// beginWrite records the start of a write. It and endWrite record the progress first, so that concurrent readers never see a
// write with outdated progress.
func (c *conn) beginWrite(now time.Time) {
	if c.writes.Load() == 0 {
		c.progressed(now)
	}
	c.writes.Add(1)
}

// endWrite records the end of a write of n bytes; n is negative if it failed.
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
