package listen

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

const benchServer = "LISTEN_BENCH_SERVER" // makes the test binary a server: "plain" or "tls"

// The server is a separate process of this binary, so that its memory can be measured without that of the clients.
func init() {
	kind := os.Getenv(benchServer)
	if kind == "" {
		return
	}
	content := make([]byte, 16<<20)
	cfg := Config{Name: "bench", Address: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler), Stall: patience,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/small" { // it is with net/http when the handler has returned
				w.Write(content[:3<<10])
				return
			}
			w.Write(content)
		})}
	if kind == "tls" {
		cfg.TLS, _ = certificate()
	}
	server, err := Listen(cfg)
	if err == nil {
		fmt.Fprintln(os.Stdout, server.Addr())
		err = server.Serve(context.Background())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// BenchmarkHeldConnections measures the memory of the server's process for a connection in the worst states, without that of the kernel.
func BenchmarkHeldConnections(b *testing.B) {
	for _, bench := range []struct {
		name, server string
		requests     int // held
		hold         func(b *testing.B, address string) io.Closer
	}{
		{"header", "plain", 1000, func(b *testing.B, address string) io.Closer {
			return holdOne(b, address, false, "GET / HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 30<<10))
		}},
		{"reply", "plain", 1000, func(b *testing.B, address string) io.Closer {
			return holdOne(b, address, false, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		}},
		{"header", "tls", 1000, func(b *testing.B, address string) io.Closer {
			return holdOne(b, address, true, "GET / HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 30<<10))
		}},
		{"reply", "tls", 1000, func(b *testing.B, address string) io.Closer {
			return holdOne(b, address, true, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		}},
		{"HTTP2 streams", "tls", 2000, func(b *testing.B, address string) io.Closer { return holdStreams(b, address, "/") }},
		{"HTTP2 small replies", "tls", 2000, func(b *testing.B, address string) io.Closer { return holdStreams(b, address, "/small") }},
		{
			"HTTP2 small replies, most cut",
			"tls",
			20_000,
			func(b *testing.B, address string) io.Closer { return holdStreams(b, address, "/small") },
		},
	} {
		b.Run(bench.server+" "+bench.name, func(b *testing.B) {
			for b.Loop() {
				pid, address := startBenchServer(b, bench.server)
				before := rss(b, pid)
				var held []io.Closer
				for n := 0; n < bench.requests; n += perConnection(bench.name) {
					held = append(held, bench.hold(b, address))
				}
				after := rss(b, pid)
				b.ReportMetric(float64(after-before)/float64(bench.requests), "B/request")
				b.ReportMetric(float64(after-before)/(1<<20), "MiB")
				for _, c := range held {
					c.Close()
				}
			}
		})
	}
}

func perConnection(name string) int {
	if strings.HasPrefix(name, "HTTP2") {
		return maxStreams
	}
	return 1
}

func startBenchServer(b *testing.B, kind string) (pid int, address string) {
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), benchServer+"="+kind)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Wait() }) // the context, which ends before, ends it
	address, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return cmd.Process.Pid, strings.TrimSpace(address)
}

// rss returns the memory of a process in bytes.
func rss(b *testing.B, pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		b.Fatal(err)
	}
	return kib << 10
}

// holdOne sends the text and reads at most the first byte of the response.
func holdOne(b *testing.B, address string, secure bool, text string) io.Closer {
	var c net.Conn
	c, err := (&net.Dialer{Control: smallWindow}).Dial("tcp", address)
	if err == nil && secure {
		t := tls.Client(c, &tls.Config{InsecureSkipVerify: true})
		c, err = t, t.Handshake()
	}
	if err == nil {
		_, err = io.WriteString(c, text)
	}
	if err == nil && strings.HasSuffix(text, "\r\n\r\n") {
		_, err = c.Read(make([]byte, 1))
	}
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// holdStreams holds the maximum number of responses of an HTTP/2 connection.
func holdStreams(b *testing.B, address, path string) io.Closer {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Protocols: new(http.Protocols),
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 1 << 10}}
	transport.Protocols.SetHTTP2(true)
	client := &http.Client{Transport: transport}
	var bodies bodies
	for range maxStreams {
		response, err := client.Get("https://" + address + path)
		if err != nil {
			b.Fatal(err)
		}
		bodies = append(bodies, response.Body)
	}
	return bodies
}

type bodies []io.Closer

func (all bodies) Close() error {
	for _, body := range all {
		body.Close()
	}
	return nil
}
