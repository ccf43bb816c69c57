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
	Err  error     // why the last poll failed; nil if it worked

	// Subject names what was polled last, and by which way. Another one is due.
	Subject string

	// Failures is how many polls failed since the last that worked.
	Failures int
}

// Log keeps an Entry for each catalog that this process polled. It is not kept on disk: after a restart it is empty, and
// every catalog is simply due. The zero Log is ready for use, by several goroutines at a time.
type Log struct {
	mu      sync.Mutex
	entries map[string]Entry
}

// Record notes that catalog was polled at the time at, with the result err. The subject is for the caller to compare.
func (l *Log) Record(catalog, subject string, at time.Time, err error) {
	l.update(catalog, func(e *Entry) {
		e.Last, e.Subject, e.Err = at, subject, err
		if e.Failures++; err == nil {
			e.Failures = 0
		}
	})
}

// SetNext notes when the next poll of catalog is due.
func (l *Log) SetNext(catalog string, next time.Time) {
	l.update(catalog, func(e *Entry) { e.Next, e.Due = next, next })
}

// Postpone notes that a poll of catalog that is due is to be made later.
func (l *Log) Postpone(catalog string, next time.Time) {
	l.update(catalog, func(e *Entry) { e.Next = next })
}

// Get returns the entry of catalog; the zero Entry if there is none.
func (l *Log) Get(catalog string) Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entries[catalog]
}

// Forget drops the entry of catalog, which then is as if it had never been polled.
func (l *Log) Forget(catalog string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.entries, catalog)
}

func (l *Log) update(catalog string, change func(*Entry)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries == nil {
		l.entries = map[string]Entry{}
	}
	entry := l.entries[catalog]
	change(&entry)
	l.entries[catalog] = entry
}
