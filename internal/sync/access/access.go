// Package access reads the Secrets and ConfigMaps that give access to a catalog's registry.
package access

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/registry"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/sync/fault"
)

// +kubebuilder:rbac:groups="",namespace=catalogd-system,resources=secrets;configmaps,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=catalogd-system,resources=serviceaccounts,verbs=list;watch

// Reader reads the objects of catalogd's namespace that give access to registries.
type Reader struct {
	Cache          client.Reader // has ServiceAccounts
	Live           client.Reader
	Namespace      string
	ServiceAccount string               // catalogd's own; its imagePullSecrets apply to all catalogs
	PullSecret     types.NamespacedName // applies to all catalogs; empty: none
}

// unusable returns an error about an object that the access names. It never contains a value of the object.
func unusable(format string, args ...any) error {
	return fault.WithReason(v1beta1.AccessInvalidReason, fmt.Errorf(format, args...))
}

// The keys of a Secret of a proxy.
const (
	proxyAddressKey  = "address"
	proxyUsernameKey = "username"
	proxyPasswordKey = "password"
)

// Of returns the access that spec.registry of a CatalogSource names.
func Of(spec *v1beta1.RegistryAccess) (access source.Access) {
	if spec == nil {
		return access
	}
	access.ClientCertificate, access.Proxy = secretOf(spec.ClientCertificate), secretOf(spec.Proxy)
	access.Insecure = spec.Insecure
	for _, secret := range spec.PullSecrets {
		access.PullSecrets = append(access.PullSecrets, secret.Name)
	}
	if bundle := spec.CABundle; bundle != nil {
		access.CABundle = source.Bundle{Kind: bundle.Kind, Name: bundle.Name, Key: bundle.Key}
	}
	for _, m := range spec.Mirrors {
		access.Mirrors = append(access.Mirrors, source.Mirror{
			Source: m.Source, Location: m.Location, PullFrom: string(m.PullFrom), Insecure: m.Insecure,
		})
	}
	return access
}

func secretOf(ref *v1beta1.SecretReference) string {
	if ref == nil {
		return ""
	}
	return ref.Name
}

// DefaultsKey is the key of a ConfigMap with settings for several catalogs, in the form of spec.registry of a CatalogSource.
const DefaultsKey = "registry.yaml"

// Settings returns spec, or the settings in its ConfigMap. Without that ConfigMap there are none.
func (r Reader) Settings(ctx context.Context, spec source.Access) (source.Access, error) {
	if spec.Defaults == "" {
		return spec, nil
	}
	configMap := &corev1.ConfigMap{}
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: r.Namespace, Name: spec.Defaults}, configMap)
	if apierrors.IsNotFound(err) {
		return spec, nil
	}
	if err != nil {
		return spec, fmt.Errorf("reading ConfigMap %s: %w", spec.Defaults, err)
	}
	text, ok := configMap.Data[DefaultsKey]
	if !ok {
		return spec, unusable("ConfigMap %s has no key %s: put the access to registries there, in the form of spec.registry of a "+
			"CatalogSource", spec.Defaults, DefaultsKey)
	}
	var settings v1beta1.RegistryAccess
	if err := yaml.UnmarshalStrict([]byte(text), &settings); err != nil {
		return spec, unusable("%s of ConfigMap %s is not in the form of spec.registry of a CatalogSource: %v", DefaultsKey, spec.Defaults, err)
	}
	if bundle := settings.CABundle; bundle != nil { // the API server sets these for a CatalogSource
		bundle.Kind, bundle.Key = cmp.Or(bundle.Kind, "ConfigMap"), cmp.Or(bundle.Key, "ca.crt")
	}
	access := Of(&settings)
	access.Defaults = spec.Defaults
	return access, nil
}

// Read returns the access that spec names, and the Secrets for all catalogs that cannot be read. It reads the API server
// each time, so that rotated credentials are used. Unusable objects make an error with the reason AccessInvalid.
func (r Reader) Read(ctx context.Context, spec source.Access) (access registry.Access, missing []string, err error) {
	access.Insecure = spec.Insecure
	for _, m := range spec.Mirrors {
		access.Mirrors = append(access.Mirrors, registry.Mirror(m))
	}
	if access.Credentials, missing, err = r.credentials(ctx, spec); err != nil {
		return access, missing, err
	}
	if spec.CABundle != (source.Bundle{}) {
		if access.RootCAs, err = r.caBundle(ctx, spec.CABundle, spec.Field("caBundle")); err != nil {
			return access, missing, err
		}
	}
	if spec.ClientCertificate != "" {
		if access.Certificate, err = r.clientCertificate(ctx, spec.ClientCertificate, spec.Field("clientCertificate")); err != nil {
			return access, missing, err
		}
	}
	if spec.Proxy != "" {
		access.Proxy, err = r.proxy(ctx, spec.Proxy, spec.Field("proxy"))
	}
	return access, missing, err
}

// credentials merges the named Secrets, those of catalogd's ServiceAccount, and the global one, in this order. Only the
// named Secrets must exist.
func (r Reader) credentials(ctx context.Context, spec source.Access) (_ registry.Credentials, missing []string, err error) {
	var files []registry.CredentialsFile
	field := spec.Field("pullSecrets")
	for _, secretName := range spec.PullSecrets {
		secret, err := r.secret(ctx, secretName, field)
		if err != nil {
			return registry.Credentials{}, nil, err
		}
		file, err := credentialsFile(secret, field)
		if err != nil {
			return registry.Credentials{}, nil, err
		}
		files = append(files, file)
	}
	if _, err := registry.ParseCredentials(files...); err != nil {
		return registry.Credentials{}, nil, unusable("%v: recreate the Secret with `kubectl create secret docker-registry`", err)
	}
	shared, err := r.SharedSecrets(ctx)
	if err != nil {
		return registry.Credentials{}, nil, err
	}
	for _, key := range shared {
		secret := &corev1.Secret{}
		err := r.Live.Get(ctx, key, secret)
		switch {
		case apierrors.IsForbidden(err):
			logf.FromContext(ctx).Error(err, "ignoring a pull Secret for all catalogs; a Role must let catalogd get it")
			fallthrough
		case apierrors.IsNotFound(err):
			missing = append(missing, key.String())
			continue
		case err != nil:
			return registry.Credentials{}, nil, fmt.Errorf("reading Secret %s: %w", key, err)
		}
		if file, err := credentialsFile(secret, field); err == nil {
			files = append(files, file)
		}
	}
	credentials, err := registry.ParseCredentials(files...)
	if err != nil {
		logf.FromContext(ctx).Error(err, "ignoring a pull Secret for all catalogs")
	}
	return credentials, missing, nil
}

// SharedSecrets returns the names of the pull Secrets for all catalogs.
func (r Reader) SharedSecrets(ctx context.Context) ([]types.NamespacedName, error) {
	var names []types.NamespacedName
	account := &corev1.ServiceAccount{}
	key := types.NamespacedName{Namespace: r.Namespace, Name: r.ServiceAccount}
	if err := r.Cache.Get(ctx, key, account); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading ServiceAccount %s: %w", key, err)
	}
	for _, ref := range account.ImagePullSecrets {
		names = append(names, types.NamespacedName{Namespace: r.Namespace, Name: ref.Name})
	}
	if r.PullSecret.Name != "" {
		names = append(names, r.PullSecret)
	}
	return names, nil
}

func credentialsFile(secret *corev1.Secret, field string) (registry.CredentialsFile, error) {
	for _, key := range []string{corev1.DockerConfigJsonKey, corev1.DockerConfigKey} {
		if content, ok := secret.Data[key]; ok {
			return registry.CredentialsFile{Name: "Secret " + secret.Name, JSON: content}, nil
		}
	}
	return registry.CredentialsFile{}, unusable("Secret %s of %s has no key %s: create it with `kubectl create secret docker-registry`",
		secret.Name, field, corev1.DockerConfigJsonKey)
}

func (r Reader) caBundle(ctx context.Context, ref source.Bundle, field string) ([]byte, error) {
	var bundle []byte
	if ref.Kind == "Secret" {
		secret, err := r.secret(ctx, ref.Name, field)
		if err != nil {
			return nil, err
		}
		bundle = secret.Data[ref.Key]
	} else {
		configMap := &corev1.ConfigMap{}
		if err := r.named(ctx, configMap, "ConfigMap", ref.Name, field); err != nil {
			return nil, err
		}
		bundle = configMap.BinaryData[ref.Key]
		if text, ok := configMap.Data[ref.Key]; ok {
			bundle = []byte(text)
		}
	}
	if bundle == nil {
		return nil, unusable("%s %s of %s has no key %q: put the CA certificates there, or correct the key", ref.Kind, ref.Name, field, ref.Key)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(bundle) {
		return nil, unusable("%s %s of %s has no certificate in PEM form at key %q: put the CA certificates there", ref.Kind, ref.Name, field,
			ref.Key)
	}
	return bundle, nil
}

func (r Reader) clientCertificate(ctx context.Context, secretName, field string) (*tls.Certificate, error) {
	secret, err := r.secret(ctx, secretName, field)
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, unusable("Secret %s of %s has no valid key pair at %s and %s (%v): create it with `kubectl create secret tls`",
			secretName, field, corev1.TLSCertKey, corev1.TLSPrivateKeyKey, err)
	}
	return &certificate, nil
}

func (r Reader) proxy(ctx context.Context, secretName, field string) (*url.URL, error) {
	secret, err := r.secret(ctx, secretName, field)
	if err != nil {
		return nil, err
	}
	proxy, err := url.Parse(string(secret.Data[proxyAddressKey]))
	// SOCKS is refused, because net/http waits forever for a silent SOCKS proxy.
	if err != nil || proxy.Hostname() == "" || proxy.User != nil || (proxy.Scheme != "http" && proxy.Scheme != "https") {
		return nil, unusable("Secret %s of %s has no valid proxy address at key %q: set it to http://host:port; user name and password "+
			"belong at %q and %q",
			secretName, field, proxyAddressKey, proxyUsernameKey, proxyPasswordKey)
	}
	if username := secret.Data[proxyUsernameKey]; len(username) > 0 {
		proxy.User = url.UserPassword(string(username), string(secret.Data[proxyPasswordKey]))
	}
	return proxy, nil
}

func (r Reader) secret(ctx context.Context, secretName, field string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	return secret, r.named(ctx, secret, "Secret", secretName, field)
}

// named reads an object of catalogd's namespace that a field of the spec names.
func (r Reader) named(ctx context.Context, into client.Object, kind, objectName, field string) error {
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: r.Namespace, Name: objectName}, into)
	if apierrors.IsNotFound(err) {
		return unusable("%s %s of %s not found in namespace %s: create it, or correct the name", kind, objectName, field, r.Namespace)
	}
	if err != nil {
		return fmt.Errorf("reading %s %s of %s: %w", kind, objectName, field, err)
	}
	return nil
}
