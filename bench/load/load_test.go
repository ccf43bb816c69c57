package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func serve(t *testing.T, handler http.HandlerFunc) Target {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return Target{Address: server.Listener.Addr().String(), Path: "/x?y=z"}
}

func TestRunCountsReplies(t *testing.T) {
	body := bytes.Repeat([]byte("catalog "), 50_000)
	for name, chunked := range map[string]bool{"with a length": false, "in chunks": true} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int64
			target := serve(t, func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				if r.RequestURI != "/x?y=z" || r.Header.Get("Accept-Encoding") != "zstd" {
					t.Errorf("asked for %s with %v", r.RequestURI, r.Header)
				}
				if !chunked {
					w.Header().Set("Content-Length", fmt.Sprint(len(body)))
				}
				_, _ = w.Write(body)
			})
			target.Header = []string{"Accept-Encoding: zstd"}
			got, err := Get(t.Context(), target)
			if err != nil || !bytes.Equal(got, body) {
				t.Fatalf("got %d bytes, %v", len(got), err)
			}
			if n, err := Skim(t.Context(), target); err != nil || n != int64(len(body)) {
				t.Fatalf("skimmed %d bytes, %v", n, err)
			}
			const connections = 3
			result, err := Run(t.Context(), target, body, connections, 50*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			if want := int(requests.Load()) - 2 - connections; result.Requests != want || result.Bytes != int64(want*len(body)) {
				t.Errorf("counted %d requests and %d bytes; the server, %d requests", result.Requests, result.Bytes, want)
			}
			if result.P50 <= 0 || result.P95 < result.P50 || result.P99 < result.P95 || result.PerSecond() <= 0 || result.BytesPerSecond() <= 0 {
				t.Errorf("%+v", result)
			}
		})
	}
}

func TestRunRefuses(t *testing.T) {
	body := []byte(strings.Repeat("x", 5000))
	for name, test := range map[string]struct {
		answer func(w http.ResponseWriter, number int64)
		want   string
	}{
		"another status": {func(w http.ResponseWriter, _ int64) { http.Error(w, "no", http.StatusNotFound) }, "404"},
		"another body":   {func(w http.ResponseWriter, _ int64) { _, _ = w.Write(bytes.ToUpper(body)) }, "not the one expected"},
		"a shorter body": {func(w http.ResponseWriter, _ int64) { _, _ = w.Write(body[:100]) }, "100 bytes"},
		"later, another length": {func(w http.ResponseWriter, number int64) {
			_, _ = w.Write(body[:len(body)-int(min(1, number/4))])
		}, "4999 bytes"},
		"later, another status": {func(w http.ResponseWriter, number int64) {
			if number > 4 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			_, _ = w.Write(body)
		}, "503"},
		"broken off": {func(w http.ResponseWriter, _ int64) {
			w.Header().Set("Content-Length", "5000")
			_, _ = w.Write(body[:100])
		}, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int64
			target := serve(t, func(w http.ResponseWriter, _ *http.Request) { test.answer(w, requests.Add(1)) })
			if _, err := Run(t.Context(), target, body, 2, 10*time.Second); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	body := []byte("x")
	var requests atomic.Int64
	target := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 100 {
			cancel()
		}
		_, _ = w.Write(body)
	})
	began := time.Now()
	if _, err := Run(ctx, target, body, 2, time.Minute); err == nil ||
		errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 30*time.Second {
		t.Errorf("got %v after %s", err, time.Since(began))
	}
}
