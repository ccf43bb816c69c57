package store

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// pingTimeout is how long a volume may take to respond.
const pingTimeout = 5 * time.Second

// pinger asks a volume to respond.
type pinger struct {
	volume  *volume
	mu      sync.Mutex
	pending chan struct{} // closed when the volume responds; nil: no request is pending
}

func (p *pinger) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	select {
	case <-p.request():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the volume does not respond: %w", ctx.Err())
	}
}

// request sends a request unless one is pending, and returns a channel that is closed at the response.
func (p *pinger) request() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending != nil {
		return p.pending
	}
	responded := make(chan struct{})
	p.pending = responded
	go func() {
		touch(p.volume, formatFile)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.pending = nil
		close(responded)
	}()
	return responded
}
