// Command run runs catalogd, with everything it needs, on this machine until it is stopped. `make run` builds and
// starts it in the root of the repository.
// All state is in .run, which each start empties. etcd, kube-apiserver and catalogd are children of this process;
// the registry is a part of it. On Ctrl-C or SIGTERM they stop in reverse order of their start. A second signal
// kills everything immediately, as does the death of this process (on Linux).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

var errInterrupted = errors.New("interrupted")

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	go cancelOnSignal(cancel)
	err := run(ctx, cancel, os.Getenv, os.Stdout)
	if err != nil && !errors.Is(err, errInterrupted) {
		fmt.Fprintf(os.Stderr, "\nmake run: %v\n", err)
		os.Exit(1)
	}
}

// cancelOnSignal exits on the second signal. Signals within a second of the first count as the same, as a terminal,
// make and timeout(1) may each forward it.
func cancelOnSignal(cancel context.CancelCauseFunc) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	<-signals
	first := time.Now()
	cancel(errInterrupted)
	for range signals {
		if time.Since(first) > time.Second {
			os.Exit(130) // the status of a shell command ended by SIGINT
		}
	}
}

// run starts everything, waits until ctx is done, and stops everything. It calls cancel when a child exits by
// itself. The error is the reason, or errInterrupted if nothing failed.
func run(ctx context.Context, cancel context.CancelCauseFunc, getenv func(string) string, out io.Writer) error {
	cfg, err := configure(getenv)
	if err != nil {
		return err
	}
	if err := cfg.ports.free(); err != nil {
		return err
	}
	unlock, err := emptyDir(cfg.dir)
	if err != nil {
		return err
	}
	defer unlock()

	w := &world{config: cfg, out: out, childDied: cancel}
	err = w.up(ctx)
	if err == nil {
		<-ctx.Done()
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause // errors of a canceled context or of the dead process are consequences
	}
	w.down(err)
	return err
}

// emptyDir removes the files of a former run from dir and locks dir for the lifetime of this process.
func emptyDir(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	lock, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another `make run` uses %s: stop it first, or run in another clone", dir), lock.Close())
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	defer root.Close()
	names, err := lock.Readdirnames(-1)
	for _, name := range names {
		err = errors.Join(err, root.RemoveAll(name))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("emptying %s: %w", dir, err), lock.Close())
	}
	return func() { _ = lock.Close() }, nil
}
