package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A tap forwards everything and counts all of it.
func TestTap(t *testing.T) {
	const length = 100_000
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	}))
	defer server.Close()
	tap, err := newTap()
	if err != nil {
		t.Fatal(err)
	}
	defer tap.Close()
	go tap.serve(server.Listener.Addr().String())
	sent := strings.Repeat("x", length)
	resp, err := http.Post("http://"+tap.Addr().String(), "text/plain", strings.NewReader(sent))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || string(got) != sent {
		t.Fatalf("%d bytes come back, want the %d that were sent: %v", len(got), length, err)
	}
	const headers = 2_000 // of request and reply, and the lengths of chunks
	if moved := tap.moved.Load(); moved < 2*length || moved > 2*length+headers {
		t.Errorf("%d bytes were counted, want %d and what HTTP adds", moved, 2*length)
	}
}
