package catalogs

import (
	"cmp"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
)

// specFlags are the flags for the spec of a CatalogSource. The API server validates their values.
type specFlags struct {
	imageTemplate string
	interval      time.Duration
	schedule      string
	priority      int32
	displayName   string
	publisher     string
	description   string
	configDir     string
	suspend       bool
	labels        map[string]string

	pullSecrets       []string
	caBundle          string
	clientCertificate string
	proxy             string
	mirrors           []string
	insecure          bool
}

func (f *specFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.imageTemplate, "image-template", "", "`image` with variables of the cluster's version, instead of IMAGE: "+
		"{kube_major_version}, {kube_minor_version}, {kube_patch_version}")
	flags.DurationVar(&f.interval, "interval", 0, "`time` between two polls, such as 45m (default: catalogd's default, 15m)")
	flags.StringVar(&f.schedule, "schedule", "", "when to poll, as a `cron` expression such as \"0 3 * * *\" or @daily, "+
		"in UTC or in the time zone of the prefix CRON_TZ=ZONE")
	flags.Int32Var(&f.priority, "priority", 0, "rank among catalogs with the same package: the highest wins")
	flags.StringVar(&f.displayName, "display-name", "", "name to show to users")
	flags.StringVar(&f.publisher, "publisher", "", "publisher to show to users")
	flags.StringVar(&f.description, "description", "", "description to show to users")
	flags.StringVar(&f.configDir, "config-dir", "", "`directory` of the catalog in the image (default: the value of the image's label)")
	flags.BoolVar(&f.suspend, "suspend", false, "do not unpack or poll until resumed")
	flags.StringToStringVar(&f.labels, "label", nil, "labels of the object: `key=value`,...")
	flags.StringSliceVar(&f.pullSecrets, "pull-secret", nil, "`Secret` with credentials for the registry; can be repeated")
	flags.StringVar(&f.caBundle, "ca-bundle", "", "`[configmap/|secret/]NAME[:KEY]` with certificate authorities to trust in addition to "+
		"those of catalogd's system (default kind: configmap, key: ca.crt)")
	flags.StringVar(&f.clientCertificate, "client-certificate-secret", "", "`Secret` with the client certificate for the registry")
	flags.StringVar(&f.proxy, "proxy-secret", "", "`Secret` with the proxy: its keys are address, username and password")
	flags.StringSliceVar(&f.mirrors, "mirror", nil, "`[SOURCE=]LOCATION` of a mirror; can be repeated (default source: the image's registry)")
	flags.BoolVar(&f.insecure, "insecure", false, "allow plain HTTP and untrusted certificates")
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
)

// apply sets the fields of the given flags, and leaves the others to the API server.
func (f *specFlags) apply(c *v1beta1.CatalogSource) error {
	if f.imageTemplate != "" && c.Spec.Image != "" {
		return exit.Usagef("specify an image or --image-template, not both: a template overrides %s", c.Spec.Image)
	}
	c.Labels = f.labels
	c.Spec.ImageTemplate = f.imageTemplate
	if f.interval != 0 {
		c.Spec.PollingInterval = &metav1.Duration{Duration: f.interval}
	}
	c.Spec.PollingSchedule = f.schedule
	c.Spec.Priority = f.priority
	c.Spec.DisplayName, c.Spec.Publisher, c.Spec.Description = f.displayName, f.publisher, f.description
	if f.configDir != "" {
		c.Spec.ExtractContent = &v1beta1.ExtractContent{ConfigDir: f.configDir}
	}
	c.Spec.Suspend = f.suspend
	return f.applyRegistry(c)
}

func (f *specFlags) applyRegistry(c *v1beta1.CatalogSource) error {
	for _, name := range f.pullSecrets {
		registryOf(c).PullSecrets = append(registryOf(c).PullSecrets, v1beta1.SecretReference{Name: name})
	}
	if f.caBundle != "" {
		bundle, err := parseBundle(f.caBundle)
		if err != nil {
			return err
		}
		registryOf(c).CABundle = bundle
	}
	if f.clientCertificate != "" {
		registryOf(c).ClientCertificate = &v1beta1.SecretReference{Name: f.clientCertificate}
	}
	if f.proxy != "" {
		registryOf(c).Proxy = &v1beta1.SecretReference{Name: f.proxy}
	}
	for _, m := range f.mirrors {
		source, location, both := strings.Cut(m, "=")
		if !both {
			source, location = "", m
		}
		registryOf(c).Mirrors = append(registryOf(c).Mirrors, v1beta1.RegistryMirror{Source: source, Location: location})
	}
	if f.insecure {
		registryOf(c).Insecure = true
	}
	return nil
}

// parseBundle parses [configmap/|secret/]NAME[:KEY].
func parseBundle(text string) (*v1beta1.BundleReference, error) {
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
func references(c *v1beta1.CatalogSource) []reference {
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
