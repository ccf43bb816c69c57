package main

import (
	"io"
	"net"
	"sync/atomic"
)

// tap forwards TCP connections to a server and counts the bytes in both directions.
type tap struct {
	net.Listener
	server string // host:port; set before the first connection
	moved  atomic.Int64
}

func newTap() (*tap, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &tap{Listener: listener}, nil
}

// serve forwards connections until the tap is closed.
func (t *tap) serve(server string) {
	t.server = server
	for {
		client, err := t.Accept()
		if err != nil {
			return
		}
		go t.pass(client)
	}
}

// pass forwards until one side closes.
func (t *tap) pass(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", t.server)
	if err != nil {
		return
	}
	defer server.Close()
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		go func() {
			_, _ = io.Copy(way[1], io.TeeReader(way[0], t))
			done <- struct{}{}
		}()
	}
	<-done
}

// Write counts bytes.
func (t *tap) Write(p []byte) (int, error) {
	t.moved.Add(int64(len(p)))
	return len(p), nil
}
