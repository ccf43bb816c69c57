package cli

import (
	"context"
	"errors"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// again is how long to wait before the API server is asked again after a watch ended.
const again = time.Second

// errEnough ends a follower: what was waited for has come.
var errEnough = errors.New("enough")

// A follower is told of catalogs as they are at first and whenever they change.
type follower struct {
	client client.WithWatch
	list   metav1.ListOptions // which catalogs
	each   func(watch.EventType, *v1beta1.CatalogSource) error

	// synced, if not nil, is called whenever each has been told of all there are; every so often besides, unless that is 0.
	synced func() error
	every  time.Duration

	told map[string]*v1beta1.CatalogSource
}

// run follows until each or synced returns an error, or ctx ends. A watch that ends is begun anew, and what was missed meanwhile is told. That
// nothing can be listed at first is an error, lest somebody wait for a server that there is not.
func (f *follower) run(ctx context.Context) error {
	f.told = map[string]*v1beta1.CatalogSource{}
	for listed := false; ; {
		from, err := f.relist(ctx)
		if err == nil {
			listed = true
			err = f.watch(ctx, from)
		}
		switch {
		case errors.Is(err, errEnough):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && (!listed || !passes(err)):
			return err
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// passes tells whether the API server may do later what it did not do now: a watch that is too old or cut off, a server that restarts.
func passes(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		var told tellError
		return !errors.As(err, &told)
	}
	code := status.Status().Code
	return code >= 500 || code == 429 || apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// A tellError is what a follower's functions return.
type tellError struct{ error }

func (e tellError) Unwrap() error { return e.error }

func (f *follower) tell(event watch.EventType, c *v1beta1.CatalogSource) error {
	if event == watch.Deleted {
		delete(f.told, c.Name)
	} else {
		f.told[c.Name] = c
	}
	if err := f.each(event, c); err != nil {
		return tellError{err}
	}
	return nil
}

func (f *follower) relist(ctx context.Context) (string, error) {
	var all v1beta1.CatalogSourceList
	if err := f.client.List(ctx, &all, &client.ListOptions{Raw: f.list.DeepCopy()}); err != nil {
		return "", err
	}
	gone := maps.Clone(f.told)
	for i := range all.Items {
		c := &all.Items[i]
		was := f.told[c.Name]
		delete(gone, c.Name)
		if was != nil && was.UID != c.UID {
			if err := f.tell(watch.Deleted, was); err != nil {
				return "", err
			}
			was = nil
		}
		event := watch.Added
		switch {
		case was != nil && was.ResourceVersion == c.ResourceVersion:
			continue
		case was != nil:
			event = watch.Modified
		}
		if err := f.tell(event, c); err != nil {
			return "", err
		}
	}
	for _, c := range gone {
		if err := f.tell(watch.Deleted, c); err != nil {
			return "", err
		}
	}
	if f.synced != nil {
		if err := f.synced(); err != nil {
			return "", tellError{err}
		}
	}
	return all.ResourceVersion, nil
}

func (f *follower) watch(ctx context.Context, from string) error {
	opts := f.list.DeepCopy()
	opts.ResourceVersion = from
	events, err := f.client.Watch(ctx, &v1beta1.CatalogSourceList{}, &client.ListOptions{Raw: opts})
	if err != nil {
		return err
	}
	defer events.Stop()
	var tick <-chan time.Time
	if f.every > 0 {
		ticker := time.NewTicker(f.every)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case event, ok := <-events.ResultChan():
			if !ok { // it was cut off, as all are after a while
				return nil
			}
			if err := f.event(event); err != nil {
				return err
			}
		case <-tick:
			if err := f.synced(); err != nil {
				return tellError{err}
			}
		}
	}
}

func (f *follower) event(event watch.Event) error {
	switch object := event.Object.(type) {
	case *v1beta1.CatalogSource:
		return f.tell(event.Type, object)
	case *metav1.Status:
		return apierrors.FromObject(object)
	}
	return nil
}

// followOne calls each for one catalog; with nil where it does not exist, or not any more.
func (e *env) followOne(ctx context.Context, name string, each func(*v1beta1.CatalogSource) error) error {
	c, err := e.client()
	if err != nil {
		return err
	}
	f := &follower{client: c, list: metav1.ListOptions{FieldSelector: "metadata.name=" + name}}
	f.each = func(event watch.EventType, c *v1beta1.CatalogSource) error {
		if event == watch.Deleted {
			return each(nil)
		}
		return each(c)
	}
	f.synced = func() error {
		if f.told[name] == nil {
			return each(nil)
		}
		return nil
	}
	return f.run(ctx)
}
