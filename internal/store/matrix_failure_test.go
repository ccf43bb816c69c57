package store

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"syscall"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// fail fails operation k once, and lets the process continue.
func (m *matrix) fail(k int, errno syscall.Errno) {
	m.points++
	point, failed := "", ""
	d, s, c := m.begin(func(i int, op operation) error {
		if i != k {
			return nil
		}
		failed = fmt.Sprintf("%s %s %s", op.kind, op.name, op.to)
		point = fmt.Sprintf("%v for operation %d of %d, %s", errno, k, m.count, failed)
		return errno
	})
	if s == nil { // it was Open, of a volume without a store
		s, c = m.open(d.dir, 0, d.step)
	}
	for n, call := range m.work {
		err := call(s, c)
		if err == nil {
			m.report(point, "after the call", m.checkServed(s, m.exactly(m.next(n), n+1), union(m.next(n))))
			continue
		}
		m.report(point, "after the call that failed", m.checkServed(s, m.during(n), union(m.states[n], m.next(n))))
		if !strings.HasPrefix(failed, opRemove) {
			m.report(point, "after the call that failed", m.checkTidy(d.dir, "deleted-")) // what is deleted goes with the next sweep
		}
		if err := call(s, c); err != nil {
			m.report(point, "the same call again", err)
			return
		}
		m.report(point, "after the same call again", m.checkServed(s, m.exactly(m.next(n), n+1), union(m.next(n))))
	}
	m.report(point, "", d.settle())
	for _, w := range d.worlds() {
		if m.isNew(w, len(m.work)) {
			m.report(point, w.name, m.check(w, len(m.work)))
		}
	}
	m.report(point, "finishing", m.finish(s, c))
	if !strings.HasPrefix(failed, opRemove) || strings.Contains(failed, "deleted-") { // else it was Discard that could not do it
		m.report(point, "before the next start", m.checkTidy(d.dir))
	}
	m.report(point, "in the end", m.checkEnd(d.dir))
	must.Succeed(m.T, os.RemoveAll(d.dir))
}

// abandon fails operation k once, and lets the process continue with the next call, without a retry.
func (m *matrix) abandon(k int) {
	m.points++
	d, s, c := m.begin(func(i int, _ operation) error {
		if i != k {
			return nil
		}
		return syscall.EIO
	})
	var err error
	for _, call := range m.work {
		err = call(s, c)
	}
	if err != nil { // it was the last that failed
		err = m.work[len(m.work)-1](s, c)
	}
	point, last := fmt.Sprintf("operation %d of %d fails", k, m.count), m.states[len(m.work)]
	m.report(point, "the last call", errors.Join(err, m.checkServed(s, m.exactly(last, len(m.work)), union(last)), s.Close(), d.settle()))
	for _, w := range d.worlds() {
		m.worlds++
		if pointers, err := pointersOf(w.tree); err != nil || !maps.Equal(pointers, last) {
			m.report(point, w.name, errors.Join(err, fmt.Errorf("got the pointers %v, want %v", pointers, last)))
		}
	}
	must.Succeed(m.T, os.RemoveAll(d.dir))
}
