package cli

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// schedule says in words when the catalog is polled.
func (d *description) schedule(ctx context.Context) string {
	text := scheduleOf(d.catalog)
	polls, _ := d.polls(ctx) // that catalogd cannot be asked is said with what else is asked of it
	polled := polls[d.catalog.Name]
	if !polled.LastPoll.IsZero() {
		text += "; last " + d.ago(polled.LastPoll)
	}
	if next := nextPoll(d.catalog, polled, d.now); strings.HasPrefix(next, "in ") || next == "now" {
		text += "; next " + next
	}
	return text
}

func scheduleOf(c *v1beta1.CatalogSource) string {
	switch {
	case c.Spec.Availability == v1beta1.AvailabilityUnavailable:
		return "not while it is not offered"
	case c.Spec.Suspend:
		return "not while it is suspended"
	case strings.Contains(imageOf(c), "@"):
		return "never, as the image is named by digest"
	case c.Spec.PollingInterval != nil:
		return "about every " + short(c.Spec.PollingInterval.Duration)
	case c.Spec.PollingSchedule != "":
		return inWords(c.Spec.PollingSchedule)
	}
	return "about every 15m, unless catalogd's --default-polling-interval says something else"
}

// short is a duration without the zeros at its end: 1h, not 1h0m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

var (
	daily   = regexp.MustCompile(`^(\d+) +(\d+) +\* +\* +(\*|\d)$`)
	minutes = regexp.MustCompile(`^\*/(\d+) +\* +\* +\* +\*$`)
	macros  = map[string]string{
		"@hourly": "every hour", "@daily": "every day at 00:00", "@midnight": "every day at 00:00", "@weekly": "every Sunday at 00:00",
		"@monthly": "on the first of each month at 00:00", "@yearly": "on the first of January at 00:00", "@annually": "on the first of January at 00:00",
	}
)

// inWords reads a schedule, as far as it is of a common form.
func inWords(schedule string) string {
	zone, rest := "UTC", schedule
	if after, ok := strings.CutPrefix(schedule, "CRON_TZ="); ok {
		zone, rest, _ = strings.Cut(after, " ")
	}
	rest = strings.TrimSpace(rest)
	words := macros[rest]
	if every, ok := strings.CutPrefix(rest, "@every "); ok {
		return "every " + every
	}
	if m := daily.FindStringSubmatch(rest); m != nil {
		minute, _ := strconv.Atoi(m[1])
		hour, _ := strconv.Atoi(m[2])
		day := "day"
		if m[3] != "*" {
			n, _ := strconv.Atoi(m[3])
			day = time.Weekday(n % 7).String()
		}
		words = fmt.Sprintf("every %s at %02d:%02d", day, hour, minute)
	} else if m := minutes.FindStringSubmatch(rest); m != nil {
		words = "every " + m[1] + " minutes of the hour"
	}
	if words == "" {
		words = fmt.Sprintf("at %q, as cron has it", rest)
	}
	return words + " (" + zone + ")"
}
