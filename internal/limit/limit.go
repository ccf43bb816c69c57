// Package limit bounds concurrent work and the memory that slow clients can hold. The services of a process share one
// Limits, whatever protocol they speak.
package limit

import (
	"fmt"

	"golang.org/x/sync/semaphore"
)

// ExceededError refuses a request that exceeds a limit.
type ExceededError struct{ Message string }

// Error implements error.
func (e *ExceededError) Error() string { return e.Message }

// Limits are the limits of a process.
type Limits struct {
	Queries      Slots  // requests that read the index or blobs
	Compressions Slots  // responses that are compressed while they are sent
	Feeds        Slots  // open change feeds
	Selections   Budget // blobs of the responses that clients are reading
	Responses    Budget // bytes of the GraphQL responses that clients are reading
}

const (
	maxFeeds = 500 // half of the default --max-connections; each feed holds at most one old snapshot of each catalog

	// A response holds up to 28 bytes for each selected blob, so all of them hold at most 235 MB.
	freeBlobs    = 1000
	maxBlobs     = 8 << 20
	freeResponse = 64 << 10 // bytes
	maxResponses = 256 << 20
)

// New returns the limits of a process that answers at most maxQueries queries at a time.
func New(maxQueries int) *Limits {
	return &Limits{
		Queries:      NewSlots("queries", maxQueries),
		Compressions: NewSlots("compressed responses", maxQueries),
		Feeds:        NewSlots("change feeds", maxFeeds),
		Selections:   NewBudget(freeBlobs, maxBlobs, fmt.Sprintf("request at most %d blobs at a time", freeBlobs)),
		Responses:    NewBudget(freeResponse, maxResponses, "request fewer fields or a smaller first"),
	}
}

// Slots bound how many operations of a kind run at a time.
type Slots struct {
	kind string
	used chan struct{}
}

// NewSlots returns n slots for operations of a kind; kind is a plural noun.
func NewSlots(kind string, n int) Slots { return Slots{kind: kind, used: make(chan struct{}, n)} }

// Acquire takes a slot until release is called. It does not wait: without a free slot it returns an *ExceededError.
func (s Slots) Acquire() (release func(), err error) {
	select {
	case s.used <- struct{}{}:
		return func() { <-s.used }, nil
	default:
		return nil, &ExceededError{fmt.Sprintf("too many concurrent %s (limit %d); retry later", s.kind, cap(s.used))}
	}
}

// Used returns the number of taken slots.
func (s Slots) Used() int { return len(s.used) }

// Budget bounds the sum of what responses hold while clients read them.
type Budget struct {
	left   *semaphore.Weighted
	free   int64
	remedy string
}

// NewBudget returns a budget of limit units. An operation of at most free units does not count. remedy tells clients how
// to stay within the budget.
func NewBudget(free, limit int64, remedy string) Budget {
	return Budget{left: semaphore.NewWeighted(limit), free: free, remedy: remedy}
}

// Acquire takes n units until release is called. It does not wait: without n units left it returns an *ExceededError.
func (b Budget) Acquire(n int64) (release func(), err error) {
	if n <= b.free {
		return func() {}, nil
	}
	if !b.left.TryAcquire(n) {
		return nil, &ExceededError{"too many concurrent large responses; retry later, or " + b.remedy}
	}
	return func() { b.left.Release(n) }, nil
}
