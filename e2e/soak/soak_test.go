package soak

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"
)

const (
	soakCatalogs = 50
	soakVolume   = 160 << 20 // bytes: three times the size of the catalogs

	// Limits of the growth from start to end.
	mostMemory     = 48 << 20 // plus half of the start: the heap of a new process has not had its working size
	mostFiles      = 30       // kept connections and their goroutines
	mostGoroutines = 30
	mostDisk       = 8 << 20 // plus an eighth: contents differ, sizes do not, and one snapshot is in its grace period
)

// soaking is the state of TestSoak.
type soaking struct {
	*world
	volume *volume // nil without root
	full   atomic.Int64
	kills  atomic.Int64
}

// TestSoak replaces and reads catalogs while everything around catalogd, and catalogd itself, fails now and then.
// Readers never see wrong content. When the faults end, every catalog is what was published last, and nothing uses
// more than before.
func TestSoak(t *testing.T) {
	requireBinaries(t)
	s := &soaking{}
	v, err := newVolume(t, soakVolume)
	dataDir := t.TempDir()
	if err != nil {
		t.Logf("there are no faults of the volume in this run: %v", err)
	} else {
		s.volume, dataDir = v, v.data()
	}
	s.world = newWorld(t, dataDir, soakSizes())
	ctx := untilInterrupted(t)
	before, err := s.beginning(ctx, t)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("at the start: %s", before)
	if err := s.trouble(ctx, t); err != nil {
		t.Fatal(err)
	}
	t.Logf("after %s of trouble: %s; %s; registry: %s; API server: %s", *durationFlag, &s.tally, s, s.registry.faults, s.api.faults)
	if err := s.ending(ctx, t, before); err != nil {
		t.Fatal(err)
	}
}

// soakSizes range from 100 kB to 2 MB; most are small.
func soakSizes() []int {
	rng := random("sizes")
	var sizes []int
	for range soakCatalogs {
		u := rng.Float64()
		sizes = append(sizes, int(100e3*math.Pow(20, u*u)))
	}
	return sizes
}

// beginning creates the catalogs, works for a while without faults, and returns the usage of a process that starts
// then, which has all content but has had no time to leak.
func (s *soaking) beginning(ctx context.Context, t *testing.T) (usage, error) {
	if err := s.createAll(ctx, "3s"); err != nil {
		return usage{}, err
	}
	if err := s.startAndSettle(ctx, t); err != nil {
		return usage{}, err
	}
	disk, err := diskUsage(s.dataDir)
	if err != nil {
		return usage{}, err
	}
	c := newCrew(ctx)
	c.run(s.watch)
	c.read(s.world, 4)
	c.run(func(ctx context.Context) error { return s.replacing(ctx, 400*time.Millisecond) })
	pause(c.ctx, min(20*time.Second, *durationFlag/6))
	if err := errors.Join(c.stop(), s.stop()); err != nil {
		return usage{}, err
	}
	if err := s.startAndSettle(ctx, t); err != nil {
		return usage{}, err
	}
	before, err := s.usage()
	before.disk = disk // without snapshots in their grace period
	return before, err
}

// startAndSettle starts catalogd and waits until every catalog is what was published last.
func (s *soaking) startAndSettle(ctx context.Context, t *testing.T) error {
	if err := s.start(); err != nil {
		return err
	}
	c := newCrew(ctx)
	c.run(s.watch)
	c.run(func(ctx context.Context) error { return s.progress(ctx, t, s.String) })
	_, err := s.firstAnswers(c.ctx)
	if err == nil {
		err = s.settle(c.ctx)
	}
	return errors.Join(c.stop(), err)
}

// trouble injects faults and returns the first error.
func (s *soaking) trouble(ctx context.Context, t *testing.T) error {
	c := newCrew(ctx)
	c.read(s.world, 4)
	c.run(s.watch)
	c.run(func(ctx context.Context) error { return s.progress(ctx, t, s.String) })
	c.run(func(ctx context.Context) error { return s.replacing(ctx, 400*time.Millisecond) })
	c.run(s.troubleRegistry)
	c.run(s.troubleAPI)
	c.run(s.troubleVolume)
	c.run(s.killing)
	pause(c.ctx, *durationFlag)
	return c.stop()
}

// String returns the injected faults.
func (s *soaking) String() string {
	return fmt.Sprintf("%d faults of the registry, %d of the API server, %d kills, %d times full",
		s.registry.faults.total(), s.api.faults.total(), s.kills.Load(), s.full.Load())
}

func (s *soaking) troubleRegistry(ctx context.Context) error {
	rng := random("trouble of the registry")
	defer s.registry.faults.set(0)
	for pause(ctx, between(rng, 2*time.Second, 8*time.Second)) {
		s.registry.faults.set(10 + rng.IntN(50))
		pause(ctx, between(rng, 2*time.Second, 6*time.Second))
		s.registry.faults.set(0)
	}
	return nil
}

func (s *soaking) troubleAPI(ctx context.Context) error {
	rng := random("trouble of the API server")
	defer s.api.faults.set(0)
	defer s.api.down.Store(false)
	for pause(ctx, between(rng, 2*time.Second, 8*time.Second)) {
		switch rng.IntN(3) {
		case 0:
			s.api.faults.set(10 + rng.IntN(40))
			pause(ctx, between(rng, 2*time.Second, 6*time.Second))
			s.api.faults.set(0)
		case 1:
			s.api.faults.count("down")
			s.api.down.Store(true)
			s.api.cutWatches()
			pause(ctx, between(rng, time.Second, 5*time.Second))
			s.api.down.Store(false)
		default:
			for range 3 {
				s.api.cutWatches()
				pause(ctx, between(rng, 0, time.Second))
			}
		}
	}
	return nil
}

// troubleVolume fills and empties the volume.
func (s *soaking) troubleVolume(ctx context.Context) error {
	if s.volume == nil {
		return nil
	}
	rng := random("trouble of the volume")
	for pause(ctx, between(rng, 5*time.Second, 20*time.Second)) {
		s.full.Add(1)
		if err := s.volume.fill(); err != nil {
			return fmt.Errorf("the test itself: %w", err)
		}
		pause(ctx, between(rng, 2*time.Second, 6*time.Second))
		if err := s.volume.empty(); err != nil {
			return fmt.Errorf("the test itself: %w", err)
		}
	}
	return s.volume.empty()
}

// killing kills catalogd a few times in the first half, so that the last process runs long enough to show leaks.
func (s *soaking) killing(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, *durationFlag/2)
	defer cancel()
	rng := random("killing")
	for pause(ctx, between(rng, 5*time.Second, 25*time.Second)) {
		if err := s.kill(); err != nil {
			return err
		}
		s.kills.Add(1)
		if err := s.start(); err != nil {
			return err
		}
		if _, err := s.firstAnswers(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// ending waits until all catalogs are current, and compares the usage with that of the start.
func (s *soaking) ending(ctx context.Context, t *testing.T, before usage) error {
	c := newCrew(ctx)
	c.read(s.world, 4)
	c.run(s.watch)
	c.run(func(ctx context.Context) error { return s.progress(ctx, t, s.String) })
	err := s.settle(c.ctx)
	if err == nil && s.volume != nil {
		err = s.reclaim(c.ctx, s.volume)
	}
	if err := errors.Join(c.stop(), err); err != nil {
		return err
	}
	most := usage{
		memory: before.memory*3/2 + mostMemory, files: before.files + mostFiles, goroutines: before.goroutines + mostGoroutines,
		disk: before.disk*9/8 + mostDisk,
	}
	if s.volume == nil { // nothing made catalogd delete snapshots in their grace period, and each of them is an open file
		all, _ := s.ledger.bytes()
		_, versions := s.ledger.count()
		most.disk, most.files = all*2+mostDisk, most.files+2*versions
	}
	var after usage
	err = within(ctx, patience, func() (err error) {
		after, err = s.usage()
		if err == nil && (after.memory > most.memory ||
			after.files > most.files || after.goroutines > most.goroutines || after.disk > most.disk) {
			err = fmt.Errorf("it takes more than at the start: %s; want at most %s", after, most)
		}
		return err
	})
	t.Logf("at the start: %s", before)
	t.Logf("at the end:   %s", after)
	t.Logf("at most:      %s", most)
	return err
}
