package main

import (
	"context"
	"os"
	"path/filepath"

	helmclient "github.com/operator-framework/helm-operator-plugins/pkg/client"
	ocv1 "github.com/operator-framework/operator-controller/api/v1"
	"github.com/operator-framework/operator-controller/internal/operator-controller/action"
	"github.com/operator-framework/operator-controller/internal/operator-controller/applier"
	"github.com/operator-framework/operator-controller/internal/operator-controller/rukpak/render/registryv1"
	imageutil "github.com/operator-framework/operator-controller/internal/shared/util/image"
	"go.podman.io/image/v5/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// install does what operator-controller does for a ClusterExtension, with its defaults: it resolves the bundle, pulls its
// image, renders it and applies it with Helm. It watches nothing afterwards.
func (p *peer) install(ctx context.Context, extension string) (answer, error) {
	e := &ocv1.ClusterExtension{}
	if err := p.api.Get(ctx, client.ObjectKey{Name: extension}, e); err != nil {
		return answer{}, err
	}
	e.SetGroupVersionKind(ocv1.GroupVersion.WithKind(ocv1.ClusterExtensionKind)) // as reads from operator-controller's cache do
	a, err := resolved(ctx, p.list, p.catalogs.GetPackage, e)
	if err != nil {
		return answer{}, err
	}
	dir, err := os.MkdirTemp("", "bundles")
	if err != nil {
		return answer{}, err
	}
	defer os.RemoveAll(dir)
	content, _, _, err := puller.Pull(ctx, extension, a.Image, imageutil.BundleCache(filepath.Join(dir, "unpack")))
	if err != nil {
		return answer{}, err
	}
	helm, err := newHelm(p.config, p.api, e.Spec.Namespace)
	if err != nil {
		return answer{}, err
	}
	a.Done, _, err = helm.Apply(ctx, content, e, nil, nil)
	return a, err
}

// puller pulls from registries without TLS, too.
var puller = &imageutil.ContainersImagePuller{SourceCtxFunc: func(context.Context) (*types.SystemContext, error) {
	return &types.SystemContext{DockerInsecureSkipTLSVerify: types.OptionalBoolTrue}, nil
}}

// newHelm is built as by operator-controller's main, which keeps its releases in the namespace of the system.
func newHelm(config *rest.Config, api client.Client, system string) (*applier.Helm, error) {
	secrets, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	configs, err := helmclient.NewActionConfigGetter(config, api.RESTMapper(),
		helmclient.StorageDriverMapper(action.ChunkedStorageDriverMapper(secrets, api, system)),
		helmclient.ClientNamespaceMapper(func(o client.Object) (string, error) {
			return o.(*ocv1.ClusterExtension).Spec.Namespace, nil
		}))
	if err != nil {
		return nil, err
	}
	actions, err := action.NewWrappedActionClientGetter(configs, helmclient.WithFailureRollbacks(false))
	if err != nil {
		return nil, err
	}
	return &applier.Helm{
		ActionClientGetter: actions,
		HelmChartProvider: &applier.RegistryV1HelmChartProvider{
			ManifestProvider: &applier.RegistryV1ManifestProvider{BundleRenderer: registryv1.Renderer},
		},
		HelmReleaseToObjectsConverter: &applier.HelmReleaseToObjectsConverter{},
	}, nil
}
