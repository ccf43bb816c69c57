// Command run brings up everything that catalogd needs on this machine, and catalogd, and stays until it is told to stop.
// `make run` builds and starts it, in the root of the repository.
//
// All state lies in .run, which each start empties. etcd, kube-apiserver and catalogd are children of this process; the
// registry is a part of it. On Ctrl-C or SIGTERM they end in the reverse order of their start; a second signal ends
// everything at once, and so does the death of this process, however it dies (on Linux).
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

// cancelOnSignal ends the process on the second signal. Signals within a second of the first are the same one: a
// terminal, make and timeout(1) may each pass it on.
func cancelOnSignal(cancel context.CancelCauseFunc) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	<-signals
	first := time.Now()
	cancel(errInterrupted)
	for range signals {
		if time.Since(first) > time.Second {
			os.Exit(130) // as a shell says of a command ended by SIGINT
		}
	}
}

// run brings everything up, waits until ctx is done, and stops everything. It calls cancel when a child ends by itself.
// The error says why it stopped; it is errInterrupted if nothing failed.
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
		err = cause // what a step says of a canceled context, or of the process that just died, is a consequence
	}
	w.down(err)
	return err
}

// emptyDir removes what a former run left in dir and locks dir for this process, until it dies at the latest.
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
