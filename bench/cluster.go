package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/testing/controlplane"
	"github.com/operator-catalogs/catalogd/internal/testing/process"
)

const (
	namespace     = "catalogd-system"
	pollRequested = "catalogd.operatorframework.io/poll-requested"
	neverPoll     = 24 * time.Hour
)

// cluster is a control plane with typed access to catalogd's kinds.
type cluster struct {
	client.WithWatch
	*controlplane.Plane
}

// startCluster starts the control plane of KUBEBUILDER_ASSETS, with the data of etcd in dir.
func startCluster(dir string) (*cluster, error) {
	plane, err := controlplane.Start(".", func(p *controlplane.Plane) error {
		p.Env.ControlPlane.Etcd = &envtest.Etcd{DataDir: dir}
		return os.MkdirAll(dir, 0o700)
	})
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	err = v1beta1.AddToScheme(scheme)
	if err == nil {
		var admin client.WithWatch
		if admin, err = client.NewWithWatch(plane.Admin, client.Options{Scheme: scheme}); err == nil {
			return &cluster{admin, plane}, nil
		}
	}
	return nil, errors.Join(err, plane.Stop())
}

// create creates a CatalogSource.
func (c *cluster) create(ctx context.Context, name, image string, interval time.Duration) error {
	source := &v1beta1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Name: name}}
	source.Spec.Image = image
	source.Spec.PollingInterval = &metav1.Duration{Duration: interval}
	if err := c.Create(ctx, source); err != nil {
		return fmt.Errorf("creating CatalogSource %s: %w", name, err)
	}
	return nil
}

// poll requests a poll.
func (c *cluster) poll(ctx context.Context, name string) error {
	source := &v1beta1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Name: name}}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, pollRequested, time.Now().UnixNano())
	return c.Patch(ctx, source, client.RawPatch("application/merge-patch+json", []byte(patch)))
}

// waitFor waits until a condition of a CatalogSource is True.
func (c *cluster) waitFor(ctx context.Context, d *daemon, name, condition string) error {
	const patience = 20 * time.Minute
	var last string
	ctx, cancel := context.WithTimeoutCause(ctx, patience,
		fmt.Errorf("CatalogSource %s did not become %s within %s", name, condition, patience))
	defer cancel()
	err := process.Every(ctx, 50*time.Millisecond, func() (bool, error) {
		source := &v1beta1.CatalogSource{}
		if err := errors.Join(d.Ended(), c.Get(ctx, client.ObjectKey{Name: name}, source)); err != nil {
			return false, err
		}
		for _, have := range source.Status.Conditions {
			if have.Type == condition {
				last = have.Message
				return have.Status == metav1.ConditionTrue, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("%w; last message: %s", err, last)
	}
	return nil
}

// clear deletes every CatalogSource and OperatorPackage by force. No catalogd may be running.
func (c *cluster) clear(ctx context.Context) error {
	sources := &v1beta1.CatalogSourceList{}
	if err := c.List(ctx, sources); err != nil {
		return err
	}
	for i := range sources.Items {
		source := &sources.Items[i]
		err := client.IgnoreNotFound(c.Delete(ctx, source))
		if err == nil {
			err = client.IgnoreNotFound(
				c.Patch(ctx, source, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting CatalogSource %s: %w", source.Name, err)
		}
	}
	if err := c.DeleteAllOf(ctx, &v1beta1.OperatorPackage{}); err != nil {
		return fmt.Errorf("deleting the OperatorPackages: %w", err)
	}
	return nil
}
