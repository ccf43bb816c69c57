package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// moment is a time at which a process is killed: a delay after an event.
type moment struct {
	name  string
	after time.Duration                // at most
	event func(*world) <-chan struct{} // nil: the start
	file  string                       // the directory of the volume in which a file appears; "" if event is used
}

// moments are times at which a crash can do harm, from the first instruction to the last.
func moments() []*moment {
	logged := func(text string) func(*world) <-chan struct{} {
		return func(w *world) <-chan struct{} { return w.log.next(text) }
	}
	return []*moment{
		{name: "anywhere", after: 2 * time.Second},
		{name: "transfer", after: 30 * time.Millisecond, event: logged("msg=unpacking")},
		{name: "unpacking", after: 100 * time.Millisecond, file: "stage"},
		{name: "snapshot there", after: 2 * time.Millisecond, file: "snapshots"},
		{name: "pointer written", after: 2 * time.Millisecond, file: "catalogs"},
		{name: "unpacked", after: 100 * time.Millisecond, event: logged("msg=unpacked")},
	}
}

// kills starts a process, waits for a moment and kills it, again and again.
type kills struct {
	*world
	rng     *rand.Rand
	moments []*moment
	files   map[string]chan struct{} // by directory of the volume: a file appeared in it

	mu     sync.Mutex
	done   int
	hits   map[string]int  // by moment
	starts []time.Duration // until the first reply
}

// TestKills kills catalogd while catalogs are replaced and read. After each start it serves its former content
// before it reaches registry or API server, readers find no error, and in the end nothing is lost and nothing is
// left behind.
func TestKills(t *testing.T) {
	requireBinaries(t)
	w := newWorld(t, filepath.Join(t.TempDir(), "data"), []int{50e3, 100e3, 100e3, 200e3, 200e3, 400e3, 600e3, 1000e3})
	k := &kills{world: w, rng: random("kills"), moments: moments(), hits: map[string]int{}}
	if err := k.watchVolume(t); err != nil {
		t.Fatal(err)
	}
	ctx := untilInterrupted(t)
	if err := w.createAll(ctx, "1s"); err != nil {
		t.Fatal(err)
	}
	c := newCrew(ctx)
	c.read(w, 4)
	c.run(func(ctx context.Context) error { return w.replacing(ctx, 200*time.Millisecond) })
	c.run(func(ctx context.Context) error { return w.progress(ctx, t, k.String) })
	for k.done < *killsFlag && c.ctx.Err() == nil {
		if err := k.round(c.ctx); err != nil {
			c.fail(fmt.Errorf("kill %d: %w", k.done, err))
		}
	}
	if err := c.stop(); err != nil {
		t.Fatal(err)
	}
	t.Logf("killed: %s", k)
	for _, m := range k.moments {
		if k.hits[m.name] == 0 && *killsFlag >= 20*len(k.moments) {
			t.Errorf("no kill came at the moment %q: it does not come any more", m.name)
		}
	}
	k.finish(ctx, t)
}

// String returns the number of kills at each moment.
func (k *kills) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	text := fmt.Sprintf("%d kills", k.done)
	for _, m := range k.moments {
		text += fmt.Sprintf(", %s %d", m.name, k.hits[m.name])
	}
	if len(k.starts) > 0 {
		sorted := slices.Sorted(slices.Values(k.starts))
		text += fmt.Sprintf("; first answer after %s, at most %s", sorted[len(sorted)/2].Round(time.Millisecond),
			sorted[len(sorted)-1].Round(time.Millisecond))
	}
	return text
}

// round starts catalogd without registry and API server, checks its content, opens the gates, and kills it.
func (k *kills) round(ctx context.Context) error {
	m := k.moments[k.rng.IntN(len(k.moments))]
	delay := between(k.rng, 0, m.after)
	k.api.gate.close()
	k.registry.gate.close()
	if err := k.start(); err != nil {
		return err
	}
	killed := make(chan error, 1)
	if m.event == nil && m.file == "" {
		time.AfterFunc(delay, func() { killed <- k.kill() })
	}
	took, err := k.firstAnswers(ctx)
	if err != nil {
		return err
	}
	if !k.toldToEnd() {
		k.note(func() { k.starts = append(k.starts, took) })
	}
	met := k.next(m) // before the gates open, so that no event is missed
	k.api.gate.open()
	k.registry.gate.open()
	if met != nil {
		select {
		case <-met:
			k.note(func() { k.hits[m.name]++ })
			pause(ctx, delay)
		case <-time.After(10 * time.Second): // none of the catalogs was replaced
		case <-k.gone():
		case <-ctx.Done():
		}
		killed <- k.kill()
	} else {
		k.note(func() { k.hits[m.name]++ })
	}
	err = <-killed
	k.note(func() { k.done++ })
	if line := k.log.panicked(); line != "" {
		return errors.Join(err, fmt.Errorf("catalogd said %q", line))
	}
	return err
}

// note updates the figures of String.
func (k *kills) note(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

// next returns a channel that reports the next event of a moment, or nil for one that counts from the start.
func (k *kills) next(m *moment) <-chan struct{} {
	if m.event != nil {
		return m.event(k.world)
	}
	if m.file == "" {
		return nil
	}
	select {
	case <-k.files[m.file]: // an old event
	default:
	}
	return k.files[m.file]
}

// watchVolume makes the directories of the volume and reports each file that appears in them.
func (k *kills) watchVolume(t *testing.T) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	t.Cleanup(func() { _ = watcher.Close() })
	k.files = map[string]chan struct{}{}
	for _, m := range k.moments {
		if m.file == "" {
			continue
		}
		dir := filepath.Join(k.dataDir, m.file)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := watcher.Add(dir); err != nil {
			return err
		}
		k.files[m.file] = make(chan struct{}, 1)
	}
	go func() {
		for event := range watcher.Events {
			if event.Has(fsnotify.Create) { // including a rename into the directory
				select {
				case k.files[filepath.Base(filepath.Dir(event.Name))] <- struct{}{}:
				default:
				}
			}
		}
	}()
	return nil
}

// finish starts catalogd a last time, and checks the state after all kills.
func (k *kills) finish(ctx context.Context, t *testing.T) {
	if err := k.start(); err != nil {
		t.Fatal(err)
	}
	c := newCrew(ctx)
	c.run(k.watch)
	_, err := k.firstAnswers(c.ctx)
	c.read(k.world, 2)
	if err == nil {
		err = k.settle(c.ctx)
	}
	if err := errors.Join(c.stop(), err); err != nil {
		t.Fatal(err)
	}
	if err := k.shrinks(ctx, "stage", 0); err != nil {
		t.Error(err)
	}
	used, err := diskUsage(k.dataDir)
	if err != nil {
		t.Fatal(err)
	}
	all, last := k.ledger.bytes()
	t.Logf("on disk: %.1f MiB for %.1f MiB of content, %.1f MiB of it published last", mib(used), mib(all), mib(last))
	if most := all*3/2 + int64(len(k.starts))*(64<<10); used > most {
		t.Errorf("the data directory takes %.1f MiB, more than %.1f MiB: one and a half times all that was published", mib(used), mib(most))
	}
	if err := k.leaveNothing(ctx, t, used); err != nil {
		t.Fatal(err)
	}
}

// leaveNothing looks for content that nothing refers to. catalogd keeps such content for a grace period unless the
// volume is full, so the test moves it to a small volume, which needs root. Without CatalogSources, nothing may be
// left.
func (k *kills) leaveNothing(ctx context.Context, t *testing.T, used int64) error {
	most := k.done // each kill may leave a snapshot without pointer
	v, err := newVolume(t, used+used/4+32<<20)
	if err != nil {
		t.Logf("whether old content goes is not tried: %v", err)
	} else {
		most = 0
		if err := k.moveTo(v.data()); err != nil {
			return err
		}
		if _, err := k.firstAnswers(ctx); err != nil {
			return err
		}
		if err := k.reclaim(ctx, v); err != nil {
			return err
		}
	}
	if err := k.DeleteCatalogs(ctx, patience); err != nil {
		return err
	}
	for dir, most := range map[string]int{"catalogs": 0, "stage": 0, "snapshots": most} {
		if err := k.shrinks(ctx, dir, most); err != nil {
			return fmt.Errorf("without any CatalogSource: %w", err)
		}
	}
	return k.stop()
}

// moveTo stops catalogd and starts it with a copy of its data.
func (k *kills) moveTo(dir string) error {
	if err := k.stop(); err != nil {
		return err
	}
	if err := os.CopyFS(dir, os.DirFS(k.dataDir)); err != nil {
		return fmt.Errorf("copying the data directory: %w", err)
	}
	k.dataDir = dir
	k.args = append(k.args, "--data-dir", dir) // the last one wins
	return k.start()
}
