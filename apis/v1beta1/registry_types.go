package v1beta1

// RegistryAccess configures access to the registry of a catalog image. Secrets and ConfigMaps are in catalogd's own
// namespace. catalogd watches them: the next attempt uses their new content.
type RegistryAccess struct {
	// pullSecrets are Secrets of type kubernetes.io/dockerconfigjson with credentials. The most specific entry for the
	// repository wins (registry/namespace/repository before registry), then the one listed first. The imagePullSecrets
	// of catalogd's ServiceAccount, then catalogd's --pull-secret, come after these.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	PullSecrets []SecretReference `json:"pullSecrets,omitempty"`

	// caBundle refers to additional CA certificates to trust, in PEM form. catalogd also trusts the system's
	// certificates and those of its --registry-ca-dir.
	// +optional
	CABundle *BundleReference `json:"caBundle,omitempty"`

	// clientCertificate is a Secret of type kubernetes.io/tls with a certificate for registries that require one.
	// +optional
	ClientCertificate *SecretReference `json:"clientCertificate,omitempty"`

	// proxy is a Secret that configures a proxy. It replaces the proxy of catalogd's environment. Its keys are address,
	// such as http://proxy.example:3128, and, if the proxy requires them, username and password.
	// +optional
	Proxy *SecretReference `json:"proxy,omitempty"`

	// insecure allows plain HTTP and untrusted certificates. An attacker on the network can then replace the catalog and
	// read the credentials. A condition and a metric report this setting.
	// +optional
	Insecure bool `json:"insecure,omitempty"`

	// mirrors are other locations of the image. catalogd tries them in order, before those of its --registries-conf and
	// before the image's own registry. It verifies the digest whichever location served the content.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Mirrors []RegistryMirror `json:"mirrors,omitempty"`
}

// SecretReference names a Secret in catalogd's namespace.
type SecretReference struct {
	// name is the name of the Secret in catalogd's namespace.
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

	// name is the name of the ConfigMap or Secret in catalogd's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// key is the key in the ConfigMap or Secret. Default: ca.crt.
	// +optional
	// +default="ca.crt"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// PullFrom selects the references that are pulled from a mirror.
// +kubebuilder:validation:Enum=all;digest-only;tag-only
type PullFrom string

const (
	// PullFromAll uses the mirror for tags and digests.
	PullFromAll PullFrom = "all"
	// PullFromDigestOnly uses the mirror for digests only. The image's own registry resolves tags.
	PullFromDigestOnly PullFrom = "digest-only"
	// PullFromTagOnly uses the mirror for tags only.
	PullFromTagOnly PullFrom = "tag-only"
)

// RegistryMirror is another location of images, like [[registry.mirror]] of containers-registries.conf(5).
type RegistryMirror struct {
	// source is the prefix of the mirrored image references, such as quay.io or quay.io/operatorhubio.
	// Default: the image's registry.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.contains('://')",message="source must not begin with a scheme: write registry[:port][/namespace[/repository]]"
	Source string `json:"source,omitempty"`

	// location replaces source in references to the mirror, such as mirror.example:5000/operatorhubio.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.contains('://')",message="location must not begin with a scheme: write registry[:port][/namespace[/repository]]"
	Location string `json:"location"`

	// pullFrom selects the references that are pulled from the mirror: all (the default), digest-only or tag-only.
	// +optional
	// +default="all"
	PullFrom PullFrom `json:"pullFrom,omitempty"`

	// insecure allows plain HTTP and untrusted certificates for this mirror, as registry.insecure does for all.
	// +optional
	Insecure bool `json:"insecure,omitempty"`
}
