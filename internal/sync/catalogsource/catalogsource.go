// Package catalogsource adapts CatalogSources to the reconciler: the object becomes a source.Source, and the status that a
// pass computes becomes the object's.
package catalogsource

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/subset"
	"github.com/operator-catalogs/catalogd/internal/sync/access"
)

// +kubebuilder:rbac:groups=catalogd.operatorframework.io,resources=catalogsources,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=catalogd.operatorframework.io,resources=catalogsources/status,verbs=patch
// +kubebuilder:rbac:groups=catalogd.operatorframework.io,resources=catalogsources/finalizers,verbs=update

// Kind is the kind CatalogSource.
type Kind struct{}

// New returns an empty CatalogSource.
func (Kind) New() client.Object { return &v1beta1.CatalogSource{} }

// NewList returns an empty list of CatalogSources.
func (Kind) NewList() client.ObjectList { return &v1beta1.CatalogSourceList{} }

// Finalizer returns the finalizer that keeps a CatalogSource until its content is gone.
func (Kind) Finalizer() string { return v1beta1.CleanupFinalizer }

// IsMirror returns false: a CatalogSource is always a catalog of its own.
func (Kind) IsMirror(metav1.Object) bool { return false }

// Claim adds the finalizer.
func (k Kind) Claim(object client.Object, _ bool) { controllerutil.AddFinalizer(object, k.Finalizer()) }

// StatusPatch returns a merge patch.
func (Kind) StatusPatch(from client.Object) client.Patch {
	return client.MergeFromWithOptions(from.DeepCopyObject().(client.Object), client.MergeFromWithOptimisticLock{})
}

// Source returns the spec and the status of a CatalogSource. It shares the labels and conditions of the object.
func (Kind) Source(object client.Object) source.Source {
	c := object.(*v1beta1.CatalogSource)
	return source.Source{
		Kind:       v1beta1.GroupVersion.WithKind("CatalogSource"),
		Name:       c.Name,
		UID:        c.UID,
		Generation: c.Generation,
		Labels:     c.Labels,
		Image:      imageOf(c),
		Schedule:   scheduleOf(c),
		Access:     access.Of(c.Spec.Registry),
		State:      stateOf(c),
		Priority:   c.Spec.Priority,
		Names:      source.Names{Display: c.Spec.DisplayName, Publisher: c.Spec.Publisher, Description: c.Spec.Description},
		Prefetch:   c.Spec.PrefetchBundles == v1beta1.PrefetchHeads,
		Filter:     filterOf(c.Spec),
		Observed:   statusOf(c.Status),
	}
}

func imageOf(c *v1beta1.CatalogSource) source.Image {
	image := source.Image{
		Field:    "spec.image",
		Ref:      c.Spec.Image,
		Template: cmp.Or(c.Spec.ImageTemplate, c.Annotations[v1beta1.ImageTemplateAnnotation]),
	}
	if extract := c.Spec.ExtractContent; extract != nil {
		image.ConfigDir = extract.ConfigDir
	}
	return image
}

func filterOf(spec v1beta1.CatalogSourceSpec) (f subset.Filter) {
	for _, r := range spec.Include {
		f.Include = append(f.Include, subset.Include(r))
	}
	for _, r := range spec.Exclude {
		f.Exclude = append(f.Exclude, subset.Exclude(r))
	}
	return f
}

func scheduleOf(c *v1beta1.CatalogSource) source.Schedule {
	schedule := source.Schedule{
		Cron:    c.Spec.PollingSchedule,
		Suspend: c.Spec.Suspend,
		Request: c.Annotations[v1beta1.PollRequestedAnnotation],
	}
	if interval := c.Spec.PollingInterval; interval != nil {
		schedule.Interval = interval.Duration
	}
	return schedule
}

func stateOf(c *v1beta1.CatalogSource) source.State {
	switch {
	case !c.DeletionTimestamp.IsZero():
		return source.Deleting
	case c.Spec.Availability == v1beta1.AvailabilityUnavailable:
		return source.Withdrawn
	}
	return source.Available
}

func statusOf(s v1beta1.CatalogSourceStatus) source.Status {
	out := source.Status{Generation: s.ObservedGeneration, Conditions: s.Conditions, Image: s.Image, Digest: s.Digest}
	if s.URLs != nil {
		out.URL = s.URLs.Base
	}
	if s.OLMv0 != nil {
		out.OLMv0 = s.OLMv0.Namespaces
	}
	if p := s.Prefetch; p != nil {
		out.Prefetch = &source.Prefetch{Bundles: int(p.Bundles), Cached: int(p.Cached), Failed: int(p.Failed), Message: p.Message}
	}
	if p := s.Poll; p != nil {
		out.Requested = p.Requested
		if p.LastChangeTime != nil {
			out.Changed = p.LastChangeTime.Time
		}
	}
	if p := s.Progress; p != nil {
		out.Progress = &source.Progress{
			Phase: source.Phase(p.Phase),
			Bytes: p.Bytes, TotalBytes: p.TotalBytes, Packages: p.Packages, TotalPackages: p.TotalPackages,
		}
	}
	if c := s.Content; c != nil {
		out.Content = &source.Content{
			Packages: int(c.Packages), Channels: int(c.Channels), Bundles: int(c.Bundles), Blobs: int(c.Blobs),
			Bytes: c.Bytes, Endpoint: c.Source, InvalidCount: int(c.InvalidPackageCount),
		}
		if c.UnpackedAt != nil {
			out.Content.UnpackedAt = c.UnpackedAt.Time
		}
		if s := c.Subset; s != nil {
			out.Content.Subset = &source.Subset{
				Packages: int(s.LeftOut.Packages), Channels: int(s.LeftOut.Channels), Bundles: int(s.LeftOut.Bundles), Blobs: int(s.LeftOut.Blobs),
				NotFound: s.NotFound, NotFoundCount: int(s.NotFoundCount),
			}
		}
		for _, p := range c.InvalidPackages {
			out.Content.Invalid = append(out.Content.Invalid, source.InvalidPackage(p))
		}
	}
	return out
}

// SetStatus sets the status of a CatalogSource to s.
func (Kind) SetStatus(object client.Object, s source.Status) {
	out := &object.(*v1beta1.CatalogSource).Status
	out.ObservedGeneration, out.Conditions = s.Generation, slices.Clone(s.Conditions)
	out.Image, out.Digest = s.Image, s.Digest
	out.URLs, out.Content, out.Poll, out.Progress = nil, contentTo(s.Content), nil, nil
	out.OLMv0 = nil
	if len(s.OLMv0) > 0 {
		out.OLMv0 = &v1beta1.OLMv0Status{Namespaces: s.OLMv0}
	}
	out.Prefetch = nil
	if p := s.Prefetch; p != nil {
		out.Prefetch = &v1beta1.PrefetchStatus{Bundles: int32(p.Bundles), Cached: int32(p.Cached), Failed: int32(p.Failed), Message: p.Message}
	}
	if s.URL != "" {
		out.URLs = &v1beta1.CatalogSourceURLs{Base: s.URL}
	}
	if s.Requested != "" || !s.Changed.IsZero() {
		out.Poll = &v1beta1.PollStatus{LastChangeTime: timeTo(s.Changed), Requested: s.Requested}
	}
	if p := s.Progress; p != nil {
		out.Progress = &v1beta1.CatalogProgress{
			Phase: v1beta1.ProgressPhase(p.Phase),
			Bytes: p.Bytes, TotalBytes: p.TotalBytes, Packages: p.Packages, TotalPackages: p.TotalPackages,
		}
	}
}

func contentTo(c *source.Content) *v1beta1.CatalogContent {
	if c == nil {
		return nil
	}
	out := &v1beta1.CatalogContent{
		Packages: int32(c.Packages), Channels: int32(c.Channels), Bundles: int32(c.Bundles), Blobs: int32(c.Blobs),
		Bytes: c.Bytes, Source: c.Endpoint, UnpackedAt: timeTo(c.UnpackedAt), InvalidPackageCount: int32(c.InvalidCount),
	}
	if s := c.Subset; s != nil {
		out.Subset = &v1beta1.CatalogSubset{
			LeftOut: v1beta1.ContentCounts{
				Packages: int32(s.Packages), Channels: int32(s.Channels), Bundles: int32(s.Bundles), Blobs: int32(s.Blobs),
			},
			NotFound: s.NotFound, NotFoundCount: int32(s.NotFoundCount),
		}
	}
	for _, p := range c.Invalid {
		out.InvalidPackages = append(out.InvalidPackages, v1beta1.InvalidPackage(p))
	}
	return out
}

func timeTo(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	out := metav1.NewTime(t).Rfc3339Copy()
	return &out
}
