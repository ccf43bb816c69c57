// Package system starts what the tests of e2e act on: a control plane with catalogd's kinds and rights installed, and catalogd.
package system

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
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// What catalogd is called on the cluster, and how a poll is asked for.
const (
	Namespace      = "catalogd-system"
	ServiceAccount = "catalogd"
	APIGroup       = "catalogd.operatorframework.io"
	PollNow        = APIGroup + "/poll-requested" // an annotation
)

const checkGap = 50 * time.Millisecond // how often a state is looked at

// CatalogKind and PackageKind are the kinds of catalogd.
var (
	CatalogKind = schema.GroupVersionKind{Group: APIGroup, Version: "v1beta1", Kind: "CatalogSource"}
	PackageKind = schema.GroupVersionKind{Group: APIGroup, Version: "v1beta1", Kind: "OperatorPackage"}
)

// ControlPlane is an etcd and a kube-apiserver with catalogd's CRDs and RBAC installed. It has no controllers: nothing collects garbage
// or deletes dependents there but catalogd itself.
type ControlPlane struct {
	client.Client    // an administrator's
	Env              *envtest.Environment
	Kubeconfig       string // the administrator's
	DaemonKubeconfig string // kubeconfig of catalogd's service account: the rights that config/rbac gives, and no other
	dir              string
}

// StartControlPlane starts the binaries of KUBEBUILDER_ASSETS; root is that of the repository.
func StartControlPlane(root string) (*ControlPlane, error) {
	dir, err := os.MkdirTemp("", "catalogd-e2e-")
	if err != nil {
		return nil, err
	}
	p := &ControlPlane{Env: &envtest.Environment{}, dir: dir}
	server := p.Env.ControlPlane.GetAPIServer()
	server.CertDir = dir // not envtest's own, which would not outlive a restart
	// Clusters may have it, and it is what catalogsources/finalizers is for.
	server.Configure().Append("enable-admission-plugins", "OwnerReferencesPermissionEnforcement")
	if err := audit(server, dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	config, err := p.Env.Start()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the control plane: %w", err), os.RemoveAll(dir))
	}
	if err := p.prepare(config, root); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

func (p *ControlPlane) prepare(config *rest.Config, root string) (err error) {
	config.QPS = -1 // tests wait for catalogd, not for their own client
	if p.Client, err = client.New(config, client.Options{}); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	p.Kubeconfig, err = p.addUser(config, "admin", envtest.User{Name: "e2e", Groups: []string{"system:masters"}})
	if err != nil {
		return err
	}
	p.DaemonKubeconfig, err = p.addUser(config, "catalogd", envtest.User{
		Name:   "system:serviceaccount:" + Namespace + ":" + ServiceAccount,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + Namespace, "system:authenticated"},
	})
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"apply", "-k", filepath.Join(root, "config", "crd")},
		{"apply", "-k", filepath.Join(root, "config", "rbac")},
		{"wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"},
	} {
		if _, err := p.Kubectl(context.Background(), args...); err != nil {
			return err
		}
	}
	return nil
}

func (p *ControlPlane) addUser(config *rest.Config, file string, user envtest.User) (string, error) {
	u, err := p.Env.AddUser(user, config)
	if err != nil {
		return "", fmt.Errorf("adding user %s: %w", user.Name, err)
	}
	content, err := u.KubeConfig()
	if err != nil {
		return "", fmt.Errorf("making the kubeconfig of %s: %w", user.Name, err)
	}
	path := filepath.Join(p.dir, file+".kubeconfig")
	return path, os.WriteFile(path, content, 0o600)
}

// Stop ends it and removes its files.
func (p *ControlPlane) Stop() error {
	return errors.Join(p.Env.Stop(), os.RemoveAll(p.dir))
}

// Kubectl runs the kubectl of the control plane as an administrator and returns its standard output.
func (p *ControlPlane) Kubectl(ctx context.Context, args ...string) (string, error) {
	bin := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl")
	cmd := exec.CommandContext(ctx, bin, append([]string{"--kubeconfig", p.Kubeconfig}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %q: %w: %s%s", args, err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

// DeleteCatalogs deletes every CatalogSource. If catalogd does not do its part within the limit, that is an error, and no object of
// ours is left all the same.
func (p *ControlPlane) DeleteCatalogs(ctx context.Context, limit time.Duration) error {
	list := NewList(CatalogKind)
	if err := p.List(ctx, list); err != nil {
		return err
	}
	for i := range list.Items {
		if err := p.Delete(ctx, &list.Items[i]); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	var err error
	late := wait.PollUntilContextTimeout(ctx, checkGap, limit, true, func(context.Context) (bool, error) {
		err = p.List(ctx, list)
		return err == nil && len(list.Items) == 0, nil
	})
	if late == nil {
		return nil
	}
	err = errors.Join(err, fmt.Errorf("%d CatalogSources are still there %s after their deletion", len(list.Items), limit))
	for i := range list.Items {
		list.Items[i].SetFinalizers(nil)
		err = errors.Join(err, client.IgnoreNotFound(p.Update(ctx, &list.Items[i])))
	}
	return errors.Join(err, p.DeleteAllOf(ctx, NewObject(PackageKind, "")))
}

// NewObject is an object with a name and nothing else.
func NewObject(kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetName(name)
	return object
}

// NewList is a list of objects of a kind, to be read into.
func NewList(kind schema.GroupVersionKind) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return list
}
