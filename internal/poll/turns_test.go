package poll

import (
	"container/heap"
	"fmt"
	"math"
	"testing"
	"time"
)

// simulation polls catalogs as the controller does, by a clock of its own, and counts.
type simulation struct {
	log       Log
	schedules map[string]Schedule
	queue     queue
	polls     map[int64]int // by second
	late      time.Duration // the most that a poll was later than its schedule said, jitter included
	early     time.Duration // the most that one was sooner
}

type planned struct {
	at      time.Time
	catalog string
}

type queue []planned

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(planned)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// add adds n catalogs that were never polled.
func (s *simulation) add(at time.Time, n int, schedule Schedule) {
	if s.polls == nil {
		s.schedules, s.polls = map[string]Schedule{}, map[int64]int{}
	}
	for range n {
		catalog := fmt.Sprint("catalog-", len(s.schedules))
		s.schedules[catalog] = schedule
		s.plan(catalog, at)
	}
}

// plan plans the next poll as sync's planNext, or the first one as postpone.
func (s *simulation) plan(catalog string, now time.Time) {
	schedule, last := s.schedules[catalog], s.log.Get(catalog).Last
	turn := s.log.Plan(catalog, schedule.Next(last, now, catalog), schedule.Window(last, now))
	heap.Push(&s.queue, planned{turn, catalog})
}

// run makes all polls until a time.
func (s *simulation) run(until time.Time) {
	for len(s.queue) > 0 && s.queue[0].at.Before(until) {
		next := heap.Pop(&s.queue).(planned)
		entry, schedule := s.log.Get(next.catalog), s.schedules[next.catalog]
		if entry.Next != next.at {
			continue // forgotten
		}
		due := entry.From
		if !entry.Last.IsZero() {
			due = schedule.after(entry.Last)
		}
		s.late, s.early = max(s.late, next.at.Sub(due)), max(s.early, due.Sub(next.at))
		s.polls[next.at.Unix()]++
		s.log.Record(next.catalog, "", next.at, nil)
		s.plan(next.catalog, next.at)
	}
}

// count returns the number of polls in an interval, and their maximum in one second.
func (s *simulation) count(from, until time.Time) (polls, most int) {
	for second := from.Unix(); second < until.Unix(); second++ {
		polls += s.polls[second]
		most = max(most, s.polls[second])
	}
	return polls, most
}

func TestTurnsSpreadPolls(t *testing.T) {
	begin := at(t, "2026-05-01T10:02:50.3Z") // of a process that has all catalogs due at once
	cron := mustCron(t, "*/5 * * * *")
	for name, test := range map[string]struct {
		catalogs int
		schedule Schedule
		length   time.Duration
		most     int // polls in a second
		least    int // polls in all
		late     time.Duration
	}{
		"1,000, cron":         {1000, cron, time.Hour, 8, 11500, 3 * time.Minute},
		"1,000, interval":     {1000, Every(5 * time.Minute), time.Hour, 8, 10000, 3 * time.Minute},
		"10,000, cron":        {10000, cron, 15 * time.Minute, 70, 29000, 3 * time.Minute},
		"3, cron":             {3, cron, time.Hour, 1, 33, 32 * time.Second},
		"150, cron":           {150, cron, time.Hour, 1, 1725, 3 * time.Minute},
		"1,000, each quarter": {1000, Every(15 * time.Minute), time.Hour, 3, 3000, 9 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			var s simulation
			s.add(begin, test.catalogs, test.schedule)
			s.run(begin.Add(test.length))
			polls, most := s.count(begin, begin.Add(test.length))
			mean := float64(polls) / test.length.Seconds()
			t.Logf("%d polls, %d at most in a second, which is %.1f times the mean, %v late at most", polls, most, float64(most)/mean, s.late)
			if polls < test.least || most > test.most || s.late > test.late || s.early > 0 {
				t.Errorf("%d polls, %d at most in a second, %v late, %v early; want %d or more, %d, %v and 0", polls, most, s.late, s.early,
					test.least, test.most, test.late)
			}
			if limit := math.Max(3*mean, 1); float64(most) > limit {
				t.Errorf("a second has %d polls, which is more than %.1f", most, limit)
			}
		})
	}
}

// Mixed schedules keep their windows.
func TestTurnsMixedSchedules(t *testing.T) {
	var s simulation
	begin := at(t, "2026-05-01T05:50:00Z")
	s.add(begin, 1000, mustCron(t, "0 6 * * *"))
	s.add(begin, 500, mustCron(t, "*/5 * * * *"))
	s.add(begin, 500, Every(time.Minute))
	s.add(begin, 20, mustCron(t, "0 * * * *"))
	s.run(begin.Add(2 * time.Hour))
	polls, most := s.count(begin, begin.Add(2*time.Hour))
	t.Logf("%d polls, %d at most in a second, %v late at most", polls, most, s.late)
	if s.early > 0 || s.late > 30*time.Minute || most > 3*polls/7200 {
		t.Errorf("%d polls, %d at most in a second, %v late, %v early", polls, most, s.late, s.early)
	}
}

// Forgotten catalogs leave no state.
func TestTurnsForget(t *testing.T) {
	var s simulation
	begin := at(t, "2026-05-01T10:00:00Z")
	s.add(begin, 1000, mustCron(t, "*/5 * * * *"))
	s.run(begin.Add(20 * time.Minute))
	for i := range 900 {
		s.log.Forget(fmt.Sprint("catalog-", i))
	}
	s.run(begin.Add(40 * time.Minute))
	if _, most := s.count(begin.Add(20*time.Minute), begin.Add(40*time.Minute)); most > 7 {
		t.Errorf("%d polls in a second", most)
	}
	if _, most := s.count(begin.Add(30*time.Minute), begin.Add(40*time.Minute)); most != 1 {
		t.Errorf("of 100 catalogs, %d are polled in a second", most)
	}
	if n := len(s.log.turns.planned); n > 100 {
		t.Errorf("%d seconds have polls of 100 catalogs", n)
	}
	for catalog := range s.schedules {
		s.log.Forget(catalog)
	}
	s.log.Forget("nobody")
	if turns := s.log.turns; len(turns.planned) > 0 || turns.shares != 0 {
		t.Errorf("without catalogs there are %+v", turns)
	}
}

// A planned turn is kept when others are planned; it moves only with its start time.
func TestPlanIsSteady(t *testing.T) {
	var l Log
	from := time.Unix(1000, 0)
	turns := map[time.Time]bool{}
	for i := range 10 {
		turns[l.Plan(fmt.Sprint(i), from, time.Minute)] = true
	}
	if len(turns) != 10 || !turns[from] || !turns[from.Add(9*time.Second)] {
		t.Errorf("10 catalogs have their turns at %v", turns)
	}
	turn := l.Get("5").Next
	l.Forget("0")
	if again := l.Plan("5", from, time.Minute); again != turn {
		t.Errorf("the turn moved from %v to %v", turn, again)
	}
	if moved := l.Plan("5", from.Add(time.Hour), time.Minute); moved != from.Add(time.Hour) {
		t.Errorf("an hour later the turn is at %v", moved)
	}
	if turn := l.Plan("5", from, 0); turn != from {
		t.Errorf("without a window the turn is at %v", turn)
	}
}

// Polls made in a second count for it, planned or not.
func TestTurnsCountMadePolls(t *testing.T) {
	var l Log
	now := time.Unix(1000, 0)
	for _, at := range []time.Time{now.Add(-time.Hour), now, now.Add(-time.Second)} {
		l.Record("foo", "", at, nil)
	}
	if turn := l.Plan("bar", now, time.Minute); turn != now.Add(time.Second) {
		t.Errorf("the turn is at %v, in the second of another", turn)
	}
}

// BenchmarkPlan finds a turn at the end of a full window.
func BenchmarkPlan(b *testing.B) {
	var l Log
	now := time.Unix(1000, 0)
	for i := range 10000 {
		l.Plan(fmt.Sprint(i), now, maxWindow)
	}
	for b.Loop() {
		l.Plan("another", now, maxWindow)
		l.Forget("another")
	}
}
