package listen

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"testing"
	"time"
)

// The connection that has waited longest is evicted, in any state; one with a recent response is safe for longest.
func TestLongestWaitingIsEvicted(t *testing.T) {
	p := serve(t, protocols[0], Config{Handler: say("hello"), MaxConnections: 4})
	keepAlive := p.dial(t, "")
	silent := p.dial(t, "")
	header := p.dial(t, "GET / HTTP/1.1\r\n")
	body := p.dial(t, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n123")
	for _, victim := range []net.Conn{silent, header, body} {
		if got := ask(t, keepAlive); got != "hello" {
			t.Fatalf("got %q", got)
		}
		newest := p.dial(t, "")
		if got := ask(t, newest); got != "hello" {
			t.Errorf("the new connection got %q", got)
		}
		wantClosed(t, victim)
	}
	if got := ask(t, keepAlive); got != "hello" {
		t.Errorf("the connection that was used all the time got %q", got)
	}
}

// A stalled TLS handshake is evicted too.
func TestHandshakeIsEvicted(t *testing.T) {
	p := serve(t, "HTTP/2", Config{Handler: say("hello"), MaxConnections: 2, Header: time.Hour})
	first, second := p.dial(t, ""), p.dial(t, "")
	for range 2 {
		for _, protocol := range protocols[1:] {
			if got := fetch(p.client(t, protocol), p.url); got != "hello" {
				t.Fatalf("got %q", got)
			}
		}
	}
	wantClosed(t, first)
	wantClosed(t, second)
}

// Many other connections evict neither a request in progress nor a client that sends its request at once.
func TestFloodOfSilence(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			begun, finish := make(chan struct{}), make(chan struct{})
			p := serve(t, protocol, Config{MaxConnections: 200, Stall: 2 * time.Minute, prompt: 500 * time.Millisecond,
				Handler: http.HandlerFunc(func(
					w http.ResponseWriter, r *http.Request,
				) {
					if r.URL.Path == "/long" {
						close(begun)
						<-finish
					}
					io.WriteString(w, "done")
				})})
			got := make(chan string, 1)
			long := p.client(t, protocol)
			go func() { got <- fetch(long, p.url+"/long") }()
			receive(t, "the request", begun)

			var flood sync.WaitGroup
			stop := make(chan struct{})
			flood.Go(func() { silence(p.Addr().String(), stop) })
			for range 5 {
				if got := fetch(p.client(t, protocol), p.url); got != "done" {
					t.Errorf("a new client got %q", got)
				}
			}
			close(stop)
			flood.Wait()
			close(finish)
			if got := receive(t, "the answer", got); got != "done" {
				t.Errorf("the request in flight got %q", got)
			}
			again := fetch(long, p.url)
			if again != "done" {
				t.Errorf("its connection, afterwards: %q", again)
			}
		})
	}
}

// silence keeps 250 silent connections open and replaces closed ones.
func silence(address string, stop <-chan struct{}) {
	places := make(chan struct{}, 250)
	var open sync.WaitGroup
	defer open.Wait()
	for {
		select {
		case <-stop:
			return
		case places <- struct{}{}:
		}
		open.Go(func() {
			defer func() { <-places }()
			c, err := net.Dial("tcp", address)
			if err != nil {
				return
			}
			defer c.Close()
			go func() {
				<-stop
				c.Close()
			}()
			io.Copy(io.Discard, c)
		})
	}
}

// If all connections are busy and make progress, a new one waits until one ends.
func TestAllBusy(t *testing.T) {
	begun, finish := make(chan struct{}, 3), make(chan struct{})
	p := serve(t, protocols[0], Config{MaxConnections: 2, Stall: time.Hour, Handler: http.HandlerFunc(func(
		w http.ResponseWriter, _ *http.Request,
	) {
		begun <- struct{}{}
		<-finish
		io.WriteString(w, "done")
	})})
	got := make(chan string, 3)
	for range 3 {
		client := p.client(t, protocols[0])
		go func() { got <- fetch(client, p.url) }()
	}
	for range 2 {
		receive(t, "a request", begun)
	}
	select {
	case <-begun:
		t.Error("a third request was let in")
	case <-time.After(50 * time.Millisecond): // it would come in no more than that, mostly
	}
	finish <- struct{}{}
	receive(t, "the third request", begun)
	close(finish)
	for range 3 {
		if got := receive(t, "an answer", got); got != "done" {
			t.Errorf("got %q", got)
		}
	}
}

// If all are busy and no client stalls, the one that has been silent longest is evicted, because event streams must not block others.
func TestSilentIsEvicted(t *testing.T) {
	begun, finish := make(chan string, 3), make(chan struct{})
	p := serve(t, protocols[0], Config{MaxConnections: 2, Stall: 600 * time.Millisecond, Handler: http.HandlerFunc(func(
		_ http.ResponseWriter, r *http.Request,
	) {
		begun <- r.URL.Path
		select {
		case <-finish:
		case <-r.Context().Done():
		}
	})})
	ended := make(chan string, 3)
	for _, path := range []string{"/first", "/second", "/third"} {
		client := p.client(t, protocols[0])
		go func() {
			fetch(client, p.url+path)
			ended <- path
		}()
		if got := receive(t, "the request", begun); got != path {
			t.Errorf("%s was let in, want %s", got, path)
		}
	}
	if got := receive(t, "the end of one", ended); got != "/first" {
		t.Errorf("%s gave way, want /first", got)
	}
	close(finish)
	receive(t, "the end of another", ended)
	receive(t, "the end of the last", ended)
}

// Silent event streams are evicted even beside waiting connections. Otherwise a few silent clients would be the only ones evicted, and
// would slow down all new connections.
func TestSilentIsEvictedBesideWaiting(t *testing.T) {
	const prompt = 10 * time.Second
	begun := make(chan struct{}, 3)
	p := serve(t, protocols[0], Config{MaxConnections: 3, Stall: 600 * time.Millisecond, prompt: prompt, Handler: http.HandlerFunc(func(
		w http.ResponseWriter, r *http.Request,
	) {
		if r.URL.Path == "/events" {
			begun <- struct{}{}
			<-r.Context().Done()
		}
		io.WriteString(w, "done")
	})})
	for range 3 {
		p.dial(t, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
		receive(t, "the request", begun)
	}
	p.dial(t, "") // for the first event stream
	start := time.Now()
	if got := fetch(p.client(t, protocols[0]), p.url); got != "done" { // for the second
		t.Errorf("the new client got %q", got)
	}
	if took := time.Since(start); took > prompt/2 {
		t.Errorf("the new client waited %s", took)
	}
}

// A client that reads in bursts keeps its place as long as it is not slow.
func TestPausesAreNoStall(t *testing.T) {
	const stall, pause = 9 * time.Second, 900 * time.Millisecond // a pause is 3 times the pace, and less than a third of what is stalled
	content := contentOf(16 << 20)
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			p := serve(t, protocol, Config{MaxConnections: 1, Stall: stall, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/short" {
					io.WriteString(w, "done")
					return
				}
				w.Write(content)
			})})
			reader := p.client(t, protocol)
			response, err := reader.Get(p.url)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			next := make(chan string, 1)
			client := p.client(t, protocol)
			go func() { next <- fetch(client, p.url+"/short") }()
			const gulp = 4 << 20
			if _, err := io.CopyN(io.Discard, response.Body, gulp); err != nil {
				t.Fatal(err)
			}
			if got, err := readAtPace(response.Body, gulp, pause); gulp+len(got) != len(content) {
				t.Errorf("the client that pauses got %d bytes of %d, then %v", gulp+len(got), len(content), err)
			}
			reader.CloseIdleConnections()
			if got := receive(t, "the next client's answer", next); got != "done" {
				t.Errorf("the next client got %q", got)
			}
		})
	}
}

// If all are busy, a connection whose client stalls is evicted; one whose client reads is not.
func TestStalledIsEvicted(t *testing.T) {
	const stall = 30 * time.Second // it gives way after a thirtieth of that, having taken little
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			content := contentOf(16 << 20)
			failed := make(chan error, 2)
			p := serve(t, protocol, Config{MaxConnections: 2, Stall: stall, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/short" {
					io.WriteString(w, "done")
					return
				}
				_, err := w.Write(content)
				failed <- err
			})})
			open := func() *http.Response {
				client := p.client(t, protocol)
				client.Transport.(*http.Transport).HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}
				response, err := client.Get(p.url)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { response.Body.Close() })
				return response
			}
			reader, stalled := open(), open()
			got := make(chan int, 1)
			go func() {
				body, _ := readAtPace(reader.Body, len(content)/20, stall/300)
				got <- len(body)
			}()
			begun := time.Now()
			if got := fetch(p.client(t, protocol), p.url+"/short"); got != "done" {
				t.Errorf("the third client got %q", got)
			}
			if took := time.Since(begun); took > stall {
				t.Errorf("the third client waited %s", took)
			}
			if n := receive(t, "the end of the reply", got); n != len(content) {
				t.Errorf("the client that reads got %d bytes of %d", n, len(content))
			}
			if _, err := io.Copy(io.Discard, stalled.Body); err == nil {
				t.Error("the client that did not read got all")
			}
			if err := errors.Join(<-failed, <-failed); err == nil {
				t.Error("neither handler got an error")
			}
		})
	}
}

// An Accept that waits for a place does not delay shutdown.
func TestShutdownWhileFull(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	p := serve(t, protocols[0], Config{MaxConnections: 1, Stall: time.Hour, Handler: http.HandlerFunc(func(
		http.ResponseWriter, *http.Request,
	) {
		close(begun)
		<-finish
	})})
	got := make(chan string, 2)
	for range 2 {
		client := p.client(t, protocols[0])
		go func() { got <- fetch(client, p.url) }()
	}
	receive(t, "a request", begun)
	stopped := make(chan error, 1)
	go func() { stopped <- p.stop() }()
	<-p.listener.closed
	close(finish)
	if err := receive(t, "the end", stopped); err != nil {
		t.Error(err)
	}
	for range 2 {
		receive(t, "the client's end", got)
	}
}

// A connection serves many requests, over any protocol, with and without bodies.
func TestKeepAlive(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			p := serve(t, protocol, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(w, r.Body)
			})})
			client := p.client(t, protocol)
			for i := range 5 {
				var reused bool
				trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }}
				pipe, feed := io.Pipe()
				go func() {
					fmt.Fprint(feed, "body ", i)
					feed.Close()
				}()
				r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodPost, p.url, pipe)
				if err != nil {
					t.Fatal(err)
				}
				r.ContentLength = int64(len("body 0"))
				response, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				line, _ := bufio.NewReader(response.Body).ReadString('\n')
				response.Body.Close()
				if line != fmt.Sprint("body ", i) || reused != (i > 0) {
					t.Errorf("request %d got %q, over a connection that was used before: %t", i, line, reused)
				}
			}
		})
	}
}
