// Package follow reports changes of catalogs: of the objects in the API server and of the content that is served.
package follow

import (
	"context"
	"errors"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

// retryAfter is the wait before the API server is asked again after a watch ended.
const retryAfter = time.Second

// ErrDone ends Run without an error when a callback returns it.
var ErrDone = errors.New("done")

// Catalogs follows CatalogSources of the API server.
type Catalogs struct {
	Client func() (client.WithWatch, error)
	List   metav1.ListOptions // which catalogs
	Each   func(watch.EventType, *v1beta1.CatalogSource) error
	Synced func() error // called after each list, if not nil

	api   client.WithWatch
	known map[string]*v1beta1.CatalogSource // as Each saw them last
}

// Run calls Each for all catalogs and for every change, until a callback returns an error or ctx ends. A watch that ends is restarted, and
// missed changes are reported. An error of the first list is returned.
func (f *Catalogs) Run(ctx context.Context) (err error) {
	if f.api, err = f.Client(); err != nil {
		return err
	}
	f.known = map[string]*v1beta1.CatalogSource{}
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

func (f *Catalogs) report(event watch.EventType, c *v1beta1.CatalogSource) error {
	if event == watch.Deleted {
		delete(f.known, c.Name)
	} else {
		f.known[c.Name] = c
	}
	return callback(f.Each(event, c))
}

func (f *Catalogs) relist(ctx context.Context) (resourceVersion string, err error) {
	var all v1beta1.CatalogSourceList
	if err := f.api.List(ctx, &all, &client.ListOptions{Raw: f.List.DeepCopy()}); err != nil {
		return "", err
	}
	deleted := maps.Clone(f.known)
	for i := range all.Items {
		c := &all.Items[i]
		was, event := f.known[c.Name], watch.Modified
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
	events, err := f.api.Watch(ctx, &v1beta1.CatalogSourceList{}, &client.ListOptions{Raw: opts})
	if err != nil {
		return err
	}
	defer events.Stop()
	for event := range events.ResultChan() { // the API server ends every watch after a while
		switch object := event.Object.(type) {
		case *v1beta1.CatalogSource:
			err = f.report(event.Type, object)
		case *metav1.Status:
			err = apierrors.FromObject(object)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// One calls each for one catalog and for every change, with nil while it does not exist.
func One(ctx context.Context, s *session.Session, name string, each func(*v1beta1.CatalogSource) error) error {
	f := &Catalogs{Client: s.Client, List: metav1.ListOptions{FieldSelector: "metadata.name=" + name}}
	f.Each = func(event watch.EventType, c *v1beta1.CatalogSource) error {
		if event == watch.Deleted {
			return each(nil)
		}
		return each(c)
	}
	f.Synced = func() error {
		if f.known[name] == nil {
			return each(nil)
		}
		return nil
	}
	return f.Run(ctx)
}
