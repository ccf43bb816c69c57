package listen

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
)

// smallWindow limits what the kernel takes for a client that does not read.
func smallWindow(_, _ string, raw syscall.RawConn) error {
	return raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 16<<10)
	})
}

// replies are the ways to write a response: in one piece, in small pieces and from a file.
func replies(t *testing.T, content []byte) map[string]func(w http.ResponseWriter, r *http.Request) error {
	name := file(t, content)
	return map[string]func(w http.ResponseWriter, r *http.Request) error{
		"at once": func(w http.ResponseWriter, _ *http.Request) error {
			_, err := w.Write(content)
			return err
		},
		"in small writes": func(w http.ResponseWriter, _ *http.Request) error {
			_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{bytes.NewReader(content)}, make([]byte, 1000))
			return err
		},
		"file": func(w http.ResponseWriter, _ *http.Request) error {
			file, err := os.Open(name)
			if err != nil {
				return err
			}
			defer file.Close()
			_, err = io.Copy(w, io.LimitReader(file, int64(len(content))))
			return err
		},
	}
}

func contentOf(size int) []byte { return bytes.Repeat([]byte("0123456789abcde\n"), size/16) }

// A client that takes several times Stall for a response, but less than Stall for each piece, gets all of it.
func TestSlowReaderFinishes(t *testing.T) {
	const stall = time.Second
	content := contentOf(1 << 20)
	var readers sync.WaitGroup
	for _, protocol := range protocols {
		all := replies(t, content)
		p := serve(t, protocol, Config{Stall: stall, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := all[r.URL.Query().Get("reply")](w, r); err != nil {
				t.Errorf("%s: the handler got %v", protocol, err)
			}
		})})
		for name := range all {
			response, err := p.client(t, protocol).Get(p.url + "?" + url.Values{"reply": {name}}.Encode())
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			readers.Go(func() {
				begun := time.Now()
				got, err := readAtPace(response.Body, len(content)/25, stall/10)
				if err != nil || !bytes.Equal(got, content) {
					t.Errorf("%s, %s: got %d bytes of %d, then %v", protocol, name, len(got), len(content), err)
				}
				if took := time.Since(begun); took < 2*stall {
					t.Errorf("it took only %s: this test tests nothing", took)
				}
			})
		}
	}
	readers.Wait()
}

// readAtPace reads n bytes in each interval.
func readAtPace(r io.Reader, n int, each time.Duration) ([]byte, error) {
	pace := time.NewTicker(each)
	defer pace.Stop()
	var got bytes.Buffer
	for {
		<-pace.C
		if _, err := io.CopyN(&got, r, int64(n)); errors.Is(err, io.EOF) {
			return got.Bytes(), nil
		} else if err != nil {
			return got.Bytes(), err
		}
	}
}

// A client that stops reading is cut off. Over HTTP/2 only the stream ends.
func TestStalledReaderIsCut(t *testing.T) {
	for _, protocol := range protocols {
		for name, reply := range replies(t, contentOf(16<<20)) {
			t.Run(protocol+" "+name, func(t *testing.T) { testStalledReader(t, protocol, reply) })
		}
	}
}

func testStalledReader(t *testing.T, protocol string, reply func(http.ResponseWriter, *http.Request) error) {
	failed := make(chan error, 1)
	p := serve(t, protocol, Config{Stall: time.Second / 2, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/short" {
			io.WriteString(w, r.RemoteAddr)
			return
		}
		w.Header().Set("Address", r.RemoteAddr)
		failed <- reply(w, r)
	})})
	client := p.client(t, protocol)
	response, err := client.Get(p.url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := receive(t, "the end of the reply", failed); err == nil {
		t.Error("the handler wrote all of it")
	}
	got := fetch(client, p.url+"/short")
	if sameConnection := got == response.Header.Get("Address"); sameConnection != (protocol == "HTTP/2") {
		t.Errorf("after the stall the client reached %s, over %s before", got, response.Header.Get("Address"))
	}
	if _, err := io.Copy(io.Discard, response.Body); err == nil {
		t.Error("the client takes what it got for the whole")
	}
}

// The tail of a response, which net/http sends after the handler, has a deadline of its own, not that of an earlier write.
func TestTailOfAReply(t *testing.T) {
	const stall = 300 * time.Millisecond
	var clients sync.WaitGroup
	for _, protocol := range protocols {
		p := serve(t, protocol, Config{Stall: stall, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "begin, ")
			http.NewResponseController(w).Flush()
			<-time.After(2 * stall)
			io.WriteString(w, "middle, ")
			<-time.After(2 * stall)
			io.WriteString(w, "end")
		})})
		client := p.client(t, protocol)
		clients.Go(func() {
			if got := fetch(client, p.url); got != "begin, middle, end" {
				t.Errorf("%s: got %q", protocol, got)
			}
		})
	}
	clients.Wait()
}

// A handler that clears the write deadline, as event streams do, may be silent.
func TestDeadlineCleared(t *testing.T) {
	const stall = 300 * time.Millisecond
	var clients sync.WaitGroup
	for _, protocol := range protocols {
		p := serve(t, protocol, Config{Stall: stall, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			control := http.NewResponseController(w)
			for range 2 {
				io.WriteString(w, "event\n")
				if err := errors.Join(control.Flush(), control.SetWriteDeadline(time.Time{})); err != nil {
					t.Errorf("%s: the handler got %v", protocol, err)
				}
				<-time.After(2 * stall)
			}
		})})
		client := p.client(t, protocol)
		clients.Go(func() {
			if got := fetch(client, p.url); got != "event\nevent\n" {
				t.Errorf("%s: got %q", protocol, got)
			}
		})
	}
	clients.Wait()
}

// A handler can set an earlier deadline than the port.
func TestDeadlineOfAHandler(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			failed := make(chan error, 1)
			p := serve(t, protocol, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(-time.Second))
				if err == nil {
					_, err = w.Write(make([]byte, 1<<20))
				}
				failed <- err
			})})
			fetch(p.client(t, protocol), p.url)
			if err := receive(t, "the end of the write", failed); err == nil {
				t.Error("the handler wrote past its deadline")
			}
		})
	}
}

// A silent or slow client is cut off: in the TLS handshake, in a header and between requests.
func TestSlowRequestIsCut(t *testing.T) {
	const soon = 50 * time.Millisecond
	for name, test := range map[string]struct {
		protocol, text string
	}{
		"handshake": {protocols[1], ""},
		"no header": {protocols[0], ""},
		"header":    {protocols[0], "GET / HTTP/1.1\r\nHost: "},
		"idle":      {protocols[0], "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			p := serve(t, test.protocol, Config{Handler: say("hello"), Header: soon, Idle: soon})
			wantClosed(t, p.dial(t, test.text))
		})
	}
}

// A late body is an error for the handler. After the body a handler has no time limit.
func TestSlowBodyIsCut(t *testing.T) {
	const soon = 100 * time.Millisecond
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			read := make(chan error, 1)
			p := serve(t, protocol, Config{Request: soon, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, err := io.ReadAll(r.Body)
				read <- err
				select {
				case <-r.Context().Done():
				case <-time.After(3 * soon):
				}
				fmt.Fprint(w, r.Context().Err())
			})})
			client := p.client(t, protocol)
			eventually.Succeeds(t, "a prompt body is read in time", func() error { // by a machine that has a lot to do it may be not
				response, err := client.Post(p.url, "text/plain", strings.NewReader("prompt"))
				if late := receive(t, "a prompt body", read); late != nil {
					return late
				}
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				if body, _ := io.ReadAll(response.Body); string(body) != "<nil>" {
					t.Errorf("after a prompt body the context of the handler is %s", body)
				}
				return nil
			})

			pipe, feed := io.Pipe()
			defer feed.Close()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				if response, err := client.Post(p.url, "text/plain", pipe); err == nil {
					response.Body.Close()
				}
			}()
			io.WriteString(feed, "slow")
			if err := receive(t, "the end of the body", read); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a slow body: the handler got %v", err)
			}
			feed.Close()
			receive(t, "the end of the request", ended)
		})
	}
}

func file(t *testing.T, content []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "content")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// The end of an HTTP/2 response, which net/http sends after the handler, has a deadline too.
func TestStalledTailIsCut(t *testing.T) {
	const stall = 300 * time.Millisecond
	p := serve(t, "HTTP/2", Config{Stall: stall, Handler: say(strings.Repeat("x", 3<<10))})
	client := p.client(t, "HTTP/2")
	client.Transport.(*http.Transport).HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 1 << 10}
	response, err := client.Get(p.url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	<-time.After(2 * stall)
	if _, err := io.ReadAll(response.Body); err == nil {
		t.Error("it was still there")
	}
}

// The progress of a client that becomes slow is visible at once. Without limitUnsent the kernel would hide it behind megabytes.
func TestReaderBecomesSlow(t *testing.T) {
	const seen = 800 << 10 // bytes that the client takes until then
	failed := make(chan error, 1)
	p := serve(t, protocols[0], Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(contentOf(64 << 20))
		failed <- err
	})})
	c := p.dial(t, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if _, err := io.CopyN(io.Discard, c, 32<<20); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		before := p.taken()
		if _, err := io.CopyN(io.Discard, c, seen); err != nil {
			t.Fatal(err)
		}
		eventually.Succeeds(t, "the client's progress is seen", func() error {
			if taken := p.taken(); taken == before {
				return fmt.Errorf("%d bytes before and after %d more", taken, seen)
			}
			return nil
		})
	}
	if _, err := io.Copy(io.Discard, c); err != nil {
		t.Error(err)
	}
	if err := receive(t, "the end of the reply", failed); err != nil {
		t.Errorf("the handler got %v", err)
	}
}

// taken returns the bytes of responses that the clients have taken.
func (p *port) taken() (sum int64) {
	table := p.listener.table
	table.mu.Lock()
	defer table.mu.Unlock()
	for c := range table.all() {
		sum += c.taken.Load()
	}
	return sum
}
