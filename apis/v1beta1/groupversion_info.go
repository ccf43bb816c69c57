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
	// CleanupFinalizer is held on a CatalogSource until its content and its files are gone.
	CleanupFinalizer = GroupName + "/cleanup"

	// PollRequestedAnnotation on a CatalogSource asks for a poll now. Any value that differs from
	// status.poll.requested is a request; the handled value is echoed there.
	PollRequestedAnnotation = GroupName + "/poll-requested"

	// ImageTemplateAnnotation on a CatalogSource is read as spec.imageTemplate is, where that is not set. The name is that
	// of OLM v0.
	ImageTemplateAnnotation = "olm.catalogImageTemplate"

	// ContentHashAnnotation on an OperatorPackage names the content that catalogd last wrote. An object whose
	// hash equals that of the desired content is not written.
	ContentHashAnnotation = GroupName + "/content-hash"

	// ContentGenerationAnnotation on an OperatorPackage is the metadata.generation that it had when catalogd last wrote
	// it. Where the two differ, somebody else changed it, and it is written again.
	ContentGenerationAnnotation = GroupName + "/content-generation"

	// CatalogLabel on an OperatorPackage holds the name of its CatalogSource. The key has no prefix, as on a PackageManifest.
	CatalogLabel = "catalog"

	// ProviderLabel on an OperatorPackage holds the name of its provider where that is a legal label value; the
	// exact name is in status.provider.name.
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
