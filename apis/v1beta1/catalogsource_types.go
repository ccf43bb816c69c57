package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Availability says whether a catalog is offered to clients.
// +kubebuilder:validation:Enum=Available;Unavailable
type Availability string

const (
	// AvailabilityAvailable serves the content and publishes its packages.
	AvailabilityAvailable Availability = "Available"
	// AvailabilityUnavailable serves nothing and publishes no packages.
	AvailabilityUnavailable Availability = "Unavailable"
)

// CatalogSourceSpec is what a cluster admin wants: the image of a catalog, how to follow it, how to show it.
// +kubebuilder:validation:XValidation:rule="!(has(self.pollingInterval) && has(self.pollingSchedule))",message="pollingInterval and pollingSchedule exclude each other: remove one of them"
// +kubebuilder:validation:XValidation:rule="has(self.image) || has(self.imageTemplate)",message="neither image nor imageTemplate is set: name a catalog image, such as quay.io/operatorhubio/catalog:latest"
// +kubebuilder:validation:XValidation:rule="!has(self.image) || has(self.imageTemplate) || !self.image.contains('@sha256:') || !has(self.pollingInterval)",message="a digest reference is never polled: remove spec.pollingInterval or name the image by tag"
// +kubebuilder:validation:XValidation:rule="!has(self.image) || has(self.imageTemplate) || !self.image.contains('@sha256:') || !has(self.pollingSchedule)",message="a digest reference is never polled: remove spec.pollingSchedule or name the image by tag"
type CatalogSourceSpec struct {
	// image names the catalog (index) image by tag or by digest, such as quay.io/operatorhubio/catalog:latest.
	// A tag is polled, by default every 15 minutes (catalogd's --default-polling-interval); a digest is never polled.
	// +optional
	// +kubebuilder:validation:MaxLength=1000
	// +kubebuilder:validation:XValidation:rule="self != ''",message="image must not be empty: name a catalog image, such as quay.io/operatorhubio/catalog:latest"
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:space:]]')",message="image must not contain white space: remove it"
	// +kubebuilder:validation:XValidation:rule="!self.contains('://')",message="image must not begin with a scheme: write registry/repository:tag without https:// or docker://"
	Image string `json:"image,omitempty"`

	// imageTemplate is an image with variables of the cluster's version: {kube_major_version}, {kube_minor_version} and
	// {kube_patch_version}, such as quay.io/example/catalog:v{kube_major_version}.{kube_minor_version}. When the cluster is
	// upgraded, the catalog follows within 10 minutes. It wins over image. The annotation olm.catalogImageTemplate is read
	// likewise where imageTemplate is not set.
	// +optional
	// +kubebuilder:validation:MaxLength=1000
	// +kubebuilder:validation:XValidation:rule="self != ''",message="imageTemplate must not be empty: name a catalog image with variables, or remove it"
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:space:]]')",message="imageTemplate must not contain white space: remove it"
	// +kubebuilder:validation:XValidation:rule="!self.contains('://')",message="imageTemplate must not begin with a scheme: write registry/repository:tag without https:// or docker://"
	ImageTemplate string `json:"imageTemplate,omitempty"`

	// pollingInterval is the time between two polls of the image's digest, such as 45m or 1h30m; at least 1s.
	// It excludes pollingSchedule.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?(ns|us|ms|s|m|h))+$')",message="pollingInterval must be a duration, such as 30s, 45m or 1h30m"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,6}([.][0-9]{1,9})?(ns|us|ms|s|m|h))+$') || duration(self) >= duration('1s')",message="pollingInterval must be at least 1s: choose a longer one"
	PollingInterval *metav1.Duration `json:"pollingInterval,omitempty"`

	// pollingSchedule says when to poll the image's digest, in cron's form of five fields (minute, hour, day of month,
	// month, day of week), such as "0 3 * * *", or as a word such as @daily. Times are in UTC, unless CRON_TZ=<zone>
	// precedes them, as in "CRON_TZ=Europe/Prague 0 3 * * *". It excludes pollingInterval.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^(CRON_TZ=[^[:space:]]+ +)?(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|@every [0-9][^[:space:]]*|[^@=[:space:]]+( +[^@=[:space:]]+){4})$')",message="pollingSchedule must have five cron fields (minute, hour, day of month, month, day of week) or be a word such as @daily; CRON_TZ=<zone> may precede it"
	PollingSchedule string `json:"pollingSchedule,omitempty"`

	// priority ranks this catalog where several offer the same package; the higher wins. It is copied to the
	// OperatorPackages of the catalog.
	// +optional
	// +default=0
	Priority int32 `json:"priority,omitempty"`

	// displayName is the name of the catalog that is shown to people.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	DisplayName string `json:"displayName,omitempty"`

	// publisher is the person or organisation that publishes the catalog, shown to people.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Publisher string `json:"publisher,omitempty"`

	// description tells people what the catalog is for.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Description string `json:"description,omitempty"`

	// extractContent says where in the image the content lies. It is only needed for an image that does not say so itself.
	// +optional
	ExtractContent *ExtractContent `json:"extractContent,omitempty"`

	// registry says how the image's registry is reached: credentials, trust, proxy, mirrors.
	// +optional
	Registry *RegistryAccess `json:"registry,omitempty"`

	// availability decides whether the catalog is offered. Unavailable stops serving it and removes its
	// OperatorPackages; the object and its settings stay.
	// +optional
	// +default="Available"
	Availability Availability `json:"availability,omitempty"`

	// suspend stops polling. What is served stays served, and a digest that was found before is still unpacked where it
	// is missing.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// ExtractContent says where in an image the content lies.
type ExtractContent struct {
	// configDir is the directory of the file-based catalog in the image, such as /configs. It may be absolute or relative
	// to the image's root. Default: the value of the image's label operators.operatorframework.io.index.configs.v1.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.matches('(^|/)[.][.](/|$)')",message="configDir must not contain '..': name the directory by its path from the image's root"
	ConfigDir string `json:"configDir,omitempty"`

	// cacheDir is accepted for compatibility and has no effect: catalogd builds an index of its own and reads no cache
	// from the image.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	CacheDir string `json:"cacheDir,omitempty"`
}

// CatalogSourceStatus is what catalogd found and did. An unchanged poll changes nothing in it.
type CatalogSourceStatus struct {
	// observedGeneration is the metadata.generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Serving, Progressing and PackagesSynced, and TemplatesHaveResolved where a template is used.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// image is the reference whose content is served; while nothing has been, the one that is wanted. Where a template is
	// used, it is what that gave.
	// +optional
	Image string `json:"image,omitempty"`

	// digest is the digest of the image whose content is served, such as sha256:ab12... While nothing is served, for
	// example after the loss of a volume, it is the one that was served last.
	// +optional
	Digest string `json:"digest,omitempty"`

	// urls says where the content is served. It is empty while nothing is served.
	// +optional
	URLs *CatalogSourceURLs `json:"urls,omitempty"`

	// content describes the content that is served. It is empty while nothing is served.
	// +optional
	Content *CatalogContent `json:"content,omitempty"`

	// poll tells of polls that changed something or were asked for. When each catalog was last polled and is next due
	// stands in GET /catalogs of the content service, not here.
	// +optional
	Poll *PollStatus `json:"poll,omitempty"`

	// progress says how far catalogd is with new content. It is there only while catalogd is at work on that, and not in the first
	// second of it.
	// +optional
	Progress *CatalogProgress `json:"progress,omitempty"`
}

// ProgressPhase is what is being done about new content. More may come.
type ProgressPhase string

// The phases, in their order. Each may be left out, and after a failure they begin again.
const (
	ProgressResolving   ProgressPhase = "Resolving"   // the registry is asked which digest the image has
	ProgressDownloading ProgressPhase = "Downloading" // the image is fetched and unpacked
	ProgressIndexing    ProgressPhase = "Indexing"    // its content is indexed, stored and examined
	ProgressPublishing  ProgressPhase = "Publishing"  // it is served; its packages are published
)

// CatalogProgress says how far catalogd is with new content. It is written once a second at most.
type CatalogProgress struct {
	// phase is what is being done: Resolving, Downloading, Indexing, Publishing. Take others for something new.
	// +required
	Phase ProgressPhase `json:"phase"`

	// bytes is how much of the image's layers was fetched, as they come, compressed.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`

	// totalBytes is how much there is to fetch; absent while that is not known.
	// +optional
	TotalBytes int64 `json:"totalBytes,omitempty"`

	// packages is how many packages are published, each as an OperatorPackage, those that did not change included.
	// +optional
	Packages int32 `json:"packages,omitempty"`

	// totalPackages is how many are to be; absent before they are published.
	// +optional
	TotalPackages int32 `json:"totalPackages,omitempty"`
}

// CatalogSourceURLs says where the content of a catalog is served.
type CatalogSourceURLs struct {
	// base is the root of the catalog's HTTP API without a trailing slash, such as
	// http://catalogd.example/catalogs/community; the whole content is at <base>/api/v1/all.
	// +optional
	Base string `json:"base,omitempty"`
}

// CatalogContent describes the content of a catalog.
type CatalogContent struct {
	// packages is the number of packages that are published, each as an OperatorPackage.
	Packages int32 `json:"packages"`

	// channels is the number of channels of all packages.
	Channels int32 `json:"channels"`

	// bundles is the number of bundles of all packages.
	Bundles int32 `json:"bundles"`

	// blobs is the number of blobs of every schema.
	Blobs int32 `json:"blobs"`

	// bytes is the size of the content as JSON lines, uncompressed.
	Bytes int64 `json:"bytes"`

	// source is where the content was found, by digest: at a mirror, or at the image's own registry.
	// +optional
	Source string `json:"source,omitempty"`

	// unpackedAt is the time at which the content was unpacked.
	// +optional
	UnpackedAt *metav1.Time `json:"unpackedAt,omitempty"`

	// invalidPackages are the packages that failed validation or cannot be shown, sorted by name, at most the first 20.
	// They have no OperatorPackage; their raw content is served all the same.
	// +optional
	// +listType=atomic
	InvalidPackages []InvalidPackage `json:"invalidPackages,omitempty"`

	// invalidPackageCount is the number of all invalid packages.
	// +optional
	InvalidPackageCount int32 `json:"invalidPackageCount,omitempty"`
}

// InvalidPackage names a package that failed validation or cannot be shown.
type InvalidPackage struct {
	// name is the name of the package.
	Name string `json:"name"`

	// reason says what is wrong with it.
	Reason string `json:"reason"`
}

// PollStatus tells of polls that changed something or were asked for.
type PollStatus struct {
	// lastChangeTime is the time at which a new digest was last taken over.
	// +optional
	LastChangeTime *metav1.Time `json:"lastChangeTime,omitempty"`

	// requested is the value of the annotation catalogd.operatorframework.io/poll-requested that was last handled.
	// +optional
	Requested string `json:"requested,omitempty"`
}

// CatalogSource names a catalog image. catalogd keeps its content unpacked and current, serves it over HTTP and
// publishes one OperatorPackage for each package in it.
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
type CatalogSource struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata. The name must be a DNS-1123 label: at most 63 characters and no dots.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	// +required
	Spec CatalogSourceSpec `json:"spec"`

	// status is what catalogd found and did.
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
