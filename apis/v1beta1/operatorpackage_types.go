package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// OperatorPackageSpec identifies a package. Its fields are selectable, as in
// `kubectl get operatorpackages --field-selector spec.catalog=community`.
type OperatorPackageSpec struct {
	// packageName is the exact name of the package in the catalog.
	// +required
	PackageName string `json:"packageName"`

	// catalog is the name of the CatalogSource that holds the package.
	// +required
	Catalog string `json:"catalog"`

	// priority is the priority of that CatalogSource: where several catalogs offer the same package, the highest wins.
	// +optional
	// +default=0
	Priority int32 `json:"priority"`
}

// OperatorPackageStatus has the shape of the status of a PackageManifest (packages.operators.coreos.com/v1), so that
// a client that lists OperatorPackages instead finds every field it reads; objects such as provider are present even
// when empty, as they are there. The additions are summary and urls. Left out are icon bytes and the annotation
// alm-examples, which no list page reads. Nothing is validated: catalogs in use break every rule one would make.
type OperatorPackageStatus struct {
	// summary holds what `kubectl get` prints. The columns cannot read it from channels, since a JSON path cannot
	// look up the channel that defaultChannel names.
	// +optional
	Summary PackageSummary `json:"summary,omitzero"`

	// catalogSource is the name of the CatalogSource.
	// +optional
	CatalogSource string `json:"catalogSource"`

	// catalogSourceDisplayName is the spec.displayName of the CatalogSource.
	// +optional
	CatalogSourceDisplayName string `json:"catalogSourceDisplayName"`

	// catalogSourcePublisher is the spec.publisher of the CatalogSource.
	// +optional
	CatalogSourcePublisher string `json:"catalogSourcePublisher"`

	// catalogSourceNamespace is the namespace in which catalogd runs, as a CatalogSource has none.
	// +optional
	CatalogSourceNamespace string `json:"catalogSourceNamespace"`

	// provider is the provider of the head of the default channel.
	// +optional
	Provider AppLink `json:"provider"`

	// packageName is the exact name of the package.
	// +optional
	PackageName string `json:"packageName"`

	// deprecation is present if the whole package is deprecated.
	// +optional
	Deprecation *Deprecation `json:"deprecation,omitempty"`

	// channels are the channels of the package, sorted by name.
	// +optional
	// +listType=atomic
	Channels []PackageChannel `json:"channels,omitzero"`

	// defaultChannel is the channel that is installed from if no other is named. If the channel that the catalog names
	// is not among channels, it is the first of them.
	// +optional
	DefaultChannel string `json:"defaultChannel"`

	// urls lead to what is too large to be listed.
	// +optional
	URLs PackageURLs `json:"urls,omitzero"`
}

// PackageSummary is a package in one line.
type PackageSummary struct {
	// displayName is the display name of the head of the default channel, or else the name of the package.
	// +optional
	DisplayName string `json:"displayName,omitempty"`

	// catalog is the display name of the CatalogSource, or else its name.
	// +optional
	Catalog string `json:"catalog,omitempty"`

	// channel is the default channel.
	// +optional
	Channel string `json:"channel,omitempty"`

	// version is the version of the head of the default channel.
	// +optional
	Version string `json:"version,omitempty"`
}

// PackageURLs lead to what catalogd serves about a package over HTTP.
type PackageURLs struct {
	// package answers with all blobs of the package as JSON lines.
	// +optional
	Package string `json:"package,omitempty"`

	// icon answers with the icon of the package. It is empty if the package has none.
	// +optional
	Icon string `json:"icon,omitempty"`
}

// PackageChannel is a channel of a package.
type PackageChannel struct {
	// name is the name of the channel, such as stable.
	// +optional
	Name string `json:"name"`

	// currentCSV is the name of the head of the channel: the bundle that no other bundle replaces or skips.
	// +optional
	CurrentCSV string `json:"currentCSV"`

	// currentCSVDesc describes the head of the channel.
	// +optional
	CurrentCSVDesc CSVDescription `json:"currentCSVDesc"`

	// deprecation is present if the channel is deprecated.
	// +optional
	Deprecation *Deprecation `json:"deprecation,omitempty"`

	// entries are the bundles of the channel, the highest version first, without those that have the property
	// olm.deprecated.
	// +optional
	// +listType=atomic
	Entries []ChannelEntry `json:"entries,omitzero"`
}

// ChannelEntry is a bundle in a channel.
type ChannelEntry struct {
	// name is the name of the bundle.
	// +optional
	Name string `json:"name"`

	// version is the version of the bundle.
	// +optional
	Version string `json:"version,omitempty"`

	// deprecation is present if the bundle is deprecated.
	// +optional
	Deprecation *Deprecation `json:"deprecation,omitempty"`
}

// Deprecation tells that a package, a channel or a bundle is deprecated.
type Deprecation struct {
	// message says why, and what to use instead.
	// +optional
	Message string `json:"message"`
}

// CSVDescription is what lists of operators show of a ClusterServiceVersion.
type CSVDescription struct {
	// displayName is the display name of the operator.
	// +optional
	DisplayName string `json:"displayName,omitempty"`

	// version is the version of the bundle.
	// +optional
	Version string `json:"version,omitempty"`

	// provider is the provider of the operator.
	// +optional
	Provider AppLink `json:"provider"`

	// annotations are those of the ClusterServiceVersion, without alm-examples.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// keywords help to find the operator.
	// +optional
	// +listType=atomic
	Keywords []string `json:"keywords,omitempty"`

	// links lead to more about the operator.
	// +optional
	// +listType=atomic
	Links []AppLink `json:"links,omitempty"`

	// maintainers maintain the operator.
	// +optional
	// +listType=atomic
	Maintainers []Maintainer `json:"maintainers,omitempty"`

	// maturity is the maturity of the operator, such as stable.
	// +optional
	Maturity string `json:"maturity,omitempty"`

	// description is the long description of the operator, usually Markdown.
	// +optional
	LongDescription string `json:"description,omitempty"`

	// minKubeVersion is the lowest version of Kubernetes that the operator needs.
	// +optional
	MinKubeVersion string `json:"minKubeVersion,omitempty"`

	// relatedImages are the images that the operator uses, sorted.
	// +optional
	// +listType=atomic
	RelatedImages []string `json:"relatedImages,omitempty"`

	// installModes say which sets of namespaces the operator can watch.
	// +optional
	// +listType=atomic
	InstallModes []InstallMode `json:"installModes,omitempty"`

	// customresourcedefinitions are the custom resources that the operator owns and requires.
	// +optional
	CustomResourceDefinitions CustomResourceDefinitions `json:"customresourcedefinitions"`

	// apiservicedefinitions are the aggregated APIs that the operator owns and requires.
	// +optional
	APIServiceDefinitions APIServiceDefinitions `json:"apiservicedefinitions"`

	// nativeApis are the APIs of Kubernetes that the operator requires.
	// +optional
	// +listType=atomic
	NativeAPIs []GroupVersionKind `json:"nativeApis,omitempty"`
}

// AppLink is a name with a URL.
type AppLink struct {
	// name is the text of the link.
	// +optional
	Name string `json:"name,omitempty"`

	// url is the target of the link.
	// +optional
	URL string `json:"url,omitempty"`
}

// Maintainer is a person or a group that maintains an operator.
type Maintainer struct {
	// name is the name of the maintainer.
	// +optional
	Name string `json:"name,omitempty"`

	// email is the address of the maintainer.
	// +optional
	Email string `json:"email,omitempty"`
}

// InstallMode says whether a set of namespaces can be watched.
type InstallMode struct {
	// type is OwnNamespace, SingleNamespace, MultiNamespace or AllNamespaces.
	// +optional
	Type string `json:"type"`

	// supported says whether the operator can watch such a set.
	// +optional
	Supported bool `json:"supported"`
}

// CustomResourceDefinitions are the custom resources of an operator.
type CustomResourceDefinitions struct {
	// owned are the custom resources that the operator brings.
	// +optional
	// +listType=atomic
	Owned []CRDDescription `json:"owned,omitempty"`

	// required are the custom resources that somebody else must bring.
	// +optional
	// +listType=atomic
	Required []CRDDescription `json:"required,omitempty"`
}

// CRDDescription describes a custom resource.
type CRDDescription struct {
	// name is the name of the CustomResourceDefinition, such as etcdclusters.etcd.database.coreos.com.
	// +optional
	Name string `json:"name"`

	// version is the version of the custom resource.
	// +optional
	Version string `json:"version"`

	// kind is the kind of the custom resource.
	// +optional
	Kind string `json:"kind"`

	// displayName is the name that is shown to people.
	// +optional
	DisplayName string `json:"displayName,omitempty"`

	// description says what the custom resource is for.
	// +optional
	Description string `json:"description,omitempty"`
}

// APIServiceDefinitions are the aggregated APIs of an operator.
type APIServiceDefinitions struct {
	// owned are the APIs that the operator brings.
	// +optional
	// +listType=atomic
	Owned []APIServiceDescription `json:"owned,omitempty"`

	// required are the APIs that somebody else must bring.
	// +optional
	// +listType=atomic
	Required []APIServiceDescription `json:"required,omitempty"`
}

// APIServiceDescription describes an aggregated API.
type APIServiceDescription struct {
	// name is the plural name of the resource.
	// +optional
	Name string `json:"name"`

	// group is the group of the API.
	// +optional
	Group string `json:"group"`

	// version is the version of the API.
	// +optional
	Version string `json:"version"`

	// kind is the kind of the resource.
	// +optional
	Kind string `json:"kind"`

	// displayName is the name that is shown to people.
	// +optional
	DisplayName string `json:"displayName,omitempty"`

	// description says what the API is for.
	// +optional
	Description string `json:"description,omitempty"`
}

// GroupVersionKind names a kind of an API.
type GroupVersionKind struct {
	// group is the API group; empty for the core group.
	// +optional
	Group string `json:"group"`

	// version is the version of the API.
	// +optional
	Version string `json:"version"`

	// kind is the kind.
	// +optional
	Kind string `json:"kind"`
}

// OperatorPackage is a package of a catalog: a light extract for lists, made and kept current by catalogd. Its name
// is <package>.<catalog>, where the last dot separates. It belongs to its CatalogSource and goes with it. There is
// no status subresource, so that one write makes the whole object.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=opkg,categories=catalogd
// +kubebuilder:selectablefield:JSONPath=`.spec.packageName`
// +kubebuilder:selectablefield:JSONPath=`.spec.catalog`
// +kubebuilder:selectablefield:JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Display Name",type=string,JSONPath=`.status.summary.displayName`
// +kubebuilder:printcolumn:name="Catalog",type=string,JSONPath=`.status.summary.catalog`
// +kubebuilder:printcolumn:name="Channel",type=string,JSONPath=`.status.summary.channel`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.summary.version`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type OperatorPackage struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec identifies the package.
	// +required
	Spec OperatorPackageSpec `json:"spec"`

	// status describes the package as the status of a PackageManifest does.
	// +optional
	Status OperatorPackageStatus `json:"status,omitzero"`
}

// OperatorPackageList is a list of OperatorPackages.
// +kubebuilder:object:root=true
type OperatorPackageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []OperatorPackage `json:"items"`
}
