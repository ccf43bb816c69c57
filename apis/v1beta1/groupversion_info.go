// Package v1beta1 provides the API of catalogd: the kinds CatalogSource and OperatorPackage of the group
// catalogd.operatorframework.io.
//
// +kubebuilder:object:generate=true
// +groupName=catalogd.operatorframework.io
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of both kinds.
const GroupName = "catalogd.operatorframework.io"

// Names that catalogd reads or writes in object metadata.
const (
	// CleanupFinalizer stays on a CatalogSource until catalogd has deleted its content and its files.
	CleanupFinalizer = GroupName + "/cleanup"

	// PollRequestedAnnotation on a CatalogSource or ClusterCatalog requests a poll. Each value other than
	// status.poll.requested, or that of PollHandledAnnotation, is a request; catalogd copies the handled value there.
	PollRequestedAnnotation = GroupName + "/poll-requested"

	// ImageTemplateAnnotation on a CatalogSource is the fallback for spec.imageTemplate, as in OLM v0.
	ImageTemplateAnnotation = "olm.catalogImageTemplate"

	// ContentHashAnnotation on an OperatorPackage is the hash of the content that catalogd last wrote. Publishing the
	// same hash again is a no-op.
	ContentHashAnnotation = GroupName + "/content-hash"

	// ContentGenerationAnnotation on an OperatorPackage is its metadata.generation after catalogd's last write. If the two
	// differ, another client changed the object and catalogd writes it again.
	ContentGenerationAnnotation = GroupName + "/content-generation"

	// CatalogLabel on an OperatorPackage is the name of its CatalogSource. A PackageManifest has the same key.
	CatalogLabel = "catalog"

	// CatalogKindLabel on an OperatorPackage is the kind of the catalog's object: CatalogSource or ClusterCatalog.
	CatalogKindLabel = GroupName + "/catalog-kind"

	// SuspendAnnotation on a ClusterCatalog stops polling if it is "true". A CatalogSource has spec.suspend.
	SuspendAnnotation = GroupName + "/suspend"

	// PollHandledAnnotation on a ClusterCatalog is the last value of PollRequestedAnnotation that catalogd handled. A
	// CatalogSource has status.poll.requested.
	PollHandledAnnotation = GroupName + "/poll-handled"

	// FieldManager is catalogd's name in the managed fields of the objects that it writes.
	FieldManager = GroupName + "/catalogd"

	// ClaimedByAnnotation on a ClusterCatalog is the namespace of the catalogd that maintains it.
	ClaimedByAnnotation = GroupName + "/claimed-by"

	// ProviderLabel on an OperatorPackage is the name of its provider, if that is a legal label value. The exact name is
	// in status.provider.name.
	ProviderLabel = "provider"
)

// GroupVersion is the group and version of both kinds.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1beta1"}

// SchemeBuilder collects the functions that AddToScheme runs.
var SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme registers both kinds and their lists.
var AddToScheme = SchemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&CatalogSource{}, &CatalogSourceList{},
		&OperatorPackage{}, &OperatorPackageList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
