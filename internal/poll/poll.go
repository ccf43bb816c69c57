// Package poll provides the three questions of polling: which image is meant (a template of the cluster's version), when is the next
// poll (arithmetic, no timer) and which digest does the image have now (one request).
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

	"github.com/robfig/cron/v3"
)

// Jitter delays a poll by up to a tenth of the gap since the poll before, and by no more than maxJitter, which is plenty to
// spread single requests and keeps a daily schedule near its hour.
const (
	jitterFraction = 10
	maxJitter      = 10 * time.Minute
)

// maxWindow keeps a daily schedule near its hour, though thousands of catalogs have it.
const maxWindow = 20 * time.Minute

// Schedule says how often to poll: at an interval (Every) or at times of the day (Cron). The zero value never polls again.
type Schedule struct {
	every time.Duration
	cron  cron.Schedule
}

// Every polls d after each poll. A d of zero or less never polls again.
func Every(d time.Duration) Schedule {
	return Schedule{every: d}
}

// Cron polls at the times of a crontab line of five fields ("0 6 * * 1-5"), of a word ("@daily") or of "@every 45m". Times
// are in UTC unless the line begins with a zone ("CRON_TZ=Europe/Berlin 0 6 * * *"). The syntax and the days on which
// clocks change are those of robfig/cron: a time that such a day does not have is left out.
func Cron(spec string) (Schedule, error) {
	if err := checkZone(spec); err != nil {
		return Schedule{}, fmt.Errorf("reading schedule %q: %w", spec, err)
	}
	schedule, err := cron.ParseStandard(spec)
	if err != nil {
		return Schedule{}, fmt.Errorf("reading schedule %q: %w", spec, err)
	}
	return Schedule{cron: schedule}, nil
}

// checkZone refuses a zone that nothing follows: cron v3.0.1 panics on it.
func checkZone(spec string) error {
	zoned := strings.HasPrefix(spec, "TZ=") || strings.HasPrefix(spec, "CRON_TZ=")
	if zoned && !strings.Contains(spec, " ") {
		return errors.New("a time zone must be followed by a space and five fields, as in \"CRON_TZ=Europe/Berlin 0 6 * * *\"")
	}
	return nil
}

// Next returns when to poll after a poll at last, and never a time before now: a poll that is due, was missed, or has
// never been (zero last) is to be made now. So is one whose last lies after now, since then a clock was set back and last
// says nothing. The zero time means never: no further time matches the schedule.
//
// key, the catalog's name, spreads catalogs of one schedule: each is later than the schedule says by its own fixed part
// of the jitter (a tenth of the gap since last, ten minutes at most). That makes their order; how close together they come is for
// Log.Plan.
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

// Window is for how long the poll after a poll at last may wait for its turn (Log.Plan), from Next on: half of the time
// between two polls, and 20 minutes at most. Of a schedule with even gaps no poll is thus skipped, jitter included. A zero last is a poll
// that was never made.
func (s Schedule) Window(last, now time.Time) time.Duration {
	if last.IsZero() || last.After(now) {
		last = now
	}
	if gap := s.Gap(last); gap > 0 {
		return min(gap/2, maxWindow)
	}
	return maxWindow
}

// Gap is how much time lies between the two polls that follow a poll at last, jitter aside; 0 if there will not be two.
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

// jitter maps key evenly onto [0, the most that gap allows).
func jitter(gap time.Duration, key string) time.Duration {
	most := min(gap/jitterFraction, maxJitter)
	sum := sha256.Sum256([]byte(key))
	share, _ := bits.Mul64(binary.BigEndian.Uint64(sum[:8]), uint64(most))
	return time.Duration(share)
}
