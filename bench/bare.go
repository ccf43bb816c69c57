package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/operator-catalogs/catalogd/bench/load"
	"github.com/operator-catalogs/catalogd/internal/testing/process"
)

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
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write(content) //nolint:gosec // G705: no browser reads it. An error means that the client is gone
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
