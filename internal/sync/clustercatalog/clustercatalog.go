// Package clustercatalog adapts the ClusterCatalogs of OLM v1 to the reconciler. Conditions, reasons, messages and the order of
// writes are those of OLM v1's own catalogd; docs/spec/clustercatalog.md has the differences.
//
// A ClusterCatalog has fewer fields than a CatalogSource. What its status lacks, the next pass reads from the store or the
// registry; what it must remember stands in annotations.
package clustercatalog

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/operator-catalogs/catalogd/apis/olmv1"
	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/source"
)

// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clustercatalogs,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clustercatalogs/status,verbs=patch
// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clustercatalogs/finalizers,verbs=update

// Kind is the kind ClusterCatalog.
type Kind struct {
	Namespace string // catalogd's own
	BaseURL   string // of the content service
	Registry  string // a ConfigMap with the access to the registries of all ClusterCatalogs
}

// New returns an empty ClusterCatalog.
func (Kind) New() client.Object { return &olmv1.ClusterCatalog{} }

// NewList returns an empty list of ClusterCatalogs.
func (Kind) NewList() client.ObjectList { return &olmv1.ClusterCatalogList{} }

// Finalizer returns the finalizer that keeps a ClusterCatalog until its content is gone. It is that of OLM v1's catalogd, so
// that one which that left behind is removed, too.
func (Kind) Finalizer() string { return olmv1.DeletionFinalizer }

// IsMirror reports whether a ClusterCatalog represents a CatalogSource; see Mirror.
func (Kind) IsMirror(object metav1.Object) bool {
	owner := metav1.GetControllerOfNoCopy(object)
	return owner != nil && owner.Kind == "CatalogSource" && strings.HasPrefix(owner.APIVersion, v1beta1.GroupName+"/")
}

// Claim sets the label by which ClusterExtensions select catalogs, and the finalizer; an Unavailable ClusterCatalog has none.
// The first time, it takes over the fields of the status that others own: OLM v1's catalogd may have been uninstalled, and
// what it wrote would count as a conflict, or stay forever. Later writes of others do, unless the object is claimed again.
func (k Kind) Claim(object client.Object, again bool) {
	c := object.(*olmv1.ClusterCatalog)
	metav1.SetMetaDataLabel(&c.ObjectMeta, olmv1.MetadataNameLabel, c.Name)
	if c.Spec.AvailabilityMode == olmv1.AvailabilityModeUnavailable {
		controllerutil.RemoveFinalizer(c, olmv1.DeletionFinalizer)
	} else {
		controllerutil.AddFinalizer(c, olmv1.DeletionFinalizer)
	}
	if c.Annotations[v1beta1.ClaimedByAnnotation] == k.Namespace && !again {
		return
	}
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1beta1.ClaimedByAnnotation, k.Namespace)
	isOther := func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Subresource == "status" && entry.Manager != v1beta1.FieldManager
	}
	others := sets.New[string]()
	for _, entry := range c.ManagedFields {
		if isOther(entry) {
			others.Insert(entry.Manager)
		}
	}
	// An entry that cannot be read stays as it is: its fields have no owner after that.
	_ = csaupgrade.UpgradeManagedFields(c, others, v1beta1.FieldManager, csaupgrade.Subresource("status"))
	c.ManagedFields = slices.DeleteFunc(c.ManagedFields, isOther)
}

// Source returns the spec and the status of a ClusterCatalog. It shares the labels of the object.
func (k Kind) Source(object client.Object) source.Source {
	c := object.(*olmv1.ClusterCatalog)
	src := source.Source{
		Kind:       olmv1.GroupVersion.WithKind("ClusterCatalog"),
		Name:       c.Name,
		UID:        c.UID,
		Generation: c.Generation,
		Labels:     c.Labels,
		Image:      source.Image{Field: "spec.source.image.ref"},
		Schedule: source.Schedule{
			Once:    true,
			Suspend: c.Annotations[v1beta1.SuspendAnnotation] == "true",
			Request: c.Annotations[v1beta1.PollRequestedAnnotation],
		},
		Access:   source.Access{Defaults: k.Registry},
		State:    stateOf(c),
		Priority: c.Spec.Priority,
		Observed: k.observed(c),
	}
	if image := c.Spec.Source.Image; image != nil {
		src.Image.Ref = image.Ref
		if minutes := image.PollIntervalMinutes; minutes != nil {
			src.Schedule.Once, src.Schedule.Interval = false, time.Duration(*minutes)*time.Minute
		}
	}
	return src
}

func stateOf(c *olmv1.ClusterCatalog) source.State {
	switch {
	case !c.DeletionTimestamp.IsZero():
		return source.Deleting
	case c.Spec.AvailabilityMode == olmv1.AvailabilityModeUnavailable:
		return source.Withdrawn
	}
	return source.Available
}

// observed returns the status of a ClusterCatalog. It has no numbers of the content. A digest that another catalogd serves
// does not count: this one must neither wait for it nor follow it.
func (k Kind) observed(c *olmv1.ClusterCatalog) source.Status {
	out := source.Status{Conditions: conditionsFrom(c.Status.Conditions), Requested: c.Annotations[v1beta1.PollHandledAnnotation]}
	if progressing := meta.FindStatusCondition(c.Status.Conditions, olmv1.ProgressingCondition); progressing != nil {
		out.Generation = progressing.ObservedGeneration
	}
	if c.Status.URLs != nil {
		out.URL = c.Status.URLs.Base
		if out.URL != k.BaseURL+"/catalogs/"+c.Name {
			return out
		}
	}
	if c.Status.LastUnpacked != nil {
		out.Changed = c.Status.LastUnpacked.Time
	}
	if resolved := c.Status.ResolvedSource; resolved != nil && resolved.Image != nil {
		if ref, err := name.NewDigest(resolved.Image.Ref); err == nil {
			out.Image, out.Digest = resolved.Image.Ref, ref.DigestStr()
		}
	}
	if image := c.Spec.Source.Image; out.Digest != "" && image != nil && out.Generation == c.Generation {
		out.Image = image.Ref // the digest is that of the tag
	}
	return out
}

// conditionsFrom returns the conditions of a catalog that those of a ClusterCatalog stand for. While the first content is
// unpacked, only Serving is there.
func conditionsFrom(conditions []metav1.Condition) (out []metav1.Condition) {
	serving := meta.FindStatusCondition(conditions, olmv1.ServingCondition)
	progressing := meta.FindStatusCondition(conditions, olmv1.ProgressingCondition)
	if serving == nil {
		return nil
	}
	out = append(out, *serving)
	switch {
	case serving.Reason == olmv1.UserSpecifiedUnavailableReason:
		for _, condition := range []string{v1beta1.ProgressingCondition, v1beta1.PackagesSyncedCondition} {
			other := *serving
			other.Type = condition
			out = append(out, other)
		}
	case progressing == nil:
		out = append(out, metav1.Condition{
			Type: v1beta1.ProgressingCondition, Status: metav1.ConditionTrue, Reason: v1beta1.UnpackingReason,
		})
	default:
		out = append(out, *progressing)
	}
	return out
}

// SetStatus sets the status of a ClusterCatalog to s.
func (Kind) SetStatus(object client.Object, s source.Status) {
	c := object.(*olmv1.ClusterCatalog)
	setStatus(c, s)
	if s.Requested != c.Annotations[v1beta1.PollHandledAnnotation] {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1beta1.PollHandledAnnotation, s.Requested)
	}
}

// The messages of OLM v1's catalogd.
const (
	servingMessage     = "Serving desired content from resolved source"
	unpackedMessage    = "Successfully unpacked and stored content from resolved source"
	unavailableMessage = "Catalog availability mode is set to Unavailable"
)

func setStatus(c *olmv1.ClusterCatalog, s source.Status) {
	out := &c.Status
	out.Conditions = slices.DeleteFunc(slices.Clone(out.Conditions), func(cond metav1.Condition) bool {
		return cond.Type != olmv1.ServingCondition && cond.Type != olmv1.ProgressingCondition
	})
	if ref := resolvedRef(s); ref == "" {
		out.ResolvedSource = nil
	} else if out.ResolvedSource == nil || out.ResolvedSource.Image == nil || !strings.HasSuffix(out.ResolvedSource.Image.Ref, "@"+s.Digest) {
		out.ResolvedSource = &olmv1.ResolvedCatalogSource{Type: olmv1.SourceTypeImage, Image: &olmv1.ResolvedImageSource{Ref: ref}}
	}
	out.URLs, out.LastUnpacked = nil, nil
	if s.URL != "" {
		out.URLs = &olmv1.ClusterCatalogURLs{Base: s.URL}
	}
	if !s.Changed.IsZero() && s.Digest != "" {
		changed := metav1.NewTime(s.Changed).Rfc3339Copy()
		out.LastUnpacked = &changed
	}
	progressing := meta.FindStatusCondition(s.Conditions, v1beta1.ProgressingCondition)
	serving := meta.FindStatusCondition(s.Conditions, v1beta1.ServingCondition)
	if progressing == nil || serving == nil {
		return
	}
	setProgressing(out, *progressing)
	setServing(out, *serving, progressing.Reason)
}

// resolvedRef returns the reference of the served image by digest; "" if none is served.
func resolvedRef(s source.Status) string {
	ref, err := name.ParseReference(s.Image)
	if err != nil || s.Digest == "" {
		return ""
	}
	return ref.Context().Digest(s.Digest).Name()
}

func setProgressing(out *olmv1.ClusterCatalogStatus, progressing metav1.Condition) {
	switch progressing.Reason {
	case v1beta1.UnpackingReason: // for the first time: there is no condition then
		meta.RemoveStatusCondition(&out.Conditions, olmv1.ProgressingCondition)
		return
	case v1beta1.UserSpecifiedUnavailableReason:
		progressing.Status, progressing.Reason, progressing.Message = metav1.ConditionTrue, olmv1.SucceededReason, unavailableMessage
	case v1beta1.SucceededReason, v1beta1.SuspendedReason:
		progressing.Status, progressing.Reason, progressing.Message = metav1.ConditionTrue, olmv1.SucceededReason, unpackedMessage
	}
	meta.SetStatusCondition(&out.Conditions, progressing)
}

// setServing leaves the condition as it is while the content that it speaks of is still served, but not the desired one.
func setServing(out *olmv1.ClusterCatalogStatus, serving metav1.Condition, progress string) {
	failed := progress == v1beta1.RetryingReason || progress == v1beta1.BlockedReason
	switch serving.Reason {
	case v1beta1.AvailableReason:
		if failed && meta.IsStatusConditionTrue(out.Conditions, olmv1.ServingCondition) {
			return
		}
		serving.Message = servingMessage
	case v1beta1.UserSpecifiedUnavailableReason:
		serving.Message = unavailableMessage
	}
	meta.SetStatusCondition(&out.Conditions, serving)
}

// StatusPatch returns a server-side apply of the whole status, which others' fields refuse.
func (Kind) StatusPatch(client.Object) client.Patch { return statusPatch{} }

type statusPatch struct{}

func (statusPatch) Type() types.PatchType { return types.ApplyPatchType }

func (statusPatch) Data(object client.Object) ([]byte, error) {
	c := object.(*olmv1.ClusterCatalog)
	return json.Marshal(map[string]any{
		"apiVersion": olmv1.GroupVersion.String(), "kind": "ClusterCatalog",
		"metadata": map[string]string{"name": c.Name, "resourceVersion": c.ResourceVersion},
		"status":   c.Status,
	})
}

// Names of OLM v1's catalogd.
const (
	upstreamLease   = "catalogd-operator-lock"
	upstreamWebhook = "catalogd-mutating-webhook-configuration"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=catalogd-operator-lock,verbs=list
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,resourceNames=catalogd-mutating-webhook-configuration,verbs=get

// Rival returns what shows that OLM v1's own catalogd is installed: its webhook, or its lease that is not expired.
func (Kind) Rival(ctx context.Context, live client.Reader) (string, error) {
	webhook := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{
		APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration",
	}}
	err := live.Get(ctx, client.ObjectKey{Name: upstreamWebhook}, webhook)
	if err == nil {
		return fmt.Sprintf("OLM v1's own catalogd is installed: there is MutatingWebhookConfiguration %s (if it is left over: kubectl delete "+
			"mutatingwebhookconfiguration %[1]s)", upstreamWebhook), nil
	}
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("looking for OLM v1's own catalogd: %w", err)
	}
	leases := &coordinationv1.LeaseList{}
	if err := live.List(ctx, leases, client.MatchingFields{"metadata.name": upstreamLease}); err != nil {
		return "", fmt.Errorf("looking for OLM v1's own catalogd: %w", err)
	}
	for _, lease := range leases.Items {
		if isLive(lease.Spec, time.Now()) {
			return fmt.Sprintf("OLM v1's own catalogd is running: it holds Lease %s in namespace %s", lease.Name, lease.Namespace), nil
		}
	}
	return "", nil
}

func isLive(lease coordinationv1.LeaseSpec, now time.Time) bool {
	if lease.HolderIdentity == nil || *lease.HolderIdentity == "" || lease.RenewTime == nil || lease.LeaseDurationSeconds == nil {
		return false
	}
	return now.Before(lease.RenewTime.Add(time.Duration(*lease.LeaseDurationSeconds) * time.Second))
}
