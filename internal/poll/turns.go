package poll

import "time"

// turns is the calendar of planned polls: their number in each second, and its limit. The zero value is ready
// for use. The Log that owns it guards it.
type turns struct {
	planned map[int64]int // polls by second, as a Unix time
	shares  share         // of all catalogs
	latest  struct {      // the last second with a poll; it stays occupied
		second int64
		polls  int
	}
}

// share is a catalog's contribution to the limit of polls in a second, in billionths of a poll.
type share int64

const onePoll share = 1e9

// take plans a poll in a second between from and from plus window.
func (t *turns) take(from time.Time, window time.Duration) (time.Time, share) {
	if t.planned == nil {
		t.planned = map[int64]int{}
	}
	own := onePoll / share(max(window/time.Second, 1))
	t.shares += own
	limit := int((t.shares + onePoll - 1) / onePoll)
	turn, fewest := from, t.polls(from)
	for at := from; fewest >= limit && !at.After(from.Add(window)); at = at.Add(time.Second) {
		if polls := t.polls(at); polls < fewest {
			turn, fewest = at, polls
		}
	}
	t.planned[turn.Unix()]++
	return turn, own
}

// polls counts the polls planned for, or made in, the second of a time.
func (t *turns) polls(at time.Time) int {
	polls := t.planned[at.Unix()]
	if t.latest.second == at.Unix() {
		polls += t.latest.polls
	}
	return polls
}

// drop undoes take. A zero share means that no poll was planned.
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

// made counts a poll, planned or not.
func (t *turns) made(at time.Time) {
	switch second := at.Unix(); {
	case second > t.latest.second:
		t.latest.second, t.latest.polls = second, 1
	case second == t.latest.second:
		t.latest.polls++
	}
}
