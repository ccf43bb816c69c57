// Package follow reports changes of catalogs: of the objects in the API server and of the content that is served.
package follow

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

// retryAfter is the wait before the API server is asked again after a watch ended.
const retryAfter = time.Second

// ErrDone ends Run without an error when a callback returns it.
var ErrDone = errors.New("done")

// Catalogs follows CatalogSources of the API server.
type Catalogs struct {
	Client client.WithWatch
	List   metav1.ListOptions // which catalogs
	Each   func(watch.EventType, *v1beta1.CatalogSource) error

	// Synced, if not nil, is called after each list, and also every Interval unless that is 0.
	Synced   func() error
	Interval time.Duration

	Known map[string]*v1beta1.CatalogSource // as Each saw them last
}

// Run calls Each for all catalogs and for every change, until a callback returns an error or ctx ends. A watch that ends is restarted, and
// missed changes are reported. An error of the first list is returned.
func (f *Catalogs) Run(ctx context.Context) error {
	f.Known = map[string]*v1beta1.CatalogSource{}
	for listed := false; ; {
		from, err := f.relist(ctx)
		if err == nil {
			listed = true
			err = f.watch(ctx, from)
		}
		switch {
		case errors.Is(err, ErrDone):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && (!listed || !isTemporary(err)):
			return err
		}
		if sleep(ctx, retryAfter) != nil {
			return context.Cause(ctx)
		}
	}
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
	if err == nil {
		return nil
	}
	return callbackError{err}
}

func (f *Catalogs) report(event watch.EventType, c *v1beta1.CatalogSource) error {
	if event == watch.Deleted {
		delete(f.Known, c.Name)
	} else {
		f.Known[c.Name] = c
	}
	return callback(f.Each(event, c))
}

func (f *Catalogs) relist(ctx context.Context) (resourceVersion string, err error) {
	var all v1beta1.CatalogSourceList
	if err := f.Client.List(ctx, &all, &client.ListOptions{Raw: f.List.DeepCopy()}); err != nil {
		return "", err
	}
	deleted := maps.Clone(f.Known)
	for i := range all.Items {
		c := &all.Items[i]
		was, event := f.Known[c.Name], watch.Modified
		delete(deleted, c.Name)
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
			return "", err
		}
	}
	for _, c := range deleted {
		if err := f.report(watch.Deleted, c); err != nil {
			return "", err
		}
	}
	if f.Synced != nil {
		err = callback(f.Synced())
	}
	return all.ResourceVersion, err
}

func (f *Catalogs) watch(ctx context.Context, from string) error {
	opts := f.List.DeepCopy()
	opts.ResourceVersion = from
	events, err := f.Client.Watch(ctx, &v1beta1.CatalogSourceList{}, &client.ListOptions{Raw: opts})
	if err != nil {
		return err
	}
	defer events.Stop()
	var tick <-chan time.Time
	if f.Interval > 0 {
		ticker := time.NewTicker(f.Interval)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case event, ok := <-events.ResultChan():
			if !ok { // the API server ends every watch after a while
				return nil
			}
			if err := f.event(event); err != nil {
				return err
			}
		case <-tick:
			if err := callback(f.Synced()); err != nil {
				return err
			}
		}
	}
}

func (f *Catalogs) event(event watch.Event) error {
	switch object := event.Object.(type) {
	case *v1beta1.CatalogSource:
		return f.report(event.Type, object)
	case *metav1.Status:
		return apierrors.FromObject(object)
	}
	return nil
}

// One calls each for one catalog and for every change, with nil while it does not exist.
func One(ctx context.Context, c client.WithWatch, name string, each func(*v1beta1.CatalogSource) error) error {
	f := &Catalogs{Client: c, List: metav1.ListOptions{FieldSelector: "metadata.name=" + name}}
	f.Each = func(event watch.EventType, c *v1beta1.CatalogSource) error {
		if event == watch.Deleted {
			return each(nil)
		}
		return each(c)
	}
	f.Synced = func() error {
		if f.Known[name] == nil {
			return each(nil)
		}
		return nil
	}
	return f.Run(ctx)
}

// sleep waits, or returns an error if ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
