package sync

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"

	"github.com/google/go-containerregistry/pkg/name"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/registry"
)

// +kubebuilder:rbac:groups="",namespace=catalogd-system,resources=secrets;configmaps,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=catalogd-system,resources=serviceaccounts,verbs=list;watch

// The keys of a Secret that spec.registry.proxy names.
const (
	proxyAddressKey  = "address"
	proxyUsernameKey = "username"
	proxyPasswordKey = "password"
)

// unusable says what is wrong with something that spec.registry names. It never has a value of it.
func unusable(format string, args ...any) error {
	return &reasonedError{v1beta1.AccessInvalidReason, fmt.Errorf(format, args...)}
}

// access finds out how the catalog's registry is reached: what spec.registry names, and what holds for all catalogs. It is
// read anew each time, so that what was rotated is used. What cannot be used is a fault once the registry is needed.
func (r *CatalogReconciler) access(ctx context.Context, rec *reconciliation) error {
	access, missing, err := r.readAccess(ctx, rec.catalog.Spec.Registry)
	rec.missing = missing
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		rec.client, err = r.Config.Registries.Client(rec.catalog.Name, access)
	}
	if err != nil {
		rec.accessErr = err
		rec.subject = cmp.Or(rec.subject, rec.image) + "\n" + err.Error()
		return nil
	}
	rec.subject = cmp.Or(rec.subject, rec.image) + "\n" + rec.client.Fingerprint()
	if ref, err := name.ParseReference(rec.image); err == nil {
		rec.insecure = rec.client.Insecure(ref)
	}
	return nil
}

// readAccess also lists the Secrets that should be there for all catalogs and are not.
func (r *CatalogReconciler) readAccess(ctx context.Context, spec *v1beta1.RegistryAccess) (access registry.Access, missing []string, err error) {
	if spec == nil {
		spec = &v1beta1.RegistryAccess{}
	}
	access.Insecure = spec.Insecure
	for _, m := range spec.Mirrors {
		access.Mirrors = append(access.Mirrors, registry.Mirror{
			Source: m.Source, Location: m.Location, PullFrom: string(m.PullFrom), Insecure: m.Insecure,
		})
	}
	if access.Credentials, missing, err = r.credentials(ctx, spec.PullSecrets); err != nil {
		return access, missing, err
	}
	if spec.CABundle != nil {
		if access.RootCAs, err = r.caBundle(ctx, *spec.CABundle); err != nil {
			return access, missing, err
		}
	}
	if spec.ClientCertificate != nil {
		if access.Certificate, err = r.clientCertificate(ctx, spec.ClientCertificate.Name); err != nil {
			return access, missing, err
		}
	}
	if spec.Proxy != nil {
		access.Proxy, err = r.proxy(ctx, spec.Proxy.Name)
	}
	return access, missing, err
}

// credentials merges the Secrets that the catalog names, those of catalogd's ServiceAccount, and the global one. Only the
// catalog's own have to be there: the others are for whom they may concern.
func (r *CatalogReconciler) credentials(ctx context.Context, named []v1beta1.SecretReference) (_ registry.Credentials, missing []string, err error) {
	var files []registry.CredentialsFile
	for _, ref := range named {
		secret, err := r.secret(ctx, ref.Name, "spec.registry.pullSecrets")
		if err != nil {
			return registry.Credentials{}, nil, err
		}
		file, err := credentialsFile(secret)
		if err != nil {
			return registry.Credentials{}, nil, err
		}
		files = append(files, file)
	}
	if _, err := registry.ParseCredentials(files...); err != nil {
		return registry.Credentials{}, nil, unusable("%v: make the Secret anew, as `kubectl create secret docker-registry` does", err)
	}
	shared, err := r.sharedPullSecrets(ctx)
	if err != nil {
		return registry.Credentials{}, nil, err
	}
	for _, key := range shared {
		secret := &corev1.Secret{}
		switch err := r.Live.Get(ctx, key, secret); {
		case apierrors.IsNotFound(err):
			missing = append(missing, key.String())
			continue
		case apierrors.IsForbidden(err):
			logf.FromContext(ctx).Error(err, "doing without a pull Secret that is for all catalogs; a Role has to let catalogd get it")
			missing = append(missing, key.String())
			continue
		case err != nil:
			return registry.Credentials{}, nil, fmt.Errorf("reading Secret %s: %w", key, err)
		}
		if file, err := credentialsFile(secret); err == nil {
			files = append(files, file)
		}
	}
	credentials, err := registry.ParseCredentials(files...)
	if err != nil {
		logf.FromContext(ctx).Error(err, "doing without a pull Secret that is for all catalogs")
	}
	return credentials, missing, nil
}

// sharedPullSecrets names the Secrets that hold for all catalogs.
func (r *CatalogReconciler) sharedPullSecrets(ctx context.Context) ([]types.NamespacedName, error) {
	var names []types.NamespacedName
	account := &corev1.ServiceAccount{}
	key := types.NamespacedName{Namespace: r.Config.Namespace, Name: r.Config.ServiceAccount}
	if err := r.Client.Get(ctx, key, account); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading ServiceAccount %s: %w", key, err)
	}
	for _, ref := range account.ImagePullSecrets {
		names = append(names, types.NamespacedName{Namespace: r.Config.Namespace, Name: ref.Name})
	}
	if r.Config.PullSecret.Name != "" {
		names = append(names, r.Config.PullSecret)
	}
	return names, nil
}

func credentialsFile(secret *corev1.Secret) (registry.CredentialsFile, error) {
	for _, key := range []string{corev1.DockerConfigJsonKey, corev1.DockerConfigKey} {
		if content, ok := secret.Data[key]; ok {
			return registry.CredentialsFile{Name: "Secret " + secret.Name, JSON: content}, nil
		}
	}
	return registry.CredentialsFile{}, unusable("Secret %s of spec.registry.pullSecrets has no key %s: make it as `kubectl create secret docker-registry` does",
		secret.Name, corev1.DockerConfigJsonKey)
}

func (r *CatalogReconciler) caBundle(ctx context.Context, ref v1beta1.BundleReference) ([]byte, error) {
	const field = "spec.registry.caBundle"
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
		return nil, unusable("%s %s of %s has no key %q: put the certificates of the authorities there, or correct the key", ref.Kind, ref.Name, field, ref.Key)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(bundle) {
		return nil, unusable("%s %s of %s has no certificate in PEM form at key %q: put the certificates of the authorities there", ref.Kind, ref.Name, field, ref.Key)
	}
	return bundle, nil
}

func (r *CatalogReconciler) clientCertificate(ctx context.Context, secretName string) (*tls.Certificate, error) {
	const field = "spec.registry.clientCertificate"
	secret, err := r.secret(ctx, secretName, field)
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, unusable("Secret %s of %s has no certificate with its key at %s and %s (%v): make it as `kubectl create secret tls` does",
			secretName, field, corev1.TLSCertKey, corev1.TLSPrivateKeyKey, err)
	}
	return &certificate, nil
}

func (r *CatalogReconciler) proxy(ctx context.Context, secretName string) (*url.URL, error) {
	const field = "spec.registry.proxy"
	secret, err := r.secret(ctx, secretName, field)
	if err != nil {
		return nil, err
	}
	proxy, err := url.Parse(string(secret.Data[proxyAddressKey]))
	if err != nil || proxy.Host == "" || proxy.User != nil || (proxy.Scheme != "http" && proxy.Scheme != "https") {
		return nil, unusable("Secret %s of %s has no address of a proxy at key %q: write http://host:port there, and user name and password at %q and %q",
			secretName, field, proxyAddressKey, proxyUsernameKey, proxyPasswordKey)
	}
	if username := secret.Data[proxyUsernameKey]; len(username) > 0 {
		proxy.User = url.UserPassword(string(username), string(secret.Data[proxyPasswordKey]))
	}
	return proxy, nil
}

func (r *CatalogReconciler) secret(ctx context.Context, secretName, field string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	return secret, r.named(ctx, secret, "Secret", secretName, field)
}

// named reads what a field of the spec names in catalogd's namespace.
func (r *CatalogReconciler) named(ctx context.Context, into client.Object, kind, objectName, field string) error {
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: r.Config.Namespace, Name: objectName}, into)
	if apierrors.IsNotFound(err) {
		return unusable("%s %s of %s is not in namespace %s: create it there, or correct the name", kind, objectName, field, r.Config.Namespace)
	}
	if err != nil {
		return fmt.Errorf("reading %s %s of %s: %w", kind, objectName, field, err)
	}
	return nil
}
