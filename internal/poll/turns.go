package poll

import "time"

// turns is the calendar of planned polls: how many there are in each second, and how many there may be. The zero value is
// ready for use; the Log that owns it guards it.
type turns struct {
	planned map[int64]int // polls by second, as a Unix time
	shares  share         // of all catalogs
	latest  struct {      // the last second in which a poll was made; its turn is taken, though the poll is planned no more
		second int64
		polls  int
	}
}

// share is what a catalog adds to the polls that may be planned for one second, in billionths of a poll.
type share int64

const onePoll share = 1e9

// take plans a poll in a second from the time from on, window later at most.
func (t *turns) take(from time.Time, window time.Duration) (time.Time, share) {
	if t.planned == nil {
		t.planned = map[int64]int{}
	}
	own := onePoll / share(max(window/time.Second, 1))
	t.shares += own
	most := int((t.shares + onePoll - 1) / onePoll)
	turn, fewest := from, t.polls(from)
	for at := from; fewest >= most && !at.After(from.Add(window)); at = at.Add(time.Second) {
		if polls := t.polls(at); polls < fewest {
			turn, fewest = at, polls
		}
	}
	t.planned[turn.Unix()]++
	return turn, own
}

// polls counts those that are planned for the second of a time, or were made in it.
func (t *turns) polls(at time.Time) int {
	polls := t.planned[at.Unix()]
	if t.latest.second == at.Unix() {
		polls += t.latest.polls
	}
	return polls
}

// drop takes back what take planned; a zero share was never planned.
func (t *turns) drop(turn time.Time, own share) {
	if own == 0 {
		return
	}
	t.shares -= own
	if second := turn.Unix(); t.planned[second] > 1 {
		t.planned[second]--
	} else {
		delete(t.planned, second)
	}
}

// made notes a poll, whether or not it was planned.
func (t *turns) made(at time.Time) {
	switch second := at.Unix(); {
	case second > t.latest.second:
		t.latest.second, t.latest.polls = second, 1
	case second == t.latest.second:
		t.latest.polls++
	}
}
