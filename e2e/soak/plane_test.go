package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const (
	namespace      = "catalogd-system"
	serviceAccount = "catalogd"
	apiGroup       = "catalogd.operatorframework.io"
	pollNow        = apiGroup + "/poll-requested"
)

var (
	catalogKind = schema.GroupVersionKind{Group: apiGroup, Version: "v1beta1", Kind: "CatalogSource"}
	packageKind = schema.GroupVersionKind{Group: apiGroup, Version: "v1beta1", Kind: "OperatorPackage"}
)

// controlPlane is an etcd and a kube-apiserver with catalogd's CRDs and RBAC installed. Its client is an administrator's, and reaches the
// API server without the faults that catalogd meets.
type controlPlane struct {
	client.Client
	env    *envtest.Environment
	dir    string
	daemon *rest.Config // of catalogd's service account: the rights that config/rbac gives, and no other
}

func startControlPlane() (*controlPlane, error) {
	dir, err := os.MkdirTemp("", "catalogd-soak-")
	if err != nil {
		return nil, err
	}
	p := &controlPlane{env: &envtest.Environment{}, dir: dir}
	config, err := p.env.Start()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the control plane: %w", err), os.RemoveAll(dir))
	}
	if err := p.prepare(config); err != nil {
		return nil, errors.Join(err, p.shutDown())
	}
	return p, nil
}

func (p *controlPlane) prepare(config *rest.Config) (err error) {
	config.QPS = -1
	if p.Client, err = client.New(config, client.Options{}); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	admin, err := p.env.AddUser(envtest.User{Name: "soak", Groups: []string{"system:masters"}}, config)
	if err != nil {
		return fmt.Errorf("adding an administrator: %w", err)
	}
	content, err := admin.KubeConfig()
	if err != nil {
		return fmt.Errorf("making the kubeconfig of an administrator: %w", err)
	}
	kubeconfig := filepath.Join(p.dir, "admin.kubeconfig")
	if err := os.WriteFile(kubeconfig, content, 0o600); err != nil {
		return err
	}
	account, err := p.env.AddUser(envtest.User{
		Name:   "system:serviceaccount:" + namespace + ":" + serviceAccount,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}, config)
	if err != nil {
		return fmt.Errorf("adding catalogd's account: %w", err)
	}
	p.daemon = account.Config()
	for _, args := range [][]string{
		{"apply", "-k", filepath.Join("..", "..", "config", "crd")},
		{"apply", "-k", filepath.Join("..", "..", "config", "rbac")},
		{"wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"},
	} {
		if err := kubectl(kubeconfig, args...); err != nil {
			return err
		}
	}
	return nil
}

func kubectl(kubeconfig string, args ...string) error {
	cmd := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), append([]string{"--kubeconfig", kubeconfig}, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kubectl %q: %w: %s", args, err, out.String())
	}
	return nil
}

func (p *controlPlane) shutDown() error {
	return errors.Join(p.env.Stop(), os.RemoveAll(p.dir))
}

// objects lists all of a kind, by name.
func (p *controlPlane) objects(ctx context.Context, kind schema.GroupVersionKind) (map[string]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := p.List(ctx, list); err != nil {
		return nil, err
	}
	found := make(map[string]unstructured.Unstructured, len(list.Items))
	for _, item := range list.Items {
		found[item.GetName()] = item
	}
	return found, nil
}

// createCatalog creates a CatalogSource.
func (p *controlPlane) createCatalog(ctx context.Context, name, image, interval string) error {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"image": image, "pollingInterval": interval}}}
	object.SetGroupVersionKind(catalogKind)
	object.SetName(name)
	return p.Create(ctx, object)
}

// requestPoll asks for a poll of a catalog now.
func (p *controlPlane) requestPoll(ctx context.Context, name, value string) error {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(catalogKind)
	object.SetName(name)
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, pollNow, value)
	return p.Patch(ctx, object, client.RawPatch("application/merge-patch+json", patch))
}

// removeCatalogs deletes every CatalogSource. If catalogd did not do its part within the limit, that is an error, and the finalizers are
// taken away.
func (p *controlPlane) removeCatalogs(ctx context.Context, limit time.Duration) error {
	all, err := p.objects(ctx, catalogKind)
	if err != nil {
		return err
	}
	for _, object := range all {
		if err := p.Delete(ctx, &object); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	err = within(ctx, limit, func() error {
		all, err = p.objects(ctx, catalogKind)
		if err != nil || len(all) == 0 {
			return err
		}
		return fmt.Errorf("%d CatalogSources are still there after their deletion", len(all))
	})
	if err == nil {
		return nil
	}
	for _, object := range all {
		object.SetFinalizers(nil)
		err = errors.Join(err, client.IgnoreNotFound(p.Update(ctx, &object)))
	}
	packages := &unstructured.Unstructured{}
	packages.SetGroupVersionKind(packageKind)
	return errors.Join(err, p.DeleteAllOf(ctx, packages))
}
