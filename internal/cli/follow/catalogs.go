// Package follow reports changes of catalogs: of the objects in the API server and of the content that is served.
package follow

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/operator-catalogs/catalogd/internal/cli/kube"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
)

// retryAfter is the wait before the API server is asked again after a watch ended.
const retryAfter = time.Second

// ErrDone ends Run without an error when a callback returns it.
var ErrDone = errors.New("done")

// An API reads and watches catalogs.
type API interface {
	List(ctx context.Context, namespace string, into kube.List, opts metav1.ListOptions) error
	Watch(ctx context.Context, namespace string, list kube.List, opts metav1.ListOptions) (watch.Interface, error)
}

// Catalogs follows catalogs of the API server.
type Catalogs struct {
	API    API
	Kinds  []status.Kind      // nil: both, and only CatalogSources where ClusterCatalogs are unknown or forbidden
	List   metav1.ListOptions // which catalogs
	Each   func(watch.EventType, *status.Catalog) error
	Synced func() error // called after each list, if not nil

	mu    sync.Mutex             // held while a callback runs
	known map[id]*status.Catalog // as Each saw them last
}

// An id identifies a catalog.
type id struct {
	kind status.Kind
	name string
}

func idOf(c *status.Catalog) id { return id{c.Kind, c.Name} }

// Run calls Each for all catalogs and for every change, until a callback returns an error or ctx ends. A watch that ends is restarted, and
// missed changes are reported. An error of the first list is returned.
func (f *Catalogs) Run(ctx context.Context) (err error) {
	f.known = map[id]*status.Catalog{}
	listed := false
	err = wait.PollUntilContextCancel(ctx, retryAfter, true, func(ctx context.Context) (bool, error) {
		from, err := f.relist(ctx)
		if err == nil {
			listed = true
			err = f.watch(ctx, from)
		}
		if listed && isTemporary(err) {
			err = nil
		}
		return false, err
	})
	switch {
	case errors.Is(err, ErrDone):
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}

// isTemporary reports whether a later request may succeed: the watch expired or broke, or the server restarts.
func isTemporary(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		_, isCallback := errors.AsType[callbackError](err)
		return !isCallback
	}
	code := status.Status().Code
	return code >= 500 || code == 429 || apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// A callbackError was returned by a callback.
type callbackError struct{ error }

func (e callbackError) Unwrap() error { return e.error }

func callback(err error) error {
	if err != nil {
		err = callbackError{err}
	}
	return err
}

func (f *Catalogs) report(event watch.EventType, c *status.Catalog) error {
	if event == watch.Deleted {
		delete(f.known, idOf(c))
	} else {
		f.known[idOf(c)] = c
	}
	return callback(f.Each(event, c))
}

func (f *Catalogs) kinds() []status.Kind {
	if f.Kinds == nil {
		return status.Kinds
	}
	return f.Kinds
}

// lists reads the catalogs of all kinds, and the versions of the lists.
func (f *Catalogs) lists(ctx context.Context) (all []status.Catalog, versions map[status.Kind]string, err error) {
	versions = map[status.Kind]string{}
	for _, kind := range f.kinds() {
		list := kind.NewList()
		err := f.API.List(ctx, "", list, f.List)
		if err != nil && f.Kinds == nil && session.IsAbsent(kind, err) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		all, versions[kind] = append(all, status.Items(list)...), list.GetResourceVersion()
	}
	return all, versions, nil
}

func (f *Catalogs) relist(ctx context.Context) (versions map[status.Kind]string, err error) {
	all, versions, err := f.lists(ctx)
	if err != nil {
		return nil, err
	}
	deleted := maps.Clone(f.known)
	for i := range all {
		c := &all[i]
		was, event := f.known[idOf(c)], watch.Modified
		delete(deleted, idOf(c))
		switch {
		case was == nil:
			event = watch.Added
		case was.UID != c.UID:
			event, err = watch.Added, f.report(watch.Deleted, was)
		case was.ResourceVersion == c.ResourceVersion:
			continue
		}
		if err == nil {
			err = f.report(event, c)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, c := range deleted {
		if err := f.report(watch.Deleted, c); err != nil {
			return nil, err
		}
	}
	if f.Synced != nil {
		err = callback(f.Synced())
	}
	return versions, err
}

// errEnded ends the watches of all kinds when that of one ended, as the API server does after a while.
var errEnded = errors.New("the watch ended")

// watch follows the catalogs from the versions of lists on.
func (f *Catalogs) watch(ctx context.Context, from map[status.Kind]string) error {
	group, ctx := errgroup.WithContext(ctx)
	for kind, version := range from {
		group.Go(func() error { return cmp.Or(f.watchKind(ctx, kind, version), errEnded) })
	}
	if err := group.Wait(); !errors.Is(err, errEnded) {
		return err
	}
	return nil
}

func (f *Catalogs) watchKind(ctx context.Context, kind status.Kind, from string) error {
	opts := f.List
	opts.ResourceVersion = from
	events, err := f.API.Watch(ctx, "", kind.NewList(), opts)
	if err != nil {
		return err
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		if err := f.event(event); err != nil {
			return err
		}
	}
	return nil
}

func (f *Catalogs) event(event watch.Event) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch object := event.Object.(type) {
	case *metav1.Status:
		return apierrors.FromObject(object)
	case kube.Object:
		if !status.IsMirror(object) {
			return f.report(event.Type, status.Of(object))
		}
	}
	return nil
}

// One calls each for one catalog and for every change, with nil while it does not exist.
func One(ctx context.Context, s *session.Session, kind status.Kind, name string, each func(*status.Catalog) error) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	f := &Catalogs{
		API: api, Kinds: []status.Kind{kind}, List: metav1.ListOptions{FieldSelector: "metadata.name=" + name},
	}
	f.Each = func(event watch.EventType, c *status.Catalog) error {
		if event == watch.Deleted {
			return each(nil)
		}
		return each(c)
	}
	f.Synced = func() error {
		if len(f.known) == 0 {
			return each(nil)
		}
		return nil
	}
	return f.Run(ctx)
}
