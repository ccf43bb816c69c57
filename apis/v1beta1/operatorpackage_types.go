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

	// priority is the priority of that CatalogSource. Among catalogs that offer the same package, the highest wins.
	// +optional
	// +default=0
	Priority int32 `json:"priority"`
}

// OperatorPackageStatus has the shape of the status of a PackageManifest (packages.operators.coreos.com/v1). Objects
// such as provider are present even when empty, as in a PackageManifest. summary and urls are additions. Icon bytes and
// the annotation alm-examples are left out. No field is validated, because real catalogs break every rule.
type OperatorPackageStatus struct {
	// summary has the columns of `kubectl get`.
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

	// catalogSourceNamespace is the namespace of catalogd, because a CatalogSource has none.
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

	// defaultChannel is the default channel of the package. If channels does not have it, it is the first of them.
	// +optional
	DefaultChannel string `json:"defaultChannel"`

	// urls are the addresses of content that is too large for this object.
	// +optional
	URLs PackageURLs `json:"urls,omitzero"`
}

// PackageSummary has the columns of `kubectl get`.
type PackageSummary struct {
	// displayName is the display name of the head of the default channel; if it has none, the name of the package.
	// +optional
	DisplayName string `json:"displayName,omitempty"`

	// catalog is the display name of the CatalogSource; if it has none, its name.
	// +optional
	Catalog string `json:"catalog,omitempty"`

	// channel is the default channel.
	// +optional
	Channel string `json:"channel,omitempty"`

	// version is the version of the head of the default channel.
	// +optional
	Version string `json:"version,omitempty"`
}

// PackageURLs are addresses of the content service.
type PackageURLs struct {
	// package is the URL of all blobs of the package, as JSON lines.
	// +optional
	Package string `json:"package,omitempty"`

	// icon is the URL of the icon. It is empty if the package has none.
	// +optional
	Icon string `json:"icon,omitempty"`
}

// PackageChannel is a channel of a package.
type PackageChannel struct {
	// name is the name of the channel, such as stable.
	// +optional
	Name string `json:"name"`

	// currentCSV is the name of the head: the bundle that no other bundle of the channel replaces or skips.
	// +optional
	CurrentCSV string `json:"currentCSV"`

	// currentCSVDesc describes the head of the channel.
	// +optional
	CurrentCSVDesc CSVDescription `json:"currentCSVDesc"`

	// deprecation is present if the channel is deprecated.
	// +optional
	Deprecation *Deprecation `json:"deprecation,omitempty"`

	// entries are the bundles of the channel, highest version first, without bundles with the property olm.deprecated.
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

// Deprecation marks a package, a channel or a bundle as deprecated.
type Deprecation struct {
	// message gives the reason and the replacement.
	// +optional
	Message string `json:"message"`
}

// CSVDescription is the extract of a ClusterServiceVersion that lists of operators show.
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

	// keywords are search terms.
	// +optional
	// +listType=atomic
	Keywords []string `json:"keywords,omitempty"`

	// links are web pages about the operator.
	// +optional
	// +listType=atomic
	Links []AppLink `json:"links,omitempty"`

	// maintainers are the people and groups that maintain the operator.
	// +optional
	// +listType=atomic
	Maintainers []Maintainer `json:"maintainers,omitempty"`

	// maturity is the maturity of the operator, such as stable.
	// +optional
	Maturity string `json:"maturity,omitempty"`

	// description is the long description of the operator, usually Markdown.
	// +optional
	LongDescription string `json:"description,omitempty"`

	// minKubeVersion is the lowest supported version of Kubernetes.
	// +optional
	MinKubeVersion string `json:"minKubeVersion,omitempty"`

	// relatedImages are the images that the operator uses, sorted.
	// +optional
	// +listType=atomic
	RelatedImages []string `json:"relatedImages,omitempty"`

	// installModes are the sets of namespaces that the operator can watch.
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

// InstallMode reports whether the operator can watch a set of namespaces.
type InstallMode struct {
	// type is OwnNamespace, SingleNamespace, MultiNamespace or AllNamespaces.
	// +optional
	Type string `json:"type"`

	// supported reports whether the operator can watch such a set.
	// +optional
	Supported bool `json:"supported"`
}

// CustomResourceDefinitions are the custom resources of an operator.
type CustomResourceDefinitions struct {
	// owned are the custom resources that the operator provides.
	// +optional
	// +listType=atomic
	Owned []CRDDescription `json:"owned,omitempty"`

	// required are the custom resources that the operator needs.
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

	// displayName is the name for people.
	// +optional
	DisplayName string `json:"displayName,omitempty"`

	// description is the purpose of the custom resource.
	// +optional
	Description string `json:"description,omitempty"`
}

// APIServiceDefinitions are the aggregated APIs of an operator.
type APIServiceDefinitions struct {
	// owned are the APIs that the operator provides.
	// +optional
	// +listType=atomic
	Owned []APIServiceDescription `json:"owned,omitempty"`

	// required are the APIs that the operator needs.
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

	// displayName is the name for people.
	// +optional
	DisplayName string `json:"displayName,omitempty"`

	// description is the purpose of the API.
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

// OperatorPackage is an extract of a package for lists. catalogd publishes it and keeps it up to date. Its name is
// <package>.<catalog>, separated by the last dot. Its CatalogSource owns it. It has no status subresource.
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
