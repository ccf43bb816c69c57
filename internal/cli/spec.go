package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// specFlags are the flags that become the spec of a CatalogSource. Whether their values are right, the API server says.
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

func (s *specFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&s.imageTemplate, "image-template", "", "instead of IMAGE, an `image` with variables of the cluster's version: {kube_major_version}, {kube_minor_version}, {kube_patch_version}")
	flags.DurationVar(&s.interval, "interval", 0, "`time` between two polls, such as 45m (default: catalogd's own, 15m)")
	flags.StringVar(&s.schedule, "schedule", "", "when to poll, as `cron` has it, such as \"0 3 * * *\" or @daily, in UTC or the zone of CRON_TZ=ZONE before it")
	flags.Int32Var(&s.priority, "priority", 0, "rank where several catalogs offer the same package: the higher wins")
	flags.StringVar(&s.displayName, "display-name", "", "name that is shown to people")
	flags.StringVar(&s.publisher, "publisher", "", "who publishes it, shown to people")
	flags.StringVar(&s.description, "description", "", "what it is for, shown to people")
	flags.StringVar(&s.configDir, "config-dir", "", "`directory` of the catalog in the image (default: what a label of the image says)")
	flags.BoolVar(&s.suspend, "suspend", false, "do not unpack or poll it until it is resumed")
	flags.StringToStringVar(&s.labels, "label", nil, "labels of the object: `key=value`,...")
	flags.StringSliceVar(&s.pullSecrets, "pull-secret", nil, "`Secret` with credentials for the registry; may be repeated")
	flags.StringVar(&s.caBundle, "ca-bundle", "", "`[configmap/|secret/]NAME[:KEY]` with authorities to trust besides those of catalogd's system (default kind: configmap, key: ca.crt)")
	flags.StringVar(&s.clientCertificate, "client-certificate-secret", "", "`Secret` with the certificate to show to the registry")
	flags.StringVar(&s.proxy, "proxy-secret", "", "`Secret` with the proxy to go through: its keys address, username and password")
	flags.StringSliceVar(&s.mirrors, "mirror", nil, "`[SOURCE=]LOCATION` where the image can be had, too; may be repeated (default source: the image's registry)")
	flags.BoolVar(&s.insecure, "insecure", false, "let plain HTTP do, and certificates that nobody trusted signed")
}

// asFlags has sentences on the spec say which flags are meant.
var asFlags = strings.NewReplacer(
	"spec.imageTemplate", "--image-template", "imageTemplate", "--image-template",
	"spec.pollingInterval", "--interval", "pollingInterval", "--interval", "spec.pollingSchedule", "--schedule", "pollingSchedule", "--schedule",
	"spec.displayName", "--display-name", "spec.publisher", "--publisher", "spec.description", "--description", "spec.priority", "--priority",
	"spec.extractContent.configDir", "--config-dir", "configDir", "--config-dir",
	"spec.registry.pullSecrets", "--pull-secret", "spec.registry.caBundle", "--ca-bundle", "spec.registry.mirrors", "--mirror",
	"spec.registry.clientCertificate", "--client-certificate-secret", "spec.registry.proxy", "--proxy-secret",
)

// apply sets the fields of the spec that were asked for, and leaves the others to the API server.
func (s *specFlags) apply(c *v1beta1.CatalogSource) error {
	if s.imageTemplate != "" && c.Spec.Image != "" {
		return usagef("name an image or --image-template, not both: a template would win over %s", c.Spec.Image)
	}
	c.Labels = s.labels
	c.Spec.ImageTemplate = s.imageTemplate
	if s.interval != 0 {
		c.Spec.PollingInterval = &metav1.Duration{Duration: s.interval}
	}
	c.Spec.PollingSchedule = s.schedule
	c.Spec.Priority = s.priority
	c.Spec.DisplayName, c.Spec.Publisher, c.Spec.Description = s.displayName, s.publisher, s.description
	if s.configDir != "" {
		c.Spec.ExtractContent = &v1beta1.ExtractContent{ConfigDir: s.configDir}
	}
	c.Spec.Suspend = s.suspend
	return s.applyRegistry(c)
}

func (s *specFlags) applyRegistry(c *v1beta1.CatalogSource) error {
	for _, name := range s.pullSecrets {
		registryOf(c).PullSecrets = append(registryOf(c).PullSecrets, v1beta1.SecretReference{Name: name})
	}
	if s.caBundle != "" {
		bundle, err := parseBundle(s.caBundle)
		if err != nil {
			return err
		}
		registryOf(c).CABundle = bundle
	}
	if s.clientCertificate != "" {
		registryOf(c).ClientCertificate = &v1beta1.SecretReference{Name: s.clientCertificate}
	}
	if s.proxy != "" {
		registryOf(c).Proxy = &v1beta1.SecretReference{Name: s.proxy}
	}
	for _, m := range s.mirrors {
		source, location, both := strings.Cut(m, "=")
		if !both {
			source, location = "", m
		}
		registryOf(c).Mirrors = append(registryOf(c).Mirrors, v1beta1.RegistryMirror{Source: source, Location: location})
	}
	if s.insecure {
		registryOf(c).Insecure = true
	}
	return nil
}

// parseBundle reads [configmap/|secret/]NAME[:KEY].
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
		return nil, usagef("--ca-bundle: %q is neither configmap nor secret", kind)
	}
	if name == "" {
		return nil, usagef("--ca-bundle: %q has no name", text)
	}
	bundle.Name, bundle.Key = name, key
	return bundle, nil
}

// A need is an object in catalogd's namespace that a catalog names.
type need struct {
	kind, name string
	use        string // what it is there for
}

func (n need) String() string { return fmt.Sprintf("%s %q", n.kind, n.name) }

// needs lists what a catalog needs in catalogd's namespace.
func needs(c *v1beta1.CatalogSource) []need {
	access := c.Spec.Registry
	if access == nil {
		return nil
	}
	var all []need
	for _, s := range access.PullSecrets {
		all = append(all, need{"Secret", s.Name, "pull secret"})
	}
	if b := access.CABundle; b != nil {
		kind := b.Kind
		if kind == "" {
			kind = "ConfigMap"
		}
		all = append(all, need{kind, b.Name, "authorities"})
	}
	if s := access.ClientCertificate; s != nil {
		all = append(all, need{"Secret", s.Name, "client certificate"})
	}
	if s := access.Proxy; s != nil {
		all = append(all, need{"Secret", s.Name, "proxy"})
	}
	return all
}
