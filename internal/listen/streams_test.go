package listen

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
)

// The requests of all connections are bounded, because an HTTP/2 connection carries many. The connection with the most is evicted.
func TestManyStreams(t *testing.T) {
	begun, finish := make(chan struct{}, 100), make(chan struct{})
	p := serve(t, "HTTP/2", Config{MaxConnections: 50, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/first" {
			begun <- struct{}{}
			select {
			case <-finish:
			case <-r.Context().Done():
			}
		}
		io.WriteString(w, "done")
	})})
	got := map[string]chan string{"few": make(chan string, 100), "many": make(chan string, 100), "one more": make(chan string, 100)}
	clients := map[string]*http.Client{}
	for name := range got {
		clients[name] = p.client(t, "HTTP/2")
		fetch(clients[name], p.url+"/first") // so that it has the connection that it sends all others over
	}
	for _, who := range []struct {
		name     string
		requests int
	}{{"few", 20}, {"many", 80}, {"one more", 1}} { // 100 is the bound of 50 connections
		client := clients[who.name]
		if who.name == "one more" {
			p.wantInHand(t, 100)
		}
		for range who.requests {
			go func() { got[who.name] <- fetch(client, p.url) }()
		}
		for range who.requests {
			receive(t, "a request", begun)
		}
	}
	for range 80 {
		if text := receive(t, "the end of a request of many", got["many"]); text == "done" {
			t.Error("a request of the connection with the most was answered")
		}
	}
	close(finish)
	for name, n := range map[string]int{"few": 20, "one more": 1} {
		for range n {
			if text := receive(t, "an answer", got[name]); text != "done" {
				t.Errorf("%s: got %q", name, text)
			}
		}
	}
	p.wantInHand(t, 0)
}

// The connection whose request exceeds the limit is evicted if it has the most. Its request no longer counts.
func TestGreediestSendsTheRequest(t *testing.T) {
	p := serve(t, "HTTP/2", Config{MaxConnections: 2, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/first" {
			<-r.Context().Done()
		}
		io.WriteString(w, "done")
	})})
	client := p.client(t, "HTTP/2")
	fetch(client, p.url+"/first")
	got := make(chan string, 5)
	for range cap(got) { // 4 is the bound of 2 connections
		go func() { got <- fetch(client, p.url) }()
	}
	for range cap(got) {
		if text := receive(t, "the end of a request", got); text == "done" {
			t.Error("a request of the connection that gave way was answered")
		}
	}
	p.wantInHand(t, 0)
}

// A browser page with several concurrent requests is not evicted in favor of connections that hold slightly fewer for longer.
func TestPageKeepsItsPlace(t *testing.T) {
	begun, finish := make(chan struct{}, 20), make(chan struct{})
	p := serve(t, "HTTP/2", Config{MaxConnections: 4, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/first" {
			begun <- struct{}{}
			select {
			case <-finish:
			case <-r.Context().Done():
			}
		}
		io.WriteString(w, "done")
	})})
	var got []chan string
	for _, n := range []int{2, 2, 2, 3} { // 8 is the bound of 4 connections
		client, answers := p.client(t, "HTTP/2"), make(chan string, n)
		fetch(client, p.url+"/first") // so that it has the connection that it sends all others over
		for range n {
			go func() { answers <- fetch(client, p.url) }()
		}
		for range n {
			receive(t, "a request", begun)
		}
		got = append(got, answers)
	}
	for range 2 {
		if text := receive(t, "the end of a request of the first", got[0]); text == "done" {
			t.Error("a request of the connection that was quiet for longest was answered")
		}
	}
	close(finish)
	for range 3 {
		if text := receive(t, "an answer for the page", got[3]); text != "done" {
			t.Errorf("the page got %q", text)
		}
	}
	for _, other := range got[1:3] {
		for range 2 {
			receive(t, "an answer for the others", other)
		}
	}
}

// A small response is buffered after its handler until the client opens its window. Such responses are bounded like handlers.
func TestRepliesThatAreNotTaken(t *testing.T) {
	const most = 20 // the bound of 10 connections
	p := serve(t, "HTTP/2", Config{MaxConnections: most / requestsPer, Handler: say(strings.Repeat("x", 3<<10))})
	var held []bodies
	for range 3 {
		client := p.client(t, "HTTP/2")
		client.Transport.(*http.Transport).HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 1 << 10}
		var of bodies
		for range most / 2 {
			response, err := client.Get(p.url)
			if err != nil {
				t.Fatal(err)
			}
			of = append(of, response.Body)
		}
		held = append(held, of)
	}
	var cut int
	for _, of := range held {
		for _, body := range of {
			if _, err := io.Copy(io.Discard, body.(io.Reader)); err != nil {
				cut++
			}
		}
	}
	if cut != most/2 {
		t.Errorf("%d of %d replies were cut, want those of one connection, %d", cut, 3*most/2, most/2)
	}
	for _, of := range held {
		of.Close()
	}
	p.wantInHand(t, 0)
}

// wantInHand waits until n requests are in flight, including those of closed connections.
func (p *port) wantInHand(t *testing.T, want int) {
	t.Helper()
	eventually.Succeeds(t, fmt.Sprintf("%d requests are in hand", want), func() error {
		p.listener.table.mu.Lock()
		defer p.listener.table.mu.Unlock()
		if open, leaving := p.listener.table.requests, p.listener.table.leaving; open+leaving != want {
			return fmt.Errorf("%d, and %d of closed connections", open, leaving)
		}
		return nil
	})
}
