package cli

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/operator-catalogs/catalogd/cmd/kubectl-catalog/internal/content"
)

// firstTime is how long the first lines may take to come, of which each is of another feed.
const firstTime = 500 * time.Millisecond

// firstEvents has the events that come in the first moment printed in the order of their times.
type firstEvents struct {
	show func(content.Event) error

	mu     sync.Mutex
	held   []content.Event
	widest int // of the catalogs' names so far
	timer  *time.Timer
	ended  bool
	err    error // of printing them
}

func (f *firstEvents) add(event content.Event) error {
	if event.LastModified.IsZero() {
		event.LastModified = time.Now().Truncate(time.Second)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.widest = max(f.widest, len(event.Catalog))
	if f.ended {
		return cmp.Or(f.err, f.show(event))
	}
	f.held = append(f.held, event)
	if f.timer == nil {
		f.timer = time.AfterFunc(firstTime, func() { _ = f.end() })
	}
	return nil
}

// end prints what is held, unless that has been done.
func (f *firstEvents) end() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.SortStableFunc(f.held, func(a, b content.Event) int {
		return cmp.Or(a.LastModified.Compare(b.LastModified), cmp.Compare(a.Catalog, b.Catalog))
	})
	for _, event := range f.held {
		f.err = cmp.Or(f.err, f.show(event))
	}
	f.held, f.ended = nil, true
	return f.err
}
