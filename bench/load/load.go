// Package load sends the same request to an HTTP/1.1 server again and again, on a few persistent connections. It
// uses as little CPU as possible, since it shares the machine with the server it measures.
package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	bufferBytes = 256 << 10
	grace       = 30 * time.Second // for the last reply
)

// Target is a request.
type Target struct {
	Address string   // host:port
	Path    string   // with its query
	Header  []string // more header lines, without line breaks: "Accept-Encoding: zstd"
}

// Result is the work of the server. Each reply had status 200 and a body as long as the first one.
type Result struct {
	Requests      int
	Bytes         int64 // of bodies
	Elapsed       time.Duration
	P50, P95, P99 time.Duration
}

// PerSecond returns the rate of requests.
func (r Result) PerSecond() float64 { return float64(r.Requests) / r.Elapsed.Seconds() }

// BytesPerSecond returns the rate of bytes in bodies.
func (r Result) BytesPerSecond() float64 { return float64(r.Bytes) / r.Elapsed.Seconds() }

// Get sends one request and returns the body.
func Get(ctx context.Context, target Target) ([]byte, error) {
	c, err := dial(ctx, target, time.Now().Add(grace))
	if err != nil {
		return nil, err
	}
	defer c.close()
	var body bytes.Buffer
	_, err = c.exchange(&body)
	return body.Bytes(), err
}

// Skim sends one request and returns the length of the body.
func Skim(ctx context.Context, target Target) (int64, error) {
	c, err := dial(ctx, target, time.Now().Add(10*grace))
	if err != nil {
		return 0, err
	}
	defer c.close()
	return c.exchange(io.Discard)
}

// Run sends requests on some connections in parallel, each as soon as it has the previous reply, for the duration.
// One uncounted request warms each connection up before the clock starts. The first reply of each must have the
// body want.
func Run(ctx context.Context, target Target, want []byte, connections int, duration time.Duration) (Result, error) {
	clients := make([]*client, connections)
	for i := range clients {
		c, err := dial(ctx, target, time.Now().Add(duration+grace))
		if err != nil {
			return Result{}, err
		}
		defer c.close()
		expected := &expected{rest: want}
		n, err := c.exchange(expected)
		if err == nil && len(expected.rest) > 0 {
			err = c.failed(fmt.Errorf("the body has %d bytes, want %d", n, len(want)))
		}
		if err != nil {
			return Result{}, err
		}
		clients[i] = c
	}
	began := time.Now()
	end := began.Add(duration)
	var group sync.WaitGroup
	for _, c := range clients {
		group.Go(func() { c.err = c.run(end, int64(len(want))) })
	}
	group.Wait()
	return collect(clients, time.Since(began))
}

// expected is a writer that accepts only the expected bytes.
type expected struct{ rest []byte }

func (e *expected) Write(p []byte) (int, error) {
	if !bytes.HasPrefix(e.rest, p) {
		return 0, errors.New("the body is not the one expected")
	}
	e.rest = e.rest[len(p):]
	return len(p), nil
}

func collect(clients []*client, elapsed time.Duration) (Result, error) {
	result := Result{Elapsed: elapsed}
	var latencies []time.Duration
	var err error
	for _, c := range clients {
		err = errors.Join(err, c.err)
		result.Requests += len(c.latencies)
		result.Bytes += c.bytes
		latencies = append(latencies, c.latencies...)
	}
	if err == nil && len(latencies) == 0 {
		err = errors.New("no reply came in time")
	}
	if err != nil {
		return Result{}, err
	}
	slices.Sort(latencies)
	n := len(latencies)
	result.P50, result.P95, result.P99 = latencies[n/2], latencies[n*95/100], latencies[n*99/100]
	return result, nil
}

// client is one connection.
type client struct {
	conn      net.Conn
	reader    *bufio.Reader
	request   []byte
	target    Target
	cancel    func() bool
	latencies []time.Duration
	bytes     int64
	err       error
}

func dial(ctx context.Context, target Target, deadline time.Time) (*client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", target.Address)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	lines := append([]string{"GET " + target.Path + " HTTP/1.1", "Host: " + target.Address}, target.Header...)
	return &client{
		conn: conn, reader: bufio.NewReaderSize(conn, bufferBytes), target: target,
		request: []byte(strings.Join(lines, "\r\n") + "\r\n\r\n"),
		cancel:  context.AfterFunc(ctx, func() { _ = conn.Close() }),
	}, nil
}

func (c *client) close() {
	c.cancel()
	_ = c.conn.Close()
}

func (c *client) run(end time.Time, length int64) error {
	for last := time.Now(); last.Before(end); {
		n, err := c.exchange(io.Discard)
		if err != nil {
			return err
		}
		if n != length {
			return c.failed(fmt.Errorf("a body of %d bytes, after one of %d", n, length))
		}
		now := time.Now()
		c.latencies = append(c.latencies, now.Sub(last))
		c.bytes += n
		last = now
	}
	return nil
}

func (c *client) failed(err error) error {
	return fmt.Errorf("http://%s%s: %w", c.target.Address, c.target.Path, err)
}

// exchange sends the request and reads the complete reply.
func (c *client) exchange(body io.Writer) (int64, error) {
	if _, err := c.conn.Write(c.request); err != nil {
		return 0, c.failed(err)
	}
	length, err := c.header()
	if err != nil {
		return 0, c.failed(err)
	}
	if length < 0 {
		length, err = c.chunks(body)
	} else {
		err = c.body(body, length)
	}
	if err != nil {
		return 0, c.failed(err)
	}
	return length, nil
}

// header reads the status line and the header, and returns the length of the body, or -1 if it is chunked.
func (c *client) header() (length int64, err error) {
	const absent = -2
	status, err := c.line()
	if err != nil {
		return 0, err
	}
	if !bytes.HasPrefix(status, []byte("HTTP/1.1 200 ")) {
		return 0, fmt.Errorf("the answer is %q, want status 200", status)
	}
	length = absent
	for {
		line, err := c.line()
		if err != nil {
			return 0, err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64); err != nil {
				return 0, err
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			length = -1
		}
	}
	if length == absent {
		return 0, errors.New("a reply without a length")
	}
	return length, nil
}

func (c *client) line() ([]byte, error) {
	line, err := c.reader.ReadSlice('\n')
	return bytes.TrimRight(line, "\r\n"), err
}

func (c *client) body(out io.Writer, length int64) error {
	if out != io.Discard {
		_, err := io.CopyN(out, c.reader, length)
		return err
	}
	_, err := c.reader.Discard(int(length)) // without a copy
	return err
}

// chunks reads a body in chunked coding (RFC 9112, section 7.1) without trailers.
func (c *client) chunks(out io.Writer) (int64, error) {
	sum, err := io.Copy(out, httputil.NewChunkedReader(c.reader))
	if err != nil {
		return sum, err
	}
	if rest, err := c.line(); err != nil || len(rest) != 0 {
		return sum, errors.Join(err, errors.New("a reply with trailers"))
	}
	return sum, nil
}
