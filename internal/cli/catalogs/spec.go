package catalogs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/kube"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
)

// specFlags are the flags for the spec of a CatalogSource. The API server validates their values.
type specFlags struct {
	catalog v1beta1.CatalogSource // has the values that need no conversion
	access  v1beta1.RegistryAccess

	interval                           time.Duration
	configDir                          string
	pullSecrets, mirrors               []string
	caBundle, clientCertificate, proxy string
}

func (f *specFlags) add(flags *pflag.FlagSet) {
	spec := &f.catalog.Spec
	flags.StringVar(&spec.ImageTemplate, "image-template", "", "`image` with variables of the cluster's version, instead of IMAGE: "+
		"{kube_major_version}, {kube_minor_version}, {kube_patch_version}")
	flags.DurationVar(&f.interval, "interval", 0, "`time` between two polls, such as 45m (default: catalogd's default, 15m)")
	flags.StringVar(&spec.PollingSchedule, "schedule", "", "when to poll, as a `cron` expression such as \"0 3 * * *\" or @daily, "+
		"in UTC or in the time zone of the prefix CRON_TZ=ZONE")
	flags.Int32Var(&spec.Priority, "priority", 0, "rank among catalogs with the same package: the highest wins")
	flags.StringVar(&spec.DisplayName, "display-name", "", "name to show to users")
	flags.StringVar(&spec.Publisher, "publisher", "", "publisher to show to users")
	flags.StringVar(&spec.Description, "description", "", "description to show to users")
	flags.StringVar(&f.configDir, "config-dir", "", "`directory` of the catalog in the image (default: the value of the image's label)")
	flags.BoolVar(&spec.Suspend, "suspend", false, "do not unpack or poll until resumed")
	flags.StringToStringVar(&f.catalog.Labels, "label", nil, "labels of the object: `key=value`,...")
	flags.StringSliceVar(&f.pullSecrets, "pull-secret", nil, "`Secret` with credentials for the registry; can be repeated")
	flags.StringVar(&f.caBundle, "ca-bundle", "", "`[configmap/|secret/]NAME[:KEY]` with certificate authorities to trust in addition to "+
		"those of catalogd's system (default kind: configmap, key: ca.crt)")
	flags.StringVar(&f.clientCertificate, "client-certificate-secret", "", "`Secret` with the client certificate for the registry")
	flags.StringVar(&f.proxy, "proxy-secret", "", "`Secret` with the proxy: its keys are address, username and password")
	flags.StringSliceVar(&f.mirrors, "mirror", nil, "`[SOURCE=]LOCATION` of a mirror; can be repeated (default source: the image's registry)")
	flags.BoolVar(&f.access.Insecure, "insecure", false, "allow plain HTTP and untrusted certificates")
}

// fieldsAsFlags replaces fields of the spec in a message by flags.
var fieldsAsFlags = strings.NewReplacer(
	"spec.imageTemplate", "--image-template", "imageTemplate", "--image-template",
	"spec.pollingInterval", "--interval", "pollingInterval", "--interval",
	"spec.pollingSchedule", "--schedule", "pollingSchedule", "--schedule",
	"spec.displayName", "--display-name", "spec.publisher", "--publisher", "spec.description", "--description",
	"spec.priority", "--priority", "spec.extractContent.configDir", "--config-dir", "configDir", "--config-dir",
	"spec.registry.pullSecrets", "--pull-secret", "spec.registry.caBundle", "--ca-bundle",
	"spec.registry.mirrors", "--mirror", "spec.registry.clientCertificate", "--client-certificate-secret",
	"spec.registry.proxy", "--proxy-secret",
	"spec.registry", "the flags for the registry, such as --pull-secret and --ca-bundle", "spec.extractContent", "--config-dir",
	"spec.source.image.ref", "IMAGE", "spec.source.image.pollIntervalMinutes", "--interval",
)

// source returns the CatalogSource of the given flags, and leaves the other fields to the API server.
func (f *specFlags) source() (*v1beta1.CatalogSource, error) {
	c := f.catalog.DeepCopy()
	if f.interval != 0 {
		c.Spec.PollingInterval = &metav1.Duration{Duration: f.interval}
	}
	if f.configDir != "" {
		c.Spec.ExtractContent = &v1beta1.ExtractContent{ConfigDir: f.configDir}
	}
	access := f.access.DeepCopy()
	for _, name := range f.pullSecrets {
		access.PullSecrets = append(access.PullSecrets, v1beta1.SecretReference{Name: name})
	}
	for _, m := range f.mirrors {
		source, location, both := strings.Cut(m, "=")
		if !both {
			source, location = "", m
		}
		access.Mirrors = append(access.Mirrors, v1beta1.RegistryMirror{Source: source, Location: location})
	}
	access.ClientCertificate, access.Proxy = secretReference(f.clientCertificate), secretReference(f.proxy)
	var err error
	if access.CABundle, err = parseBundle(f.caBundle); err != nil {
		return nil, err
	}
	if !reflect.ValueOf(access).Elem().IsZero() {
		c.Spec.Registry = access
	}
	return c, nil
}

func secretReference(name string) *v1beta1.SecretReference {
	if name == "" {
		return nil
	}
	return &v1beta1.SecretReference{Name: name}
}

// parseBundle parses [configmap/|secret/]NAME[:KEY]. Without a text, there is no bundle.
func parseBundle(text string) (*v1beta1.BundleReference, error) {
	if text == "" {
		return nil, nil
	}
	bundle := &v1beta1.BundleReference{}
	name, key, _ := strings.Cut(text, ":")
	kind, rest, ok := strings.Cut(name, "/")
	switch {
	case !ok:
	case strings.EqualFold(kind, "configmap"):
		bundle.Kind, name = "ConfigMap", rest
	case strings.EqualFold(kind, "secret"):
		bundle.Kind, name = "Secret", rest
	default:
		return nil, exit.Usagef("--ca-bundle: invalid kind %q; valid kinds are configmap, secret", kind)
	}
	if name == "" {
		return nil, exit.Usagef("--ca-bundle: %q has no name", text)
	}
	bundle.Name, bundle.Key = name, key
	return bundle, nil
}

// A reference is an object in catalogd's namespace that a catalog names.
type reference struct {
	kind, name string
	use        string // in words
}

// references returns the objects that a catalog names.
func references(c *status.Catalog) []reference {
	access := c.Spec.Registry
	if access == nil {
		return nil
	}
	var all []reference
	for _, s := range access.PullSecrets {
		all = append(all, reference{"Secret", s.Name, "pull secret"})
	}
	if b := access.CABundle; b != nil {
		all = append(all, reference{cmp.Or(b.Kind, "ConfigMap"), b.Name, bundleUse})
	}
	if s := access.ClientCertificate; s != nil {
		all = append(all, reference{"Secret", s.Name, "client certificate"})
	}
	if s := access.Proxy; s != nil {
		all = append(all, reference{"Secret", s.Name, "proxy"})
	}
	return all
}

const bundleUse = "CA bundle"

// lookUp returns an error if a referenced object does not exist or is forbidden. It reads only the metadata.
func lookUp(ctx context.Context, s *session.Session, namespace string, r reference) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	var object metav1.PartialObjectMetadata
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(r.kind))
	return api.Get(ctx, types.NamespacedName{Namespace: namespace, Name: r.name}, &object)
}

// warnOfMissing warns of objects that a new catalog names and that do not exist. catalogd waits for them.
func warnOfMissing(ctx context.Context, s *session.Session, c *status.Catalog, createsBundle bool) {
	all := references(c)
	if len(all) == 0 {
		return
	}
	namespace := s.DaemonNamespace(ctx)
	for _, r := range all {
		if r.use == bundleUse && createsBundle {
			continue
		}
		if apierrors.IsNotFound(lookUp(ctx, s, namespace, r)) {
			s.Stderr.Warnf("%s %q (%s) not found in namespace %s: catalogd needs it to pull the image", r.kind, r.name, r.use, namespace)
		}
	}
}

// A caBundle is the ConfigMap of --ca-file.
type caBundle struct {
	api     *kube.Client
	object  *corev1.ConfigMap
	existed bool // with the same content, for example after an interrupted attempt
}

func createBundle(ctx context.Context, api *kube.Client, ref *v1beta1.BundleReference, namespace string, authorities []byte,
	opts metav1.CreateOptions,
) (*caBundle, error) {
	wanted := &corev1.ConfigMap{Data: map[string]string{ref.Key: string(authorities)}}
	wanted.Name, wanted.Namespace = ref.Name, namespace
	b := &caBundle{api: api, object: wanted}
	err := api.Create(ctx, wanted, opts)
	if err == nil {
		return b, nil
	}
	what := fmt.Sprintf("ConfigMap %q of --ca-file in namespace %s", wanted.Name, namespace)
	if !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("creating %s: %w", what, err)
	}
	var has corev1.ConfigMap
	if err := api.Get(ctx, types.NamespacedName{Namespace: namespace, Name: ref.Name}, &has); err != nil {
		return nil, fmt.Errorf("reading %s: %w", what, err)
	}
	if !maps.Equal(has.Data, wanted.Data) {
		return nil, fmt.Errorf("%s already exists with different content: use it with --ca-bundle %s, or delete it", what, wanted.Name)
	}
	b.object, b.existed = &has, true
	return b, nil
}

// setOwner makes the catalog the owner, so that both are deleted together. A ConfigMap that the plugin did not create stays as it is.
func (b *caBundle) setOwner(ctx context.Context, c kube.Object) error {
	isOurs := func(m metav1.ManagedFieldsEntry) bool { return m.Manager == session.FieldManager }
	if b.existed && !slices.ContainsFunc(b.object.ManagedFields, isOurs) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": []metav1.OwnerReference{{
		APIVersion: v1beta1.GroupVersion.String(), Kind: "CatalogSource", Name: c.GetName(), UID: c.GetUID(),
	}}}})
	if err != nil {
		return err
	}
	if err := b.api.Patch(ctx, b.object, patch, metav1.PatchOptions{FieldManager: session.FieldManager}); err != nil {
		return fmt.Errorf("setting the owner of ConfigMap %q: %w", b.object.Name, err)
	}
	return nil
}

// remove deletes the ConfigMap if this command created it.
func (b *caBundle) remove(ctx context.Context) {
	if !b.existed {
		_ = b.api.Delete(ctx, b.object, metav1.DeleteOptions{})
	}
}
