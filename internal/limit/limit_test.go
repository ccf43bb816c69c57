package limit

import (
	"errors"
	"testing"
)

func TestSlots(t *testing.T) {
	s := NewSlots("queries", 2)
	first, err := s.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(); err != nil {
		t.Fatal(err)
	}
	wantExceeded(t, func() error { _, err := s.Acquire(); return err }, "too many concurrent queries (limit 2); retry later")
	first()
	if s.Used() != 1 {
		t.Errorf("got %d slots in use, want 1", s.Used())
	}
	if _, err := s.Acquire(); err != nil {
		t.Errorf("after a release: %v", err)
	}
}

func TestBudget(t *testing.T) {
	b := NewBudget(2, 10, "request less")
	release, err := b.Acquire(8)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 { // small amounts do not count
		if _, err := b.Acquire(2); err != nil {
			t.Fatal(err)
		}
	}
	wantExceeded(t, func() error { _, err := b.Acquire(3); return err }, "too many concurrent large responses; retry later, or request less")
	release()
	if _, err := b.Acquire(10); err != nil {
		t.Errorf("after a release: %v", err)
	}
}

func wantExceeded(t *testing.T, acquire func() error, message string) {
	t.Helper()
	err, ok := errors.AsType[*ExceededError](acquire())
	if !ok || err.Message != message {
		t.Errorf("got error %+v, want %q", err, message)
	}
}
