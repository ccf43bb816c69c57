package poll

import (
	"errors"
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	for _, test := range []struct {
		failures  int
		least, at time.Duration
	}{
		{1, 1600 * time.Millisecond, 2400 * time.Millisecond},
		{2, 3200 * time.Millisecond, 4800 * time.Millisecond},
		{4, 12800 * time.Millisecond, 19200 * time.Millisecond},
		{9, 4 * time.Minute, 6 * time.Minute},
		{1 << 30, 4 * time.Minute, 6 * time.Minute},
	} {
		for range 100 {
			if got := Backoff(test.failures); got < test.least || got > test.at {
				t.Fatalf("Backoff(%d) = %v, want %v to %v", test.failures, got, test.least, test.at)
			}
		}
	}
}

func TestLogCountsFailuresInARow(t *testing.T) {
	var log Log
	for i, test := range []struct {
		err  error
		want int
	}{{errors.New("down"), 1}, {errors.New("down"), 2}, {nil, 0}, {errors.New("down"), 1}} {
		log.Record("c", "", time.Unix(int64(i), 0), test.err)
		if got := log.Get("c").Failures; got != test.want {
			t.Errorf("after record %d: %d failures, want %d", i, got, test.want)
		}
	}
}
