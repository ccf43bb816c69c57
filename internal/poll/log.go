package poll

import (
	"sync"
	"time"
)

// Entry is what is known about the polls of one catalog. A zero time means: not yet.
type Entry struct {
	Last time.Time // the last poll, whether it worked or not
	Next time.Time // when the next poll is to be made; zero also if none will be
	Due  time.Time // when it was due first, if it was postponed since; else as Next
	From time.Time // from when on it could be made; it waits for its turn until Next
	Err  error     // why the last poll failed; nil if it worked

	// Subject names what was polled last, and by which way. Another one is due.
	Subject string

	// Failures is how many polls failed since the last that worked.
	Failures int
}

// Log keeps an Entry for each catalog that this process polled, or is to. It is not kept on disk: after a restart it is
// empty, and every catalog is simply due. The zero Log is ready for use, by several goroutines at a time.
//
// It also spreads planned polls over time, as many catalogs may have one schedule, and all are due after a restart: see Plan.
type Log struct {
	mu      sync.Mutex
	entries map[string]record
	turns   turns
}

type record struct {
	Entry
	share share // of the pace; zero: no poll is planned
}

// Record notes that catalog was polled at the time at, with the result err. The subject is for the caller to compare.
func (l *Log) Record(catalog, subject string, at time.Time, err error) {
	l.update(catalog, func(e *record) {
		e.Last, e.Subject, e.Err = at, subject, err
		if e.Failures++; err == nil {
			e.Failures = 0
		}
		l.turns.made(at)
	})
}

// Plan notes that catalog is to be polled at the time from, or as soon after it as it is its turn, and returns that time.
// In each second so many polls take their turn that every catalog could have it within its window, if all windows began
// now: with 1,000 catalogs of windows of 150 s, 7; with few of them, 1. Only where windows of many lengths meet can a second be
// full until a window's end: then the poll is made in the second of the window that has the fewest. So no turn is later than
// from and window.
//
// Asked again for the same time, it returns the same turn. A zero from notes that no poll is planned.
func (l *Log) Plan(catalog string, from time.Time, window time.Duration) time.Time {
	return l.plan(catalog, from, window, func(e *record) { e.Due = e.Next })
}

// Postpone is Plan for a poll that was due and is to be made later: the time when it was due first stays known.
func (l *Log) Postpone(catalog string, from time.Time, window time.Duration) time.Time {
	return l.plan(catalog, from, window, func(e *record) {
		if e.Due.IsZero() {
			e.Due = e.Next
		}
	})
}

func (l *Log) plan(catalog string, from time.Time, window time.Duration, note func(*record)) (turn time.Time) {
	l.update(catalog, func(e *record) {
		if !e.From.Equal(from) || e.Next.Before(from) {
			l.turns.drop(e.Next, e.share)
			e.From, e.Next, e.share = from, time.Time{}, 0
			if !from.IsZero() {
				e.Next, e.share = l.turns.take(from, window)
			}
		}
		note(e)
		turn = e.Next
	})
	return turn
}

// Get returns the entry of catalog; the zero Entry if there is none.
func (l *Log) Get(catalog string) Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entries[catalog].Entry
}

// Forget drops the entry of catalog, which then is as if it had never been polled.
func (l *Log) Forget(catalog string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry := l.entries[catalog]
	l.turns.drop(entry.Next, entry.share)
	delete(l.entries, catalog)
}

func (l *Log) update(catalog string, change func(*record)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries == nil {
		l.entries = map[string]record{}
	}
	entry := l.entries[catalog]
	change(&entry)
	l.entries[catalog] = entry
}
