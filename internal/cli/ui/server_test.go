package ui

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/cli/exit"
)

// start serves a handler that answers with its path.
func start(t *testing.T, next http.HandlerFunc) (s *server, stop func() error) {
	t.Helper()
	s, err := listenOn("127.0.0.1", 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.serve(ctx, next) }()
	stop = func() error { cancel(); return <-ended }
	t.Cleanup(cancel)
	return s, stop
}

func TestGuard(t *testing.T) {
	s, _ := start(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Method+" "+r.URL.RequestURI()) })
	_, port, _ := net.SplitHostPort(s.host)
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	below := "/" + s.secret
	for _, test := range []struct {
		host, method, path string
		code               int
		body               string
	}{
		{"", "GET", below + "/", 200, "GET /"},
		{"", "GET", below + "/catalogs/a?x=1", 200, "GET /catalogs/a?x=1"},
		{"", "HEAD", below + "/", 200, ""},
		{"", "POST", below + "/graphql", 200, "POST /graphql"},
		{"", "GET", below, 303, ""},
		{"localhost:" + port, "GET", below + "/", 200, "GET /"},
		{"LOCALHOST:" + port, "GET", below + "/", 200, "GET /"},
		{"[::1]:" + port, "GET", below + "/", 200, "GET /"},
		// not this machine, or another port
		{"evil.example", "GET", below + "/", 421, ""},
		{"evil.example:" + port, "GET", below + "/", 421, ""},
		{"localhost.evil.example:" + port, "GET", below + "/", 421, ""},
		{"127.0.0.1", "GET", below + "/", 421, ""},
		{"127.0.0.1:1", "GET", below + "/", 421, ""},
		{"127.0.0.2:" + port, "GET", below + "/", 421, ""},
		{"localhost.:" + port, "GET", below + "/", 421, ""},
		{"evil.example:" + port, "GET", "/", 421, ""},
		// without the secret
		{"", "GET", "/", 404, "404 Not Found\nuse the URL that kubectl catalog ui printed\n"},
		{"", "GET", "/ui/", 404, "404 Not Found\nuse the URL that kubectl catalog ui printed\n"},
		{"", "POST", "/graphql", 404, "404 Not Found\nuse the URL that kubectl catalog ui printed\n"},
		{"", "GET", "/" + strings.ToLower(s.secret) + "/", 404, "404 Not Found\nuse the URL that kubectl catalog ui printed\n"},
		{"", "GET", "/" + s.secret[:10] + "/", 404, "404 Not Found\nuse the URL that kubectl catalog ui printed\n"},
		{"", "GET", "//" + s.secret + "/", 404, "404 Not Found\nuse the URL that kubectl catalog ui printed\n"},
		// methods
		{"", "POST", below + "/", 405, ""},
		{"", "POST", below + "/graphql/x", 405, ""},
		{"", "PUT", below + "/graphql", 405, ""},
		{"", "OPTIONS", below + "/", 405, ""},
		{"", "DELETE", below + "/catalogs/a", 405, ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), test.method, "http://"+s.host+test.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = test.host
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != test.code || test.body != "" && string(body) != test.body {
			t.Errorf("%s %s of host %q: %d %q, want %d %q", test.method, test.path, test.host, resp.StatusCode, body, test.code, test.body)
		}
		if strings.Contains(string(body)+fmt.Sprint(resp.Header), s.secret) && test.code != 303 {
			t.Errorf("%s %s tells the secret: %q %v", test.method, test.path, body, resp.Header)
		}
	}
}

// The argument of a browser leads to the page once.
func TestTicketIsUsedOnce(t *testing.T) {
	s, _ := start(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.RequestURI()) })
	ticket := s.openOnce("catalogs/a/packages/b")
	if strings.Contains(ticket, s.secret) {
		t.Errorf("%s has the secret", ticket)
	}
	for _, want := range []string{"200 /catalogs/a/packages/b", "404 404 Not Found\nuse the URL that kubectl catalog ui printed\n"} {
		resp, err := http.Get(ticket)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if got := fmt.Sprintf("%d %s", resp.StatusCode, body); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A feed is passed on piece by piece, and the end of the command ends it.
func TestFeedStreamsUntilTheEnd(t *testing.T) {
	s, stop := start(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "event\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	resp, err := http.Get(s.url("watch"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	first := make([]byte, len("event\n"))
	if _, err := io.ReadFull(resp.Body, first); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if rest, err := io.ReadAll(resp.Body); len(rest) > 0 {
		t.Errorf("after the end: %q, %v", rest, err)
	}
}

func TestOnlyLoopbackAddresses(t *testing.T) {
	for _, address := range []string{"0.0.0.0", "::", "192.0.2.1", "example.com", ""} {
		if s, err := listenOn(address, 0); !exit.IsUsage(err) {
			t.Errorf("%q: got %v, %v", address, s, err)
		}
	}
	s, err := listenOn("localhost", 0)
	if err != nil {
		t.Fatal(err)
	}
	s.close()
}

func TestBrowserIsNotOpenedOverSSH(t *testing.T) {
	env := map[string]string{"DISPLAY": ":0", "SSH_CONNECTION": "a b"}
	if hasBrowser(func(name string) string { return env[name] }) {
		t.Error("a browser on another machine is opened")
	}
	delete(env, "SSH_CONNECTION")
	if !hasBrowser(func(name string) string { return env[name] }) {
		t.Error("no browser is opened")
	}
}
