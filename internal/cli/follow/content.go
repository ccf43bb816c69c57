package follow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
)

// feedRetry is the wait before a feed that failed is opened again.
const feedRetry = 30 * time.Second

// A Handler reports changes. Only one of its functions prints at a time.
type Handler struct {
	// Event reads what an event needs and returns a function that prints it. After an error it is called again.
	Event func(context.Context, *content.Service, content.Event) (show func() error, err error)

	// Catalog, if not nil, prints changes of the object.
	Catalog func(watch.EventType, *status.Catalog) error
}

// Content calls a handler for the served versions of these catalogs, or of all, until ctx ends. That is not an error.
func Content(ctx context.Context, s *session.Session, names []string, h Handler) error {
	group, ctx := errgroup.WithContext(ctx)
	f := &feeds{session: s, handler: h, group: group, feeds: map[string]*feed{}}
	for _, arg := range names {
		_, name, err := s.KindsOf(arg)
		if err != nil {
			return err
		}
		f.names = append(f.names, name)
	}
	if s.IsDirect() {
		group.Go(func() error { return f.followServer(ctx) })
	} else {
		group.Go(func() error { return f.followCluster(ctx) })
	}
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// feeds follows the feeds of several catalogs.
type feeds struct {
	session *session.Session
	names   []string // empty: all
	handler Handler
	group   *errgroup.Group

	mu      sync.Mutex // held while something is printed
	feeds   map[string]*feed
	running int
	started bool // whether any feed had an event
}

// A feed is that of one catalog.
type feed struct {
	running bool
	removed bool   // whether the last event was the removal of the catalog
	last    string // ID of the last event
	failure string // the printed error
	tried   time.Time
}

func (f *feeds) includes(catalog string) bool {
	return len(f.names) == 0 || slices.Contains(f.names, catalog)
}

// start follows a catalog, unless its feed is running or failed recently. The caller holds mu.
func (f *feeds) start(ctx context.Context, catalog string, open func() (*content.Service, error)) {
	one := f.feeds[catalog]
	if one == nil {
		one = &feed{}
		f.feeds[catalog] = one
	}
	if one.running || time.Since(one.tried) < feedRetry {
		return
	}
	one.running = true
	f.running++
	since := one.last
	f.group.Go(func() error {
		service, err := open()
		if err == nil {
			err = service.Watch(ctx, catalog, since, func(event content.Event) error {
				return f.report(ctx, service, one, event)
			})
		}
		return f.ended(ctx, catalog, one, err)
	})
}

// ended records the end of a feed. The error is returned if no feed had an event and none is left.
func (f *feeds) ended(ctx context.Context, catalog string, one *feed, err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	one.running = false
	f.running--
	if err == nil { // removed; it may be served again at any time
		one.failure = ""
		return nil
	}
	one.tried = time.Now()
	_, isCallback := errors.AsType[callbackError](err)
	switch {
	case isCallback: // the output is closed
		return err
	case ctx.Err() != nil, !f.started && f.running == 0:
		return session.CatalogError(err, catalog)
	case one.removed && content.IsNotFound(err): // the removal is printed already; the status follows
		one.failure = ""
	case one.failure != err.Error():
		one.failure = err.Error()
		return f.printRetry(catalog, err)
	}
	return nil
}

func (f *feeds) printRetry(catalog string, err error) error {
	_, err = fmt.Fprintf(f.session.Stderr, "%s: %s; retrying\n", output.Line(catalog), output.Line(err.Error()))
	return err
}

func (f *feeds) report(ctx context.Context, service *content.Service, one *feed, event content.Event) error {
	show := func() error { return f.printRetry(event.Catalog, event.Err) }
	if event.Type != content.Lost {
		var err error
		if show, err = f.handler.Event(ctx, service, event); err != nil {
			return err // the feed restarts before this event
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started = true
	if err := callback(show()); err != nil {
		return err
	}
	if event.Type != content.Lost {
		one.last, one.failure, one.removed = event.ID, "", event.Type == content.Removed
	}
	return nil
}

// followServer follows the catalogs of --server-url. The API server may be out of reach.
func (f *feeds) followServer(ctx context.Context) error {
	service, err := f.session.Direct()
	if err != nil {
		return err
	}
	first := true
	return wait.PollUntilContextCancel(ctx, feedRetry/3, true, func(ctx context.Context) (bool, error) {
		var served struct{ Catalogs []content.Named }
		if err := service.JSON(ctx, "/catalogs", nil, &served); err != nil && first {
			return false, err
		}
		for _, name := range f.names {
			if first && !slices.Contains(served.Catalogs, content.Named{Name: name}) {
				return false, exit.NotFoundf("catalog %q not found; kubectl catalog get --raw /catalogs lists the catalogs of %s",
					name, service)
			}
		}
		first = false
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, c := range served.Catalogs {
			if f.includes(c.Name) {
				f.start(ctx, c.Name, func() (*content.Service, error) { return service, nil })
			}
		}
		return false, nil
	})
}

// catalogs returns the followed catalogs that exist. If only the content matters, a name that two catalogs share is not ambiguous.
func (f *feeds) catalogs(ctx context.Context) ([]status.Catalog, error) {
	switch {
	case len(f.names) == 0:
		return f.session.Catalogs(ctx)
	case f.handler.Catalog != nil:
		return lookup.Catalogs(ctx, f.session, f.names)
	}
	var all []status.Catalog
	for _, name := range f.names {
		c, err := lookup.Named(ctx, f.session, name)
		if err != nil {
			return nil, err
		}
		all = append(all, *c)
	}
	return all, nil
}

// followCluster follows the catalogs of the cluster as they become served.
func (f *feeds) followCluster(ctx context.Context) error {
	api, err := f.session.Client()
	if err != nil {
		return err
	}
	catalogs, err := f.catalogs(ctx)
	if err != nil {
		return err
	}
	f.printUnserved(catalogs)
	known, listed := map[id]*status.Catalog{}, false
	start := func() error { // the caller holds mu, so a feed cannot end before all have started
		for _, c := range known {
			if listed && c.Status.URLs != nil && (c.IsOurs() || len(f.names) > 0) {
				f.start(ctx, c.Name, func() (*content.Service, error) { return f.session.ServiceOf(c) })
			}
		}
		return nil
	}
	f.group.Go(func() error { // starts the feeds that failed
		return wait.PollUntilContextCancel(ctx, feedRetry/3, false, func(context.Context) (bool, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			return false, start()
		})
	})
	objects := &Catalogs{API: api}
	objects.Each = func(event watch.EventType, c *status.Catalog) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if kinds, _, _ := f.session.KindsOf(c.Name); !f.includes(c.Name) || !slices.Contains(kinds, c.Kind) {
			return nil
		}
		if known[idOf(c)] = c; event == watch.Deleted {
			delete(known, idOf(c))
		}
		if f.handler.Catalog != nil {
			if err := f.handler.Catalog(event, c); err != nil {
				return err
			}
		}
		return start()
	}
	objects.Synced = func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		listed = true
		return start()
	}
	return objects.Run(ctx)
}

// printUnserved lists the catalogs that have no content yet, except those that the handler reports as failing.
func (f *feeds) printUnserved(catalogs []status.Catalog) {
	for i := range catalogs {
		if c := &catalogs[i]; c.Status.URLs == nil && (f.handler.Catalog == nil || !status.IsFailing(c)) {
			fmt.Fprintf(f.session.Stderr, "%s: not served yet: %s\n", c.Name, output.Line(status.Ready(c).Message))
		}
	}
	if len(catalogs) == 0 {
		fmt.Fprintln(f.session.Stderr, "No catalogs found yet.")
	}
}
