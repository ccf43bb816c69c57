package poll

import (
	"errors"
	"sync"
	"testing"
	"time"
)

func TestLog(t *testing.T) {
	var l Log
	if got := l.Get("foo"); got != (Entry{}) {
		t.Errorf("an empty log has %+v", got)
	}
	first, refused := time.Unix(100, 0), errors.New("connection refused")
	l.Record("foo", "image", first, refused)
	next := first.Add(time.Minute)
	if turn := l.Plan("foo", next, time.Minute); turn != next {
		t.Errorf("alone, foo has its turn at %v", turn)
	}
	other := first.Add(time.Hour)
	l.Plan("bar", other, time.Minute)
	if got, want := l.Get("foo"), (Entry{
		Last: first, Subject: "image", Next: next, Due: next, From: next, Err: refused, Failures: 1,
	}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	l.Record("foo", "other image", next, nil)
	if got, want := l.Get("foo"), (Entry{Last: next, Subject: "other image", Next: next, Due: next, From: next}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	l.Postpone("foo", first.Add(time.Hour+time.Minute), time.Minute)
	if got := l.Get("foo"); got.Next != first.Add(time.Hour+time.Minute) || got.Due != next {
		t.Errorf("postponed: %+v", got)
	}
	l.Postpone("new", other, time.Minute)
	if got := l.Get("new"); got.Next.IsZero() || got.Due != got.Next {
		t.Errorf("a first poll, postponed: %+v", got)
	}
	l.Plan("new", time.Time{}, time.Minute)
	if got := l.Get("new"); got != (Entry{}) {
		t.Errorf("no poll is planned, and it has %+v", got)
	}
	l.Forget("foo")
	if got := l.Get("foo"); got != (Entry{}) {
		t.Errorf("a forgotten catalog has %+v", got)
	}
	if got := l.Get("bar").Next; got != other {
		t.Errorf("another catalog was forgotten too: %v", got)
	}
}

// TestLogConcurrently is for the race detector.
func TestLogConcurrently(t *testing.T) {
	var l Log
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 100 {
				l.Record("foo", "image", time.Unix(int64(i), 0), nil)
				l.Plan("foo", time.Unix(int64(i), 1), time.Minute)
				l.Forget("bar")
				l.Get("foo")
			}
		})
	}
	group.Wait()
	if got := l.Get("foo").Last; got.IsZero() {
		t.Error("nothing was recorded")
	}
}
