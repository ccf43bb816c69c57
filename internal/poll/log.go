package poll

import (
	"sync"
	"time"
)

// Entry is the state of one catalog's polls. A zero time means never.
type Entry struct {
	Last time.Time // the last poll, successful or not
	Next time.Time // the next poll; zero if there is none
	Due  time.Time // when it was first due, if it was postponed since; else Next
	From time.Time // the earliest time of the next poll, before it was spread to Next
	Err  error     // of the last poll; nil if it succeeded

	// Subject identifies the polled image and route. Another subject is due at once.
	Subject string

	// Failures counts the failed polls since the last success.
	Failures int
}

// Log keeps an Entry for each polled or planned catalog. It is in memory only: after a restart it is empty, and
// every catalog is due. The zero Log is ready for use. Its methods may be called concurrently.
//
// It also spreads planned polls over time, because many catalogs may share a schedule, and all are due after a
// restart: see Plan.
type Log struct {
	mu      sync.Mutex
	entries map[string]record
	turns   turns
}

type record struct {
	Entry
	share share // of the poll rate; zero: no poll is planned
}

// Record records a poll of catalog at a time, with its result err. The caller compares the subject.
func (l *Log) Record(catalog, subject string, at time.Time, err error) {
	l.update(catalog, func(e *record) {
		e.Last, e.Subject, e.Err = at, subject, err
		if e.Failures++; err == nil {
			e.Failures = 0
		}
		l.turns.made(at)
	})
}

// Plan plans a poll of catalog at the time from, or at the next free second after it, and returns that time.
// Each second has room for as many polls as let every catalog poll within its window: 7 for 1,000 catalogs with
// windows of 150 s, 1 for a few. If all seconds of the window are full, which happens only with windows of
// different lengths, Plan takes the one with the fewest polls. So no poll is later than from plus window.
//
// Asked again for the same time, it returns the same second. A zero from plans no poll.
func (l *Log) Plan(catalog string, from time.Time, window time.Duration) time.Time {
	return l.plan(catalog, from, window, func(e *record) { e.Due = e.Next })
}

// Postpone is Plan for a poll that was due and is delayed: it keeps the time when the poll was first due.
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

// Forget drops the entry of catalog, as if it had never been polled.
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

// turns is the calendar of planned polls: their number in each second, and its limit. The zero value is ready
// for use. The Log that owns it guards it.
type turns struct {
	planned map[int64]int // polls by second, as a Unix time
	shares  share         // of all catalogs
	latest  struct {      // the last second with a poll; it stays occupied
		second int64
		polls  int
	}
}

// share is a catalog's contribution to the limit of polls in a second, in billionths of a poll.
type share int64

const onePoll share = 1e9

// take plans a poll in a second between from and from plus window.
func (t *turns) take(from time.Time, window time.Duration) (time.Time, share) {
	if t.planned == nil {
		t.planned = map[int64]int{}
	}
	own := onePoll / share(max(window/time.Second, 1))
	t.shares += own
	limit := int((t.shares + onePoll - 1) / onePoll)
	turn, fewest := from, t.polls(from)
	for at := from; fewest >= limit && !at.After(from.Add(window)); at = at.Add(time.Second) {
		if polls := t.polls(at); polls < fewest {
			turn, fewest = at, polls
		}
	}
	t.planned[turn.Unix()]++
	return turn, own
}

// polls counts the polls planned for, or made in, the second of a time.
func (t *turns) polls(at time.Time) int {
	polls := t.planned[at.Unix()]
	if t.latest.second == at.Unix() {
		polls += t.latest.polls
	}
	return polls
}

// drop undoes take. A zero share means that no poll was planned.
func (t *turns) drop(turn time.Time, own share) {
	if own == 0 {
		return
	}
	t.shares -= own
	if second := turn.Unix(); t.planned[second] > 1 {
		t.planned[second]--
	} else {
		delete(t.planned, second)
	}
}

// made counts a poll, planned or not.
func (t *turns) made(at time.Time) {
	switch second := at.Unix(); {
	case second > t.latest.second:
		t.latest.second, t.latest.polls = second, 1
	case second == t.latest.second:
		t.latest.polls++
	}
}
