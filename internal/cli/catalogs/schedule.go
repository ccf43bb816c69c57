package catalogs

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
)

// scheduleText returns in words when a catalog is polled.
func scheduleText(c *v1beta1.CatalogSource) string {
	switch {
	case c.Spec.Availability == v1beta1.AvailabilityUnavailable:
		return "never while unavailable"
	case c.Spec.Suspend:
		return "never while suspended"
	case strings.Contains(status.Image(c), "@"):
		return "never: the image has a digest"
	case c.Spec.PollingInterval != nil:
		return "about every " + trailingZeros.Replace(c.Spec.PollingInterval.Duration.String())
	case c.Spec.PollingSchedule != "":
		return cronText(c.Spec.PollingSchedule)
	}
	return "about every 15m, or as set by catalogd's --default-polling-interval"
}

// trailingZeros shortens a duration: 1h, not 1h0m0s.
var trailingZeros = strings.NewReplacer("h0m0s", "h", "m0s", "m")

var (
	daily   = regexp.MustCompile(`^(\d+) +(\d+) +\* +\* +(\*|\d)$`)
	minutes = regexp.MustCompile(`^\*/(\d+) +\* +\* +\* +\*$`)
	macros  = map[string]string{
		"@hourly": "every hour", "@daily": "every day at 00:00", "@midnight": "every day at 00:00",
		"@weekly": "every Sunday at 00:00", "@monthly": "on the first of each month at 00:00",
		"@yearly": "on the first of January at 00:00", "@annually": "on the first of January at 00:00",
	}
)

// cronText returns a cron expression in words if it has a common form.
func cronText(schedule string) string {
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
		words = fmt.Sprintf("cron expression %q", rest)
	}
	return words + " (" + zone + ")"
}
