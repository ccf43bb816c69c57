// Package system starts the system under test of the e2e tests: a control plane with catalogd's kinds and RBAC
// installed, and catalogd.
package system

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/operator-catalogs/catalogd/internal/testing/controlplane"
)

// Names of catalogd on the cluster, and the annotation that requests a poll.
const (
	Namespace      = "catalogd-system"
	ServiceAccount = "catalogd"
	APIGroup       = "catalogd.operatorframework.io"
	PollNow        = APIGroup + "/poll-requested" // an annotation
)

const checkGap = 50 * time.Millisecond // between two checks of a state

// CatalogKind and PackageKind are the kinds of catalogd, ClusterCatalogKind that of OLM v1.
var (
	CatalogKind        = schema.GroupVersionKind{Group: APIGroup, Version: "v1beta1", Kind: "CatalogSource"}
	PackageKind        = schema.GroupVersionKind{Group: APIGroup, Version: "v1beta1", Kind: "OperatorPackage"}
	ClusterCatalogKind = schema.GroupVersionKind{Group: "olm.operatorframework.io", Version: "v1", Kind: "ClusterCatalog"}
)

// ControlPlane is an etcd and a kube-apiserver with catalogd's CRDs and RBAC installed.
type ControlPlane struct {
	client.Client // an administrator's
	controlplane.Plane
}

// StartControlPlane starts a control plane that logs the requests of catalogd; root is the root of the repository.
func StartControlPlane(root string) (*ControlPlane, error) {
	plane, err := controlplane.Start(root, func(p *controlplane.Plane) error {
		server := p.Env.ControlPlane.GetAPIServer()
		// The right to catalogsources/finalizers exists for clusters that enable this plugin.
		server.Configure().Append("enable-admission-plugins", "OwnerReferencesPermissionEnforcement")
		return audit(server, p.Dir)
	})
	if err != nil {
		return nil, err
	}
	admin, err := client.New(plane.Admin, client.Options{})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a client: %w", err), plane.Stop())
	}
	return &ControlPlane{admin, *plane}, nil
}

// PermitOLMv0 creates namespace olm, and installs the permissions of the component olm-v0.
func (p *ControlPlane) PermitOLMv0(ctx context.Context, root string) error {
	return p.kubectl(ctx, []string{"create", "namespace", "olm"},
		[]string{"apply", "-k", filepath.Join(root, "config", "components", "olm-v0", "rbac")})
}

// kubectl runs commands one after the other.
func (p *ControlPlane) kubectl(ctx context.Context, commands ...[]string) error {
	for _, args := range commands {
		if _, err := p.Kubectl(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// InstallOLMv1 installs the CRD of ClusterCatalogs and the permissions of the component cluster-catalogs.
func (p *ControlPlane) InstallOLMv1(ctx context.Context, root string) error {
	err := p.kubectl(ctx, []string{"create", "-k", filepath.Join(root, "config", "crd", "olmv1")},
		[]string{"apply", "-k", filepath.Join(root, "config", "components", "cluster-catalogs", "rbac")})
	if err != nil {
		return err
	}
	return p.EstablishCRDs(ctx)
}

// EstablishCRDs waits until all CRDs are established. kubectl wait fails for a CRD that has no conditions yet.
func (p *ControlPlane) EstablishCRDs(ctx context.Context) (err error) {
	late := wait.PollUntilContextTimeout(ctx, checkGap, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		err = p.kubectl(ctx, []string{"wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"})
		return err == nil, nil
	})
	if late == nil {
		return nil
	}
	return errors.Join(late, err)
}

// DeleteCatalogs deletes every CatalogSource and ClusterCatalog. It returns an error if catalogd does not remove its
// finalizers within the limit, but even then leaves no object of catalogd behind.
func (p *ControlPlane) DeleteCatalogs(ctx context.Context, limit time.Duration) error {
	catalogs, err := p.catalogs(ctx)
	if err != nil {
		return err
	}
	for i := range catalogs {
		if err := p.Delete(ctx, &catalogs[i]); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	late := wait.PollUntilContextTimeout(ctx, checkGap, limit, true, func(context.Context) (bool, error) {
		catalogs, err = p.catalogs(ctx)
		return err == nil && len(catalogs) == 0, nil
	})
	if late == nil {
		return nil
	}
	err = errors.Join(err, fmt.Errorf("%d catalogs are still there %s after their deletion", len(catalogs), limit))
	for i := range catalogs {
		catalogs[i].SetFinalizers(nil)
		err = errors.Join(err, client.IgnoreNotFound(p.Update(ctx, &catalogs[i])))
	}
	return errors.Join(err, p.DeleteAllOf(ctx, NewObject(PackageKind, "")))
}

// catalogs returns the objects of both kinds.
func (p *ControlPlane) catalogs(ctx context.Context) (all []unstructured.Unstructured, err error) {
	for _, kind := range []schema.GroupVersionKind{CatalogKind, ClusterCatalogKind} {
		list := NewList(kind)
		if err := p.List(ctx, list); err != nil && !meta.IsNoMatchError(err) {
			return nil, err
		}
		all = append(all, list.Items...)
	}
	return all, nil
}

// NewObject returns an object that has only a name.
func NewObject(kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetName(name)
	return object
}

// NewList returns an empty list of a kind, to read into.
func NewList(kind schema.GroupVersionKind) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return list
}

// daemonUser is the user name of catalogd.
const daemonUser = "system:serviceaccount:" + Namespace + ":" + ServiceAccount

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ["` + daemonUser + `"]
- level: None
`

// audit makes the API server log each request of catalogd to a file in dir before it answers.
func audit(server *envtest.APIServer, dir string) error {
	policy := filepath.Join(dir, "audit-policy.yaml")
	server.Configure().
		Set("audit-policy-file", policy).
		Set("audit-log-path", filepath.Join(dir, "audit.log")).
		Set("audit-log-mode", "blocking")
	return os.WriteFile(policy, []byte(auditPolicy), 0o600)
}
