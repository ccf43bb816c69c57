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
	l.SetNext("foo", first.Add(time.Minute))
	l.SetNext("bar", first)
	if got, want := l.Get("foo"), (Entry{Last: first, Subject: "image", Next: first.Add(time.Minute), Due: first.Add(time.Minute), Err: refused, Failures: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	l.Record("foo", "other image", first.Add(time.Minute), nil)
	if got, want := l.Get("foo"), (Entry{Last: first.Add(time.Minute), Subject: "other image", Next: first.Add(time.Minute), Due: first.Add(time.Minute)}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	l.Postpone("foo", first.Add(time.Hour))
	if got := l.Get("foo"); got.Next != first.Add(time.Hour) || got.Due != first.Add(time.Minute) {
		t.Errorf("postponed: %+v", got)
	}
	l.Forget("foo")
	if got := l.Get("foo"); got != (Entry{}) {
		t.Errorf("a forgotten catalog has %+v", got)
	}
	if got := l.Get("bar").Next; got != first {
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
				l.SetNext("foo", time.Unix(int64(i), 1))
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
