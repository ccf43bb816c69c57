// Package poll answers the three questions of polling: which image is meant (a template with the cluster's
// version), when the next poll is (arithmetic, no timer), and which digest the image has now (one request).
package poll

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"time"
	_ "time/tzdata" // CRON_TZ works in images without a time zone database

	"github.com/cenkalti/backoff/v4"
	"github.com/robfig/cron/v3"
)

// Jitter delays a poll by up to a tenth of the gap since the previous poll, and by maxJitter at most. That spreads
// single requests and keeps a daily schedule near its hour.
const (
	jitterFraction = 10
	maxJitter      = 10 * time.Minute
)

// maxWindow keeps a daily schedule near its hour, even with thousands of catalogs.
const maxWindow = 20 * time.Minute

// Schedule is the frequency of polls: at an interval (Every) or at times of the day (Cron). The zero value never
// polls again.
type Schedule struct {
	every time.Duration
	cron  cron.Schedule
}

// Every polls d after each poll. If d is zero or negative, it never polls again.
func Every(d time.Duration) Schedule {
	return Schedule{every: d}
}

// Cron polls at the times of a crontab line with five fields ("0 6 * * 1-5"), a word ("@daily") or "@every 45m".
// Times are in UTC unless the line begins with a zone ("CRON_TZ=Europe/Berlin 0 6 * * *"). Syntax and daylight
// saving time are handled by robfig/cron: a time that a day does not have is skipped.
func Cron(spec string) (Schedule, error) {
	if err := checkZone(spec); err != nil {
		return Schedule{}, fmt.Errorf("parsing schedule %q: %w", spec, err)
	}
	schedule, err := cron.ParseStandard(spec)
	if err != nil {
		return Schedule{}, fmt.Errorf("parsing schedule %q: %w", spec, err)
	}
	return Schedule{cron: schedule}, nil
}

// checkZone refuses a zone without fields, on which cron v3.0.1 panics.
func checkZone(spec string) error {
	zoned := strings.HasPrefix(spec, "TZ=") || strings.HasPrefix(spec, "CRON_TZ=")
	if zoned && !strings.Contains(spec, " ") {
		return errors.New("a time zone must be followed by a space and five fields, as in \"CRON_TZ=Europe/Berlin 0 6 * * *\"")
	}
	return nil
}

// Next returns when to poll after a poll at last, never before now: an overdue, missed or first poll (zero last)
// is due now. So is a poll whose last lies after now, because a clock was set back. The zero time means never:
// no further time matches the schedule.
//
// key, the catalog's name, spreads catalogs with one schedule: it delays each by a fixed part of the jitter (a
// tenth of the gap since last, ten minutes at most). That sets their order; Log.Plan sets their distance.
func (s Schedule) Next(last, now time.Time, key string) time.Time {
	if last.IsZero() || last.After(now) {
		return now
	}
	due := s.after(last)
	if due.IsZero() {
		return due
	}
	due = due.Add(jitter(due.Sub(last), key))
	if due.Before(now) {
		return now
	}
	return due
}

// Window returns how long after Next the poll that follows last may wait for a free second (Log.Plan): half the
// gap between two polls, 20 minutes at most. So a schedule with even gaps skips no poll. A zero last means that
// no poll was made yet.
func (s Schedule) Window(last, now time.Time) time.Duration {
	if last.IsZero() || last.After(now) {
		last = now
	}
	if gap := s.Gap(last); gap > 0 {
		return min(gap/2, maxWindow)
	}
	return maxWindow
}

// Gap returns the time between the two polls that follow a poll at last, without jitter; 0 if there are not two.
func (s Schedule) Gap(last time.Time) time.Duration {
	due := s.after(last)
	if due.IsZero() {
		return 0
	}
	following := s.after(due)
	if following.IsZero() {
		return 0
	}
	return following.Sub(due)
}

// after returns the first time of the schedule after last, in last's location; zero if there is none.
func (s Schedule) after(last time.Time) time.Time {
	switch {
	case s.cron != nil:
		due := s.cron.Next(last.UTC())
		if due.IsZero() {
			return due
		}
		return due.In(last.Location())
	case s.every > 0:
		return last.Add(s.every)
	default:
		return time.Time{}
	}
}

// jitter maps key evenly onto [0, limit), where limit depends on gap.
func jitter(gap time.Duration, key string) time.Duration {
	limit := min(gap/jitterFraction, maxJitter)
	sum := sha256.Sum256([]byte(key))
	share, _ := bits.Mul64(binary.BigEndian.Uint64(sum[:8]), uint64(limit))
	return time.Duration(share)
}

// Waits double from firstBackoff to maxBackoff. The first is short because most failures are; the last is a rate
// that a failing registry can bear from many clusters.
const (
	firstBackoff = 2 * time.Second
	maxBackoff   = 5 * time.Minute
)

// Backoff returns the wait after a number of failures in a row, with a jitter of 20 %, so that catalogs that
// failed together do not retry together.
func Backoff(failures int) time.Duration {
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstBackoff),
		backoff.WithMultiplier(2),
		backoff.WithMaxInterval(maxBackoff),
		backoff.WithRandomizationFactor(0.2),
		backoff.WithMaxElapsedTime(0),
	)
	wait := b.NextBackOff()
	for range min(failures-1, 16) { // 16 doublings exceed maxBackoff
		wait = b.NextBackOff()
	}
	return wait
}
