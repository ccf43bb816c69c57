package v1beta1

// RegistryAccess says how the registry of a catalog's image is reached. Secrets and ConfigMaps are read in catalogd's own
// namespace. They are watched: what is rotated there is used at the next attempt.
type RegistryAccess struct {
	// pullSecrets are Secrets of type kubernetes.io/dockerconfigjson with credentials. Where several have an entry for
	// the repository, the most specific entry is used (registry/namespace/repository before registry), then the one
	// listed first. The imagePullSecrets of catalogd's ServiceAccount, then catalogd's --pull-secret, come after them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	PullSecrets []SecretReference `json:"pullSecrets,omitempty"`

	// caBundle has certificates, in PEM form, of authorities to trust besides those of catalogd's system and of its
	// --registry-ca-dir.
	// +optional
	CABundle *BundleReference `json:"caBundle,omitempty"`

	// clientCertificate is a Secret of type kubernetes.io/tls with the certificate to show to a registry that asks for one.
	// +optional
	ClientCertificate *SecretReference `json:"clientCertificate,omitempty"`

	// proxy is a Secret with the proxy to go through, in place of the one in catalogd's environment: address, such as
	// http://proxy.example:3128, and, where the proxy asks for them, username and password.
	// +optional
	Proxy *SecretReference `json:"proxy,omitempty"`

	// insecure lets plain HTTP do, and certificates that no trusted authority signed. Whoever is on the way to the
	// registry can then replace the catalog, and read the credentials. A condition and a metric say that it is set.
	// +optional
	Insecure bool `json:"insecure,omitempty"`

	// mirrors are other places where the image can be had. They are tried in order, before those of catalogd's
	// --registries-conf and before the image's own registry. The digest is what counts, whoever gave the content.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Mirrors []RegistryMirror `json:"mirrors,omitempty"`
}

// SecretReference names a Secret in catalogd's namespace.
type SecretReference struct {
	// name is the name of the Secret, in catalogd's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// BundleReference names a key of a ConfigMap or a Secret in catalogd's namespace.
type BundleReference struct {
	// kind is ConfigMap or Secret. Default: ConfigMap.
	// +optional
	// +default="ConfigMap"
	// +kubebuilder:validation:Enum=ConfigMap;Secret
	Kind string `json:"kind,omitempty"`

	// name is the name of the ConfigMap or Secret, in catalogd's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// key is the key in it. Default: ca.crt.
	// +optional
	// +default="ca.crt"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// PullFrom says for which references a mirror is asked.
// +kubebuilder:validation:Enum=all;digest-only;tag-only
type PullFrom string

const (
	// PullFromAll asks the mirror for tags and for digests.
	PullFromAll PullFrom = "all"
	// PullFromDigestOnly asks the mirror for digests only: which digest a tag has, the image's own registry says.
	PullFromDigestOnly PullFrom = "digest-only"
	// PullFromTagOnly asks the mirror for tags only.
	PullFromTagOnly PullFrom = "tag-only"
)

// RegistryMirror is another place where images can be had, as [[registry.mirror]] of containers-registries.conf(5) is.
type RegistryMirror struct {
	// source is the beginning of the image references that the mirror has, such as quay.io or quay.io/operatorhubio.
	// Default: the image's registry.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.contains('://')",message="source must not begin with a scheme: write registry[:port][/namespace[/repository]]"
	Source string `json:"source,omitempty"`

	// location is what stands in place of source at the mirror, such as mirror.example:5000/operatorhubio.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.contains('://')",message="location must not begin with a scheme: write registry[:port][/namespace[/repository]]"
	Location string `json:"location"`

	// pullFrom says for which references the mirror is asked: all (the default), digest-only or tag-only.
	// +optional
	// +default="all"
	PullFrom PullFrom `json:"pullFrom,omitempty"`

	// insecure lets plain HTTP and untrusted certificates do at this mirror, as registry.insecure does for all.
	// +optional
	Insecure bool `json:"insecure,omitempty"`
}
