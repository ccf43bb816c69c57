// Package olmv1 has the kind ClusterCatalog of OLM v1, group olm.operatorframework.io, as far as catalogd uses it. The CRD in
// config/crd/olmv1 is the one of operator-controller; TestSchema compares the two.
//
// operator-controller's own package cannot be imported: its module replaces the versions of k8s.io modules and requires
// others than catalogd.
//
// +kubebuilder:object:generate=true
// +groupName=olm.operatorframework.io
package olmv1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of OLM v1.
const GroupName = "olm.operatorframework.io"

// Names in the metadata of a ClusterCatalog.
const (
	// DeletionFinalizer stays on a ClusterCatalog until its content is deleted.
	DeletionFinalizer = GroupName + "/delete-server-cache"

	// MetadataNameLabel is the name of a ClusterCatalog as a label, for the selectors of ClusterExtensions.
	MetadataNameLabel = GroupName + "/metadata.name"
)

// The types and reasons of a ClusterCatalog's conditions.
const (
	ServingCondition     = "Serving"
	ProgressingCondition = "Progressing"

	AvailableReason                = "Available"                // of Serving
	UnavailableReason              = "Unavailable"              // of Serving
	UserSpecifiedUnavailableReason = "UserSpecifiedUnavailable" // of Serving
	SucceededReason                = "Succeeded"                // of Progressing
	RetryingReason                 = "Retrying"                 // of Progressing
	BlockedReason                  = "Blocked"                  // of Progressing
)

// GroupVersion is the API version of ClusterCatalog.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1"}

// AddToScheme adds ClusterCatalog to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &ClusterCatalog{}, &ClusterCatalogList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// ClusterCatalog is a catalog of OLM v1.
//
// +kubebuilder:object:root=true
type ClusterCatalog struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              ClusterCatalogSpec   `json:"spec"`
	Status            ClusterCatalogStatus `json:"status,omitempty"`
}

// ClusterCatalogList is a list of ClusterCatalogs.
//
// +kubebuilder:object:root=true
type ClusterCatalogList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []ClusterCatalog `json:"items"`
}

// ClusterCatalogSpec is the desired state of a ClusterCatalog.
type ClusterCatalogSpec struct {
	Source           CatalogSource    `json:"source"`
	Priority         int32            `json:"priority"`
	AvailabilityMode AvailabilityMode `json:"availabilityMode,omitempty"`
}

// AvailabilityMode is whether a ClusterCatalog is served.
type AvailabilityMode string

// The availability modes. The API server sets Available where there is none.
const (
	AvailabilityModeAvailable   AvailabilityMode = "Available"
	AvailabilityModeUnavailable AvailabilityMode = "Unavailable"
)

// SourceTypeImage is the only type of a source: an image.
const SourceTypeImage = "Image"

// CatalogSource names the origin of a catalog.
type CatalogSource struct {
	Type  string       `json:"type"`
	Image *ImageSource `json:"image,omitempty"`
}

// ImageSource names an image and how often it is polled, in minutes; nil: never.
type ImageSource struct {
	Ref                 string `json:"ref"`
	PollIntervalMinutes *int   `json:"pollIntervalMinutes,omitempty"`
}

// ClusterCatalogStatus is the observed state of a ClusterCatalog.
type ClusterCatalogStatus struct {
	// +listType=map
	// +listMapKey=type
	Conditions     []metav1.Condition     `json:"conditions,omitempty"`
	ResolvedSource *ResolvedCatalogSource `json:"resolvedSource,omitempty"`
	URLs           *ClusterCatalogURLs    `json:"urls,omitempty"`
	LastUnpacked   *metav1.Time           `json:"lastUnpacked,omitempty"`
}

// ResolvedCatalogSource is the origin of the served content.
type ResolvedCatalogSource struct {
	Type  string               `json:"type"`
	Image *ResolvedImageSource `json:"image"`
}

// ResolvedImageSource names the image of the served content by digest: name@sha256:...
type ResolvedImageSource struct {
	Ref string `json:"ref"`
}

// ClusterCatalogURLs has the URL of the served content, to which clients append /api/v1/all.
type ClusterCatalogURLs struct {
	Base string `json:"base"`
}
