package store

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// crash stops the work before operation k and every later one, and checks all states that the volume may be in. It
// reports whether operation k was reached.
func (m *matrix) crash(k int) (stopped bool) {
	m.points++
	point := "all is done"
	d, s, c := m.begin(func(i int, op operation) error {
		if i < k {
			return nil
		}
		if i == k {
			if k >= len(m.order) || op != m.order[k] { // else some operation would never be the one that is stopped before
				m.Errorf("operation %d is %v, and was another in the work that was not disturbed: the order of operations depends on chance", k, op)
			}
			point = fmt.Sprintf("stopped before operation %d of %d, %s %s %s", k, m.count, op.kind, op.name, op.to)
		}
		return errStopped
	})
	acked := 0
	if s != nil {
		acked = m.proceed(s, c, 0)
		m.report(point, "the process that is stopped", m.checkServed(s, m.during(acked), union(m.states[acked], m.next(acked))))
		must.Succeed(m.T, s.Close())
	}
	point += fmt.Sprintf(", after %d calls", acked)
	m.report(point, "", d.settle())
	for _, w := range d.worlds() {
		if m.isNew(w, acked) {
			m.report(point, w.name, m.check(w, acked))
			m.crashAgain(point, w, acked)
		}
	}
	stopped = d.count > k
	m.killAndCrash(point, d, acked)
	must.Succeed(m.T, os.RemoveAll(d.dir))
	return stopped
}

// crashAgain stops the process after a crash before each operation of Open. Stored catalogs are served anyway, as from
// a read-only volume.
func (m *matrix) crashAgain(point string, w world, acked int) {
	pointers, _ := pointersOf(w.tree) // an error is one of check
	for k, done := 0, m.large; !done; k++ {
		m.points++
		d := newLossyDisk(m.T, m.place(w.tree))
		d.stop = func(i int, _ operation) error {
			if i < k {
				return nil
			}
			return errStopped
		}
		at := fmt.Sprintf("%s; %s; stopped before operation %d of Open", point, w.name, k)
		if s, _, err := m.tryOpen(d.dir, acked, d.step); err == nil {
			m.report(at, "the process that is stopped", m.checkServed(s, m.exactly(pointers, acked), union(pointers)))
			must.Succeed(m.T, s.Close())
		} else if len(pointers) > 0 {
			m.report(at, "the process that is stopped", err)
		}
		done = d.count <= k
		m.report(at, "", d.settle())
		for _, w := range d.worlds() {
			if m.isNew(w, acked) {
				m.report(at, w.name, m.check(w, acked))
			}
		}
		must.Succeed(m.T, os.RemoveAll(d.dir))
	}
}

// killAndCrash continues in a new process where the last one was stopped, as after a kill, which loses nothing. When
// its calls have returned, the machine crashes.
func (m *matrix) killAndCrash(point string, d *lossyDisk, acked int) {
	point += "; killed, started again, all is done"
	d.stop = func(int, operation) error { return nil }
	s, c := m.open(d.dir, acked, d.step)
	if n := m.proceed(s, c, acked); n < len(m.work) {
		m.report(point, "", fmt.Errorf("call %d fails", n))
	}
	must.Succeed(m.T, s.Close())
	m.report(point, "", d.settle())
	for _, w := range d.worlds() {
		if m.isNew(w, len(m.work)) {
			m.report(point, w.name, m.check(w, len(m.work)))
		}
	}
}

// proceed makes the calls from number n on until one fails, and returns how many succeeded.
func (m *matrix) proceed(s *Store, c *clock, n int) int {
	for n < len(m.work) && m.work[n](s, c) == nil {
		n++
	}
	return n
}

// isNew reports whether a world is new for a process that made this many calls.
func (m *matrix) isNew(w world, acked int) bool {
	m.worlds++
	key := fmt.Sprint(w.tree.sum(m.seed), acked)
	if m.seen[key] {
		return false
	}
	m.seen[key] = true
	return true
}

// check starts a process in a world after this many calls, and checks what it serves, and that the interrupted call
// can be made again with the same result.
func (m *matrix) check(w world, acked int) (err error) {
	m.checked++
	pointers, err := pointersOf(w.tree)
	if err != nil {
		return err
	}
	may := m.during(acked)
	names := union(pointers, m.states[acked], m.next(acked))
	for _, name := range names {
		if !may(name, pointers[name]) {
			return fmt.Errorf("%s points to %q", name, pointers[name])
		}
	}
	dir := m.place(w.tree)
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, c, err := m.tryOpen(dir, acked, nil)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // it is closed already, but for errors
	if err := errors.Join(m.checkServed(s, m.exactly(pointers, acked), names), checkCache(s, true)); err != nil {
		return err
	}
	if err := m.checkTidy(dir); err != nil {
		return err
	}
	for n := acked; n < len(m.work); n++ {
		if err := m.work[n](s, c); err != nil {
			return fmt.Errorf("call %d cannot be made again: %w", n, err)
		}
		if err := m.checkServed(s, m.exactly(m.next(n), n+1), union(pointers, m.next(n))); err != nil {
			return fmt.Errorf("after call %d was made again: %w", n, err)
		}
	}
	if err := m.finish(s, c); err != nil {
		return fmt.Errorf("finishing: %w", err)
	}
	return m.checkEnd(dir)
}

// checkEnd checks that a process that finished its work leaves the same volume as an undisturbed one.
func (m *matrix) checkEnd(dir string) error {
	s, _, err := m.tryOpen(dir, len(m.work), nil)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // nothing is written any more
	last := m.states[len(m.states)-1]
	return errors.Join(m.checkServed(s, m.exactly(last, len(m.work)), union(last)), m.left(dir).compare(m.final))
}

// next returns what catalogs point to after call n, from 0.
func (m *matrix) next(n int) map[string]string { return m.states[min(n+1, len(m.work))] }

// during returns what may be served during call n: the old or the new.
func (m *matrix) during(n int) func(name, key string) bool {
	before, after := m.exactly(m.states[n], n), m.exactly(m.next(n), n)
	return func(name, key string) bool { return before(name, key) || after(name, key) }
}

// exactly returns what may be served for these pointers.
func (m *matrix) exactly(pointers map[string]string, acked int) func(name, key string) bool {
	return func(name, key string) bool {
		return key == pointers[name] || key == "" && m.dark[pointers[name]] && acked < len(m.work)
	}
}

// checkServed checks what a store serves; the key "" stands for nothing.
func (m *matrix) checkServed(s *Store, may func(name, key string) bool, names []string) error {
	errs := []error{checkCache(s, false)}
	for _, c := range s.Catalogs() {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		c, ok := s.Catalog(name)
		key := ""
		if ok {
			key = c.Snapshot.Key()
			errs = append(errs, m.checkContent(c))
		}
		if !may(name, key) {
			errs = append(errs, fmt.Errorf("%s serves %q", name, key))
		}
	}
	return errors.Join(errs...)
}

func (m *matrix) checkContent(c Catalog) error {
	snap := c.Snapshot
	for _, content := range m.readAll(snap) {
		if !slices.Contains(m.contents[snap.Key()], content) {
			return fmt.Errorf("%s is not whole: it has %s, want one of %q", c.Name, content, m.contents[snap.Key()])
		}
	}
	if !snap.Validated() {
		if len(snap.Packages()) > 0 {
			return fmt.Errorf("%s has packages, and is not validated", c.Name)
		}
	} else if packages := readPackages(snap); !slices.Contains(m.validated[snap.Key()], packages) {
		return fmt.Errorf("%s has other packages: %s, want one of %q", c.Name, packages, m.validated[snap.Key()])
	}
	for _, base := range []string{catalogFile + ".zst", catalogFile + ".gz", OLMv0File} {
		name := snap.dir + "/" + base
		form, err := snap.volume.ReadFile(name)
		if err == nil && !slices.Contains(m.formFiles[name], string(form)) {
			return fmt.Errorf("%s has a wrong %s of %d bytes", c.Name, base, len(form))
		}
	}
	return nil
}

// checkTidy checks that no unfinished files are left, except for these names.
func (m *matrix) checkTidy(dir string, but ...string) error {
	var errs []error
	for name := range m.left(dir) {
		if slices.ContainsFunc(but, func(part string) bool { return strings.Contains(name, part) }) {
			continue
		}
		if strings.HasPrefix(name, stageDir+"/") || strings.Contains(name, tempPrefix) {
			errs = append(errs, fmt.Errorf("%s is left", name))
		}
	}
	return errors.Join(errs...)
}

// compare lists the differences from another tree.
func (tr diskTree) compare(want diskTree) error {
	var errs []error
	for name := range want {
		if _, ok := tr[name]; !ok {
			errs = append(errs, fmt.Errorf("%s is missing in the end", name))
		}
	}
	for name, content := range tr {
		if other, ok := want[name]; !ok {
			errs = append(errs, fmt.Errorf("%s is left in the end", name))
		} else if string(other) != string(content) {
			at := 0
			for at < min(len(content), len(other)) && content[at] == other[at] {
				at++
			}
			errs = append(errs, fmt.Errorf("%s differs in the end at %d: %.100q, want %.100q", name, at, content[at:], other[at:]))
		}
	}
	return errors.Join(errs...)
}

// union returns the names that any of them has.
func union(states ...map[string]string) []string {
	all := map[string]string{}
	for _, state := range states {
		maps.Copy(all, state)
	}
	return slices.Sorted(maps.Keys(all))
}

// report reports an error, a few times at most.
func (m *matrix) report(point, world string, err error) {
	m.Helper()
	if err == nil {
		return
	}
	m.Errorf("%s: %s:\n%v", point, world, err)
	if m.failures++; m.failures == 5 {
		m.Fatal("and so on")
	}
}
