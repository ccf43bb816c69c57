package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Availability selects whether a catalog is served.
// +kubebuilder:validation:Enum=Available;Unavailable
type Availability string

const (
	// AvailabilityAvailable serves the content and publishes its packages.
	AvailabilityAvailable Availability = "Available"
	// AvailabilityUnavailable serves nothing and publishes no packages.
	AvailabilityUnavailable Availability = "Unavailable"
)

// CatalogSourceSpec is the desired state of a catalog: its image, its polling and its presentation.
// +kubebuilder:validation:XValidation:rule="!(has(self.pollingInterval) && has(self.pollingSchedule))",message="pollingInterval and pollingSchedule are mutually exclusive: remove one of them"
// +kubebuilder:validation:XValidation:rule="has(self.image) || has(self.imageTemplate)",message="neither image nor imageTemplate is set: name a catalog image, such as quay.io/operatorhubio/catalog:latest"
// +kubebuilder:validation:XValidation:rule="!has(self.image) || has(self.imageTemplate) || !self.image.contains('@sha256:') || !has(self.pollingInterval)",message="a digest reference is never polled: remove spec.pollingInterval or name the image by tag"
// +kubebuilder:validation:XValidation:rule="!has(self.image) || has(self.imageTemplate) || !self.image.contains('@sha256:') || !has(self.pollingSchedule)",message="a digest reference is never polled: remove spec.pollingSchedule or name the image by tag"
type CatalogSourceSpec struct {
	// image names the catalog (index) image by tag or by digest, such as quay.io/operatorhubio/catalog:latest.
	// catalogd polls a tag, by default every 15 minutes (--default-polling-interval). It never polls a digest.
	// +optional
	// +kubebuilder:validation:MaxLength=1000
	// +kubebuilder:validation:XValidation:rule="self != ''",message="image must not be empty: name a catalog image, such as quay.io/operatorhubio/catalog:latest"
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:space:]]')",message="image must not contain white space: remove it"
	// +kubebuilder:validation:XValidation:rule="!self.contains('://')",message="image must not begin with a scheme: write registry/repository:tag without https:// or docker://"
	Image string `json:"image,omitempty"`

	// imageTemplate is an image reference with variables of the cluster's version, such as
	// quay.io/example/catalog:v{kube_major_version}.{kube_minor_version}. {kube_patch_version} is the third variable.
	// The catalog follows an upgrade of the cluster within 10 minutes. imageTemplate takes precedence over image. If it
	// is not set, catalogd reads the annotation olm.catalogImageTemplate.
	// +optional
	// +kubebuilder:validation:MaxLength=1000
	// +kubebuilder:validation:XValidation:rule="self != ''",message="imageTemplate must not be empty: name a catalog image with variables, or remove it"
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:space:]]')",message="imageTemplate must not contain white space: remove it"
	// +kubebuilder:validation:XValidation:rule="!self.contains('://')",message="imageTemplate must not begin with a scheme: write registry/repository:tag without https:// or docker://"
	ImageTemplate string `json:"imageTemplate,omitempty"`

	// pollingInterval is the time between two polls of the image's digest, such as 45m or 1h30m; at least 1s.
	// It cannot be combined with pollingSchedule.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?(ns|us|ms|s|m|h))+$')",message="pollingInterval must be a duration, such as 30s, 45m or 1h30m"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,6}([.][0-9]{1,9})?(ns|us|ms|s|m|h))+$') || duration(self) >= duration('1s')",message="pollingInterval must be at least 1s: choose a longer one"
	PollingInterval *metav1.Duration `json:"pollingInterval,omitempty"`

	// pollingSchedule is the cron schedule of the polls: five fields (minute, hour, day of month, month, day of week),
	// such as "0 3 * * *", or a word such as @daily. Times are in UTC unless CRON_TZ=<zone> precedes them, as in
	// "CRON_TZ=Europe/Prague 0 3 * * *". It cannot be combined with pollingInterval.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^(CRON_TZ=[^[:space:]]+ +)?(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|@every [0-9][^[:space:]]*|[^@=[:space:]]+( +[^@=[:space:]]+){4})$')",message="pollingSchedule must have five cron fields (minute, hour, day of month, month, day of week) or be a word such as @daily; CRON_TZ=<zone> may precede it"
	PollingSchedule string `json:"pollingSchedule,omitempty"`

	// priority ranks catalogs that offer the same package; the highest wins. It is copied to the OperatorPackages of
	// the catalog.
	// +optional
	// +default=0
	Priority int32 `json:"priority,omitempty"`

	// displayName is the name of the catalog for people.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	DisplayName string `json:"displayName,omitempty"`

	// publisher is the person or organization that publishes the catalog.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Publisher string `json:"publisher,omitempty"`

	// description is the purpose of the catalog in a few words.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Description string `json:"description,omitempty"`

	// icon is shown beside the name of the catalog.
	// +optional
	Icon *Icon `json:"icon,omitempty"`

	// extractContent locates the content in the image. Only images without the label for it need this.
	// +optional
	ExtractContent *ExtractContent `json:"extractContent,omitempty"`

	// include selects the packages of the catalog that catalogd keeps and serves, or parts of them. Everything else is left
	// out, including blobs without a package. Several rules for a package are combined. Without include, catalogd keeps all
	// packages. A change does not pull the image.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	// +kubebuilder:validation:XValidation:rule="size(self) > 0",message="include must not be empty: add a rule, such as {package: foo}, or remove it"
	Include []IncludeRule `json:"include,omitempty"`

	// exclude removes packages, or channels of them, from what include selects. Without include, catalogd keeps all others.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	// +kubebuilder:validation:XValidation:rule="size(self) > 0",message="exclude must not be empty: add a rule, such as {package: foo}, or remove it"
	Exclude []ExcludeRule `json:"exclude,omitempty"`

	// registry configures access to the image's registry: credentials, trust, proxy, mirrors.
	// +optional
	Registry *RegistryAccess `json:"registry,omitempty"`

	// availability selects whether the catalog is served. Unavailable stops serving it and removes its
	// OperatorPackages, but keeps the object and its settings.
	// +optional
	// +default="Available"
	Availability Availability `json:"availability,omitempty"`

	// suspend stops polling. catalogd keeps serving the content, and still unpacks a known digest where it is missing.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// olmv1 offers the catalog to OLM v1: catalogd keeps a ClusterCatalog of the same name, whose status leads to the
	// content of this catalog. catalogd must run with --cluster-catalogs.
	// +optional
	OLMv1 bool `json:"olmv1,omitempty"`

	// olmv0 offers the catalog to OLM v0. catalogd must run with --olm-v0.
	// +optional
	OLMv0 *OLMv0 `json:"olmv0,omitempty"`

	// prefetchBundles selects the bundle images that catalogd pulls before they are requested: "heads" are those at the
	// heads of channels; "none", the default, are none. catalogd must run with --bundle-content.
	// +optional
	PrefetchBundles PrefetchBundles `json:"prefetchBundles,omitempty"`
}

// IncludeRule selects a package, or a part of it.
// +kubebuilder:validation:XValidation:rule="!has(self.defaultChannel) || !has(self.channels) || self.defaultChannel in self.channels",message="defaultChannel is not in channels: add it there, or choose another one"
type IncludeRule struct {
	// package is the name of the package.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Package string `json:"package"`

	// channels are the channels to keep. Default: all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Channels []string `json:"channels,omitempty"`

	// defaultChannel is the default channel of the package. It is required if the rules leave out the catalog's default
	// channel and keep several others.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	DefaultChannel string `json:"defaultChannel,omitempty"`

	// minVersion is the lowest version of bundles to keep, such as 1.2.0. Bundles of lower versions are left out.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[1-9][0-9]*)[.](0|[1-9][0-9]*)[.](0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?([+][0-9A-Za-z.-]+)?$')",message="minVersion must be a semantic version, such as 1.2.0"
	MinVersion string `json:"minVersion,omitempty"`

	// maxVersion is the highest version of bundles to keep. Updates above it do not reach clusters until it is raised.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[1-9][0-9]*)[.](0|[1-9][0-9]*)[.](0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?([+][0-9A-Za-z.-]+)?$')",message="maxVersion must be a semantic version, such as 1.2.0"
	MaxVersion string `json:"maxVersion,omitempty"`

	// onlyHeads keeps only the heads of the channels: the newest bundle of each within minVersion and maxVersion.
	// +optional
	OnlyHeads bool `json:"onlyHeads,omitempty"`
}

// ExcludeRule removes a package, or channels of it.
// +kubebuilder:validation:XValidation:rule="!has(self.defaultChannel) || has(self.channels)",message="defaultChannel has no effect if the whole package is excluded: name channels, or remove it"
type ExcludeRule struct {
	// package is the name of the package.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Package string `json:"package"`

	// channels are the channels to leave out. Default: the whole package.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Channels []string `json:"channels,omitempty"`

	// defaultChannel is the new default channel of the package. It is required if the rule removes the catalog's default
	// channel and several others remain.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	DefaultChannel string `json:"defaultChannel,omitempty"`
}

// PrefetchBundles selects bundle images.
// +kubebuilder:validation:Enum=heads;none
type PrefetchBundles string

const (
	// PrefetchHeads selects the bundles at the heads of channels.
	PrefetchHeads PrefetchBundles = "heads"
	// PrefetchNone selects no bundles.
	PrefetchNone PrefetchBundles = "none"
)

// Icon is an image, as OLM v0 and file-based catalogs have it.
type Icon struct {
	// base64data is the image in base64.
	// +required
	// +kubebuilder:validation:MaxLength=262144
	Base64Data string `json:"base64data"`

	// mediatype is the type of the image, such as image/svg+xml.
	// +required
	// +kubebuilder:validation:MaxLength=128
	MediaType string `json:"mediatype"`
}

// OLMv0 selects where a catalog is offered to OLM v0.
type OLMv0 struct {
	// namespaces are those of OLM v0, such as olm. In each of them catalogd keeps a CatalogSource of OLM v0 with the name
	// of this catalog, and the Service that it needs.
	// +required
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespaces []string `json:"namespaces"`
}

// ExtractContent locates the content in an image.
type ExtractContent struct {
	// configDir is the directory of the file-based catalog in the image, such as /configs. It may be absolute or relative
	// to the image's root. Default: the value of the image's label operators.operatorframework.io.index.configs.v1.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.matches('(^|/)[.][.](/|$)')",message="configDir must not contain '..': name the directory by its path from the image's root"
	ConfigDir string `json:"configDir,omitempty"`

	// cacheDir is accepted for compatibility and has no effect: catalogd builds its own index.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	CacheDir string `json:"cacheDir,omitempty"`
}

// CatalogSourceStatus is the observed state of a catalog. A poll that finds the same digest does not change it.
type CatalogSourceStatus struct {
	// observedGeneration is the metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Serving, Progressing, PackagesSynced and, while they apply, TemplatesHaveResolved,
	// ClusterCatalogSynced and OLMv0Synced.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// image is the reference of the served content, with templates resolved. Before the first content is served, it is
	// the requested reference.
	// +optional
	Image string `json:"image,omitempty"`

	// digest is the served digest, such as sha256:ab12... While nothing is served, for example after the loss of a
	// volume, it is the digest that was served last.
	// +optional
	Digest string `json:"digest,omitempty"`

	// urls are the addresses of the served content. It is empty while nothing is served.
	// +optional
	URLs *CatalogSourceURLs `json:"urls,omitempty"`

	// content describes the served content. It is empty while nothing is served.
	// +optional
	Content *CatalogContent `json:"content,omitempty"`

	// olmv0 describes where the catalog is offered to OLM v0.
	// +optional
	OLMv0 *OLMv0Status `json:"olmv0,omitempty"`

	// prefetch describes the bundle images of spec.prefetchBundles in the cache of the replica that leads.
	// +optional
	Prefetch *PrefetchStatus `json:"prefetch,omitempty"`

	// poll describes polls that found a new digest or were requested. GET /catalogs of the content service has the times
	// of the last and the next poll.
	// +optional
	Poll *PollStatus `json:"poll,omitempty"`

	// progress describes work on new content. It is present only while that work lasts, from its second second on.
	// +optional
	Progress *CatalogProgress `json:"progress,omitempty"`
}

// PrefetchStatus describes bundle images that are pulled before they are requested.
type PrefetchStatus struct {
	// bundles is the number of images that are to be cached.
	Bundles int32 `json:"bundles"`

	// cached is the number of images in the cache.
	Cached int32 `json:"cached"`

	// failed is the number of images that could not be pulled. They are tried again after 10 minutes.
	Failed int32 `json:"failed"`

	// message is why nothing, or not all, can be cached.
	// +optional
	Message string `json:"message,omitempty"`
}

// ProgressPhase is a phase of the work on new content. Later versions may add phases.
type ProgressPhase string

// The phases in their order. A phase may be skipped; after a failure they start again.
const (
	ProgressResolving   ProgressPhase = "Resolving"   // resolves the image to a digest
	ProgressDownloading ProgressPhase = "Downloading" // pulls and unpacks the image
	ProgressIndexing    ProgressPhase = "Indexing"    // indexes, stores and validates the content
	ProgressPublishing  ProgressPhase = "Publishing"  // serves the content and publishes its packages
)

// CatalogProgress describes work on new content. It is written at most once a second.
type CatalogProgress struct {
	// phase is Resolving, Downloading, Indexing or Publishing. Clients must accept other values.
	// +required
	Phase ProgressPhase `json:"phase"`

	// bytes is the number of layer bytes pulled so far, compressed.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`

	// totalBytes is the number of layer bytes to pull; absent while unknown.
	// +optional
	TotalBytes int64 `json:"totalBytes,omitempty"`

	// packages is the number of published OperatorPackages, including unchanged ones.
	// +optional
	Packages int32 `json:"packages,omitempty"`

	// totalPackages is the number of OperatorPackages to publish; absent before publishing starts.
	// +optional
	TotalPackages int32 `json:"totalPackages,omitempty"`
}

// CatalogSourceURLs are the addresses of the content of a catalog.
type CatalogSourceURLs struct {
	// base is the root URL of the catalog's HTTP API without a trailing slash, such as
	// http://catalogd.example/catalogs/community. <base>/api/v1/all has the whole content.
	// +optional
	Base string `json:"base,omitempty"`
}

// CatalogContent describes the content of a catalog.
type CatalogContent struct {
	// packages is the number of published packages.
	Packages int32 `json:"packages"`

	// channels is the number of channels of all packages.
	Channels int32 `json:"channels"`

	// bundles is the number of bundles of all packages.
	Bundles int32 `json:"bundles"`

	// blobs is the number of blobs of every schema.
	Blobs int32 `json:"blobs"`

	// bytes is the size of the content as JSON lines, uncompressed.
	Bytes int64 `json:"bytes"`

	// source is the location of the pulled image, by digest: a mirror or the image's own registry.
	// +optional
	Source string `json:"source,omitempty"`

	// unpackedAt is the time of unpacking.
	// +optional
	UnpackedAt *metav1.Time `json:"unpackedAt,omitempty"`

	// subset describes what spec.include and spec.exclude leave out. It is empty without them.
	// +optional
	Subset *CatalogSubset `json:"subset,omitempty"`

	// invalidPackages are the packages that failed validation or cannot be shown: the first 20, sorted by name.
	// They have no OperatorPackage; catalogd still serves their raw content.
	// +optional
	// +listType=atomic
	InvalidPackages []InvalidPackage `json:"invalidPackages,omitempty"`

	// invalidPackageCount is the number of invalid packages.
	// +optional
	InvalidPackageCount int32 `json:"invalidPackageCount,omitempty"`
}

// CatalogSubset describes what spec.include and spec.exclude leave out of a catalog.
type CatalogSubset struct {
	// leftOut counts the packages, channels, bundles and blobs of the catalog that are not served.
	LeftOut ContentCounts `json:"leftOut"`

	// notFound are the parts of spec.include and spec.exclude that match nothing in the catalog, the first 20: packages,
	// channels, and versions.
	// +optional
	// +listType=atomic
	NotFound []string `json:"notFound,omitempty"`

	// notFoundCount is the number of parts that match nothing.
	// +optional
	NotFoundCount int32 `json:"notFoundCount,omitempty"`
}

// ContentCounts are numbers of blobs.
type ContentCounts struct {
	// packages is the number of packages.
	Packages int32 `json:"packages"`

	// channels is the number of channels.
	Channels int32 `json:"channels"`

	// bundles is the number of bundles.
	Bundles int32 `json:"bundles"`

	// blobs is the number of blobs of every schema.
	Blobs int32 `json:"blobs"`
}

// InvalidPackage names a package that failed validation or cannot be shown.
type InvalidPackage struct {
	// name is the name of the package.
	Name string `json:"name"`

	// reason is the cause.
	Reason string `json:"reason"`
}

// OLMv0Status describes where a catalog is offered to OLM v0.
type OLMv0Status struct {
	// namespaces are those where catalogd keeps objects for OLM v0, or tries to.
	// +optional
	// +listType=set
	Namespaces []string `json:"namespaces,omitempty"`
}

// PollStatus describes polls that found a new digest or were requested.
type PollStatus struct {
	// lastChangeTime is the time of the last change of the served digest.
	// +optional
	LastChangeTime *metav1.Time `json:"lastChangeTime,omitempty"`

	// requested is the last handled value of the annotation catalogd.operatorframework.io/poll-requested.
	// +optional
	Requested string `json:"requested,omitempty"`
}

// CatalogSource names a catalog image. catalogd keeps its content up to date, serves it over HTTP and publishes an
// OperatorPackage for each package.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=catd,categories=catalogd
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.status.image`
// +kubebuilder:printcolumn:name="Packages",type=integer,JSONPath=`.status.content.packages`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Last Change",type=date,JSONPath=`.status.poll.lastChangeTime`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a DNS-1123 label, as it is part of URLs and of OperatorPackage names: use at most 63 lower-case letters, digits and '-', no dots, beginning and ending with a letter or digit"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.olmv0) || self.metadata.name.matches('^[a-z]')",message="metadata.name must begin with a letter, as spec.olmv0 needs a Service of that name: create the catalog under another name, or remove spec.olmv0"
type CatalogSource struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata. The name must be a DNS-1123 label: at most 63 characters and no dots.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec CatalogSourceSpec `json:"spec"`

	// status is the observed state.
	// +optional
	Status CatalogSourceStatus `json:"status,omitempty"`
}

// CatalogSourceList is a list of CatalogSources.
// +kubebuilder:object:root=true
type CatalogSourceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CatalogSource `json:"items"`
}
