package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/operator-catalogs/catalogd/bench/load"
	"github.com/operator-catalogs/catalogd/internal/testing/process"
)

// One worker per processor, sendfile, no log, and unlimited keep-alive; otherwise nginx's defaults.
const nginxConfig = `daemon off;
%s
worker_processes %d;
pid %s/nginx.pid;
error_log %[3]s/error.log;
events { worker_connections 1024; }
http {
  access_log off;
  sendfile on;
  keepalive_requests 1000000000;
  keepalive_timeout 1h;
  client_body_temp_path %[3]s/body;
  proxy_temp_path %[3]s/proxy;
  fastcgi_temp_path %[3]s/fastcgi;
  uwsgi_temp_path %[3]s/uwsgi;
  scgi_temp_path %[3]s/scgi;
  default_type application/octet-stream;
  server {
    listen %[4]s;
    root %[3]s/files;
  }
}
`

// nginx is a running nginx that serves the files of a directory over HTTP.
type nginx struct {
	*process.Child
	address string
	files   string
}

// findNginx returns the named nginx, the one on the PATH, or "".
func findNginx(named string) (string, error) {
	if named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("--nginx: %w", err)
		}
		return path, nil
	}
	path, _ := exec.LookPath("nginx")
	return path, nil
}

func startNginx(ctx context.Context, program, dir string) (*nginx, error) {
	addresses, err := process.FreeAddresses(1)
	if err != nil {
		return nil, err
	}
	n := &nginx{address: addresses[0], files: filepath.Join(dir, "files")}
	if err := os.MkdirAll(n.files, 0o755); err != nil {
		return nil, err
	}
	userLine := ""
	if os.Geteuid() == 0 { // otherwise its workers could not read these files
		me, err := user.Current()
		if err != nil {
			return nil, err
		}
		userLine = "user " + me.Username + ";"
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, nginxConfig, userLine, runtime.NumCPU(), dir, n.address), 0o644); err != nil {
		return nil, err
	}
	if n.Child, err = process.Start("nginx", filepath.Join(dir, "nginx.log"), program, "-p", dir, "-c", file, "-e",
		filepath.Join(dir, "error.log")); err != nil {
		return nil, err
	}
	if err := waitListening(ctx, n.Child, n.address); err != nil {
		_ = n.Stop(stopGrace)
		return nil, err
	}
	return n, nil
}

// put writes a file and returns the path at which nginx serves it.
func (n *nginx) put(name string, content []byte) (path string, err error) {
	return "/" + name, os.WriteFile(filepath.Join(n.files, name), content, 0o644)
}

func nginxVersion(ctx context.Context, program string) string {
	text, err := process.Run(ctx, "sh", "-c", `"$1" -v 2>&1`, "sh", program)
	if err != nil {
		return "nginx (version unknown)"
	}
	return strings.TrimSpace(strings.TrimPrefix(text, "nginx version: "))
}

// bareCommand makes this program serve a file; address and file name are its arguments.
const bareCommand = "serve-bare"

// serveBare serves a file from memory with Go's net/http and nothing else: the upper bound for a Go program.
func serveBare(address, file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	server := &http.Server{Addr: address, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(
		w http.ResponseWriter, _ *http.Request,
	) {
		if strings.HasSuffix(file, gzipSuffix) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Header().Set("Content-Encoding", "gzip")
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write(content) //nolint:gosec // G705: of this program. An error means that the client is gone
	})}
	return server.ListenAndServe()
}

// noteBare measures the throughput of net/http alone with a file of nginx, and notes it beside the yardstick.
func (e *env) noteBare(ctx context.Context, n *nginx, row *Row, file string) error {
	addresses, err := process.FreeAddresses(1)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	file = filepath.Join(n.files, file)
	body, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	server, err := process.Start("net/http", filepath.Join(e.dir, "bare.log"), program, bareCommand, addresses[0], file)
	if err != nil {
		return err
	}
	defer server.Kill()
	err = waitListening(ctx, server, addresses[0])
	var values []float64
	for len(values) < e.runs && err == nil {
		var result load.Result
		result, err = load.Run(ctx, load.Target{Address: addresses[0], Path: "/"}, body, manyConnections, e.duration)
		values = append(values, result.PerSecond())
	}
	if err == nil {
		row.note("a net/http server that does nothing but write those bytes from memory, measured after both: %s", row.beside(values))
	}
	return err
}
