package store

import (
	"context"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

func TestPing(t *testing.T) {
	s := open(t, t.TempDir(), newClock())
	for range 3 {
		must.Succeed(t, s.Ping(t.Context()))
	}
	s.pinger.mu.Lock()
	s.pinger.pending = make(chan struct{}) // a question that waits for good
	s.pinger.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Ping(ctx); err == nil || !strings.Contains(err.Error(), "the volume does not respond") {
		t.Errorf("got %v, want that the volume does not respond", err)
	}
}
