package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

const (
	namespace     = "catalogd-system"
	pollRequested = "catalogd.operatorframework.io/poll-requested"
	neverPoll     = 24 * time.Hour
)

// cluster is an etcd and a kube-apiserver with catalogd's CRDs and RBAC, and no controllers.
type cluster struct {
	client.WithWatch
	env               *envtest.Environment
	config            *rest.Config
	kubectl           string
	admin, kubeconfig string // files; the second has the rights that config/rbac gives to catalogd
}

// startCluster starts the control plane of KUBEBUILDER_ASSETS, with its files in dir.
func startCluster(ctx context.Context, assets, dir string) (*cluster, error) {
	c := &cluster{kubectl: filepath.Join(assets, "kubectl"), env: &envtest.Environment{BinaryAssetsDirectory: assets}}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	c.env.ControlPlane.GetAPIServer().CertDir = dir
	etcd := filepath.Join(dir, "etcd")
	c.env.ControlPlane.Etcd = &envtest.Etcd{DataDir: etcd}
	err := os.MkdirAll(etcd, 0o700)
	if err != nil {
		return nil, err
	}
	if c.config, err = c.env.Start(); err != nil {
		return nil, fmt.Errorf("starting etcd and kube-apiserver of %s: %w", assets, errors.Join(err, c.env.Stop()))
	}
	c.config.QPS = -1 // no limit of our own
	if err := c.prepare(ctx, dir); err != nil {
		return nil, errors.Join(err, c.env.Stop())
	}
	return c, nil
}

func (c *cluster) prepare(ctx context.Context, dir string) (err error) {
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		return err
	}
	if c.WithWatch, err = client.NewWithWatch(c.config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	account := "system:serviceaccounts:" + namespace
	for file, user := range map[*string]envtest.User{
		&c.admin: {Name: "admin", Groups: []string{"system:masters"}},
		&c.kubeconfig: {Name: "system:serviceaccount:" + namespace + ":catalogd",
			Groups: []string{"system:serviceaccounts", account, "system:authenticated"}},
	} {
		authenticated, err := c.env.AddUser(user, c.config)
		if err != nil {
			return fmt.Errorf("adding the user %s: %w", user.Name, err)
		}
		text, err := authenticated.KubeConfig()
		if err != nil {
			return err
		}
		*file = filepath.Join(dir, fmt.Sprintf("%d.kubeconfig", len(user.Groups)))
		if err := os.WriteFile(*file, text, 0o600); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"apply", "-k", "config/crd"}, {"apply", "-k", "config/rbac"}, {"wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"},
	} {
		if _, err := c.asAdmin(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// asAdmin runs kubectl.
func (c *cluster) asAdmin(ctx context.Context, args ...string) (string, error) {
	return command(ctx, c.kubectl, append([]string{"--kubeconfig", c.admin}, args...)...)
}

// create makes a CatalogSource.
func (c *cluster) create(ctx context.Context, name, image string, interval time.Duration) error {
	source := &v1beta1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Name: name}}
	source.Spec.Image = image
	source.Spec.PollingInterval = &metav1.Duration{Duration: interval}
	if err := c.Create(ctx, source); err != nil {
		return fmt.Errorf("creating CatalogSource %s: %w", name, err)
	}
	return nil
}

// poll asks for a poll now.
func (c *cluster) poll(ctx context.Context, name string) error {
	source := &v1beta1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Name: name}}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, pollRequested, time.Now().UnixNano())
	return c.Patch(ctx, source, client.RawPatch("application/merge-patch+json", []byte(patch)))
}

// waitFor waits until a condition of a CatalogSource is True.
func (c *cluster) waitFor(ctx context.Context, d *daemon, name, condition string) error {
	const patience = 20 * time.Minute
	var last string
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("CatalogSource %s has not become %s for %s", name, condition, patience))
	defer cancel()
	err := every(ctx, 50*time.Millisecond, func() (bool, error) {
		source := &v1beta1.CatalogSource{}
		if err := errors.Join(d.ended(), c.Get(ctx, client.ObjectKey{Name: name}, source)); err != nil {
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
		return fmt.Errorf("%w; it says: %s", err, last)
	}
	return nil
}

// clear deletes every CatalogSource and OperatorPackage, by force: no catalogd is to run.
func (c *cluster) clear(ctx context.Context) error {
	sources := &v1beta1.CatalogSourceList{}
	if err := c.List(ctx, sources); err != nil {
		return err
	}
	for i := range sources.Items {
		source := &sources.Items[i]
		err := client.IgnoreNotFound(c.Delete(ctx, source))
		if err == nil {
			err = client.IgnoreNotFound(c.Patch(ctx, source, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
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
