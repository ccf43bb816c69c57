package main

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// registryPatience is how long a registry may say nothing before we hang up.
const registryPatience = 30 * time.Second

// registryTransport is the one that go-containerregistry would use, less its patience: a registry that stops in the middle
// of an answer, or never begins one, would hold a catalog's worker, and soon all of them, for good. How long a whole answer
// takes is not bounded: a slow registry that goes on is worth waiting for.
func registryTransport(patience time.Duration) http.RoundTripper {
	transport, ok := remote.DefaultTransport.(*http.Transport)
	if !ok {
		return remote.DefaultTransport
	}
	transport = transport.Clone()
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &impatientConn{conn, patience}, nil
	}
	transport.IdleConnTimeout = patience / 2 // an idle connection is closed before its patience ends
	return transport
}

// impatientConn fails a read that gets nothing for so long since the last read or write.
type impatientConn struct {
	net.Conn
	patience time.Duration
}

func (c *impatientConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.patience)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// Write also gives the reader that waits meanwhile its time anew.
func (c *impatientConn) Write(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.patience)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
