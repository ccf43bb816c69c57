package poll

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	if text == "" {
		return time.Time{}
	}
	when, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

func mustCron(t *testing.T, spec string) Schedule {
	t.Helper()
	schedule, err := Cron(spec)
	if err != nil {
		t.Fatal(err)
	}
	return schedule
}

func TestAfter(t *testing.T) {
	const berlin = "CRON_TZ=Europe/Berlin "
	for name, test := range map[string]struct{ spec, last, want string }{
		"hourly":                       {"0 * * * *", "2026-05-01T10:00:00Z", "2026-05-01T11:00:00Z"},
		"weekdays, on a Friday":        {"30 6 * * 1-5", "2026-05-01T06:30:00Z", "2026-05-04T06:30:00Z"},
		"word":                         {"@daily", "2026-05-01T06:30:00Z", "2026-05-02T00:00:00Z"},
		"every":                        {"@every 45m", "2026-05-01T06:30:00Z", "2026-05-01T07:15:00Z"},
		"UTC though last is elsewhere": {"0 6 * * *", "2026-05-01T09:00:00+02:00", "2026-05-02T06:00:00Z"},
		"winter time":                  {berlin + "0 6 * * *", "2026-01-10T12:00:00Z", "2026-01-11T05:00:00Z"},
		"summer time":                  {berlin + "0 6 * * *", "2026-07-10T12:00:00Z", "2026-07-11T04:00:00Z"},
		"the night clocks go forward":  {berlin + "0 6 * * *", "2026-03-28T05:00:00Z", "2026-03-29T04:00:00Z"},
		"the hour that night skips":    {berlin + "30 2 * * *", "2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z"},
		"the night clocks go back":     {berlin + "0 6 * * *", "2026-10-24T04:00:00Z", "2026-10-25T05:00:00Z"},
		"leap day":                     {"0 0 29 2 *", "2026-05-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		"a day that never comes":       {"0 0 30 2 *", "2026-05-01T00:00:00Z", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := mustCron(t, test.spec).after(at(t, test.last))
			if want := at(t, test.want); !got.Equal(want) {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestNext(t *testing.T) {
	hourly, never := mustCron(t, "0 * * * *"), mustCron(t, "0 0 30 2 *")
	const now = "2026-05-01T10:00:00Z"
	for name, test := range map[string]struct {
		schedule         Schedule
		last             string
		earliest, latest string // latest: excluded, unless it is earliest; "" for both: never
	}{
		"never polled":              {Every(time.Hour), "", now, now},
		"never polled, cron":        {hourly, "", now, now},
		"never polled, no date":     {never, "", now, now},
		"polled now":                {Every(time.Hour), now, "2026-05-01T11:00:00Z", "2026-05-01T11:06:00Z"},
		"polled earlier":            {Every(time.Hour), "2026-05-01T09:30:00Z", "2026-05-01T10:30:00Z", "2026-05-01T10:36:00Z"},
		"jitter has a bound":        {Every(240 * time.Hour), now, "2026-05-11T10:00:00Z", "2026-05-11T10:10:00Z"},
		"overdue":                   {Every(time.Hour), "2026-05-01T07:00:00Z", now, now},
		"clock was set back":        {Every(time.Hour), "2027-01-01T00:00:00Z", now, now},
		"cron":                      {hourly, now, "2026-05-01T11:00:00Z", "2026-05-01T11:06:00Z"},
		"cron, a poll in between":   {hourly, "2026-05-01T09:50:00Z", now, "2026-05-01T10:01:00Z"},
		"cron, overdue":             {hourly, "2026-05-01T04:00:00Z", now, now},
		"cron, clock was set back":  {hourly, "2027-01-01T00:00:00Z", now, now},
		"cron, no date":             {never, now, "", ""},
		"zero schedule":             {Schedule{}, now, "", ""},
		"interval of zero":          {Every(0), now, "", ""},
		"tiny interval":             {Every(3), now, "2026-05-01T10:00:00.000000003Z", "2026-05-01T10:00:00.000000003Z"},
		"cron of another time zone": {mustCron(t, "CRON_TZ=Asia/Tokyo 0 20 * * *"), now, "2026-05-01T11:00:00Z", "2026-05-01T11:06:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			earliest, latest := at(t, test.earliest), at(t, test.latest)
			for i := range 100 {
				got := test.schedule.Next(at(t, test.last), at(t, now), fmt.Sprint("catalog-", i))
				if got.Before(earliest) || got.After(latest) || got.Equal(latest) && !latest.Equal(earliest) {
					t.Fatalf("got %s, want a time in [%s, %s)", got, earliest, latest)
				}
			}
		})
	}
}

func TestWindow(t *testing.T) {
	const now = "2026-05-01T10:02:50Z"
	for name, test := range map[string]struct {
		schedule Schedule
		last     string
		want     time.Duration
	}{
		"interval":                       {Every(5 * time.Minute), "2026-05-01T10:00:00Z", 150 * time.Second},
		"cron":                           {mustCron(t, "*/5 * * * *"), "2026-05-01T10:02:00Z", 150 * time.Second},
		"cron, never polled":             {mustCron(t, "*/5 * * * *"), "", 150 * time.Second},
		"cron, clock was set back":       {mustCron(t, "*/5 * * * *"), "2027-01-01T00:00:00Z", 150 * time.Second},
		"cron, a minute before the next": {mustCron(t, "0,1 6 * * *"), "2026-05-01T06:01:00Z", 30 * time.Second},
		"cron, long before the next":     {mustCron(t, "0,1 6 * * *"), "2026-05-01T06:00:00Z", 20 * time.Minute},
		"daily":                          {mustCron(t, "@daily"), "", 20 * time.Minute},
		"cron, no date":                  {mustCron(t, "0 0 30 2 *"), "", 20 * time.Minute},
		"zero schedule":                  {Schedule{}, "", 20 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.schedule.Window(at(t, test.last), at(t, now)); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestGap(t *testing.T) {
	const last = "2026-05-01T10:02:50Z"
	for name, test := range map[string]struct {
		schedule Schedule
		want     time.Duration
	}{
		"interval":              {Every(5 * time.Minute), 5 * time.Minute},
		"cron":                  {mustCron(t, "*/5 * * * *"), 5 * time.Minute},
		"cron, uneven, shorter": {mustCron(t, "0,1 6 * * *"), time.Minute},
		"daily":                 {mustCron(t, "@daily"), 24 * time.Hour},
		"cron, no date":         {mustCron(t, "0 0 30 2 *"), 0},
		"zero schedule":         {Schedule{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.schedule.Gap(at(t, last)); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestNextIsSteadyAndSpread(t *testing.T) {
	last := at(t, "2026-05-01T10:00:00Z")
	quarters := map[int]int{}
	for i := range 400 {
		key := fmt.Sprint("catalog-", i)
		due := Every(time.Hour).Next(last, last, key)
		if later := Every(time.Hour).Next(last, last.Add(59*time.Minute), key); !later.Equal(due) {
			t.Fatalf("%s: asked later, the poll moved from %s to %s", key, due, later)
		}
		quarters[int(due.Sub(last.Add(time.Hour))/(90*time.Second))]++
	}
	for quarter := range 4 {
		if n := quarters[quarter]; n < 70 || n > 130 {
			t.Errorf("%d of 400 catalogs are in quarter %d of the jitter, want about 100: %v", n, quarter, quarters)
		}
	}
}

func TestCronErrors(t *testing.T) {
	for name, test := range map[string]struct{ spec, want string }{
		"empty":           {"", "empty spec string"},
		"four fields":     {"* * * *", "expected exactly 5 fields, found 4"},
		"seconds":         {"0 0 * * * *", "expected exactly 5 fields, found 6"},
		"out of range":    {"61 * * * *", "end of range (61) above maximum (59)"},
		"unknown word":    {"@sometimes", "unrecognized descriptor"},
		"unknown zone":    {"CRON_TZ=Mars/Base 0 0 * * *", "bad location Mars/Base"},
		"nothing but":     {"CRON_TZ=Europe/Berlin", "must be followed by a space and five fields"},
		"zone and tab":    {"TZ=Europe/Berlin\t0 0 * * *", "unknown time zone"},
		"leaves the tree": {"TZ=../../etc/passwd 0 0 * * *", "bad location"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Cron(test.spec)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), fmt.Sprintf("%q", test.spec)) {
				t.Errorf("got error %v, want one that names %q and says %q", err, test.spec, test.want)
			}
		})
	}
}

func FuzzCron(f *testing.F) {
	for _, seed := range []string{
		"0 6 * * 1-5", "@daily", "@every 1h", "CRON_TZ=Asia/Tokyo 0 0 1,15 * */2", "TZ=UTC", "*/0 * * * *", "0-59/7 * ? * ?",
	} {
		f.Add(seed, int64(1777629600))
	}
	f.Fuzz(func(t *testing.T, spec string, unix int64) {
		schedule, err := Cron(spec)
		if err != nil {
			return
		}
		last := time.Unix(unix%(1<<34), 0)
		if next := schedule.Next(last, last, "key"); !next.IsZero() && next.Before(last) {
			t.Errorf("%q: next poll after %s is %s", spec, last, next)
		}
	})
}
