package status

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/operator-catalogs/catalogd/apis/olmv1"
	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/kube"
)

// A Kind is a kind of catalogs.
type Kind string

// The kinds of catalogs.
const (
	CatalogSource  Kind = "CatalogSource"
	ClusterCatalog Kind = "ClusterCatalog"
)

// Kinds has both kinds in the order in which they are listed.
var Kinds = []Kind{CatalogSource, ClusterCatalog}

// GVK returns the group, the version and the kind.
func (k Kind) GVK() schema.GroupVersionKind {
	if k == ClusterCatalog {
		return olmv1.GroupVersion.WithKind(string(k))
	}
	return v1beta1.GroupVersion.WithKind(string(CatalogSource))
}

// Type returns the kind as an argument: catalogsource or clustercatalog.
func (k Kind) Type() string { return strings.ToLower(k.GVK().Kind) }

// types returns the names of the kind that kubectl accepts.
func (k Kind) types() []string {
	names := []string{k.Type(), k.Type() + "s"}
	if k != ClusterCatalog {
		names = append(names, "catd")
	}
	for _, name := range names {
		of := k.GVK()
		names = append(names, name+"."+of.Group, name+"."+of.Version+"."+of.Group)
	}
	return names
}

// New returns an empty object of the kind.
func (k Kind) New() kube.Object {
	if k == ClusterCatalog {
		return &olmv1.ClusterCatalog{}
	}
	return &v1beta1.CatalogSource{}
}

// NewList returns an empty list of the kind.
func (k Kind) NewList() kube.List {
	if k == ClusterCatalog {
		return &olmv1.ClusterCatalogList{}
	}
	return &v1beta1.CatalogSourceList{}
}

// ParseKind returns the kind of a type as kubectl accepts it, such as catalogsources or catd.
func ParseKind(text string) (Kind, error) {
	for _, k := range Kinds {
		if slices.Contains(k.types(), strings.ToLower(text)) {
			return k, nil
		}
	}
	return "", exit.Usagef("unknown type %q; valid types are %s, %s", text, CatalogSource.Type(), ClusterCatalog.Type())
}

// ParseName splits NAME or TYPE/NAME. Without a type, the kind is empty.
func ParseName(text string) (Kind, string, error) {
	of, name, typed := strings.Cut(text, "/")
	if !typed {
		return "", text, nil
	}
	k, err := ParseKind(of)
	return k, name, err
}

// A Catalog is a CatalogSource or a ClusterCatalog. Its spec and its status are in the terms of a CatalogSource, with what the object has
// and the others empty.
type Catalog struct {
	Kind   Kind
	Object kube.Object // as the API server has it
	metav1.ObjectMeta
	Spec   v1beta1.CatalogSourceSpec
	Status v1beta1.CatalogSourceStatus

	Once       bool               // the image is polled only once
	Conditions []metav1.Condition // of the object
	Shared     bool               // whether the other kind has a catalog of this name
}

// Of returns the catalog of a CatalogSource or a ClusterCatalog.
func Of(object kube.Object) *Catalog {
	if c, ok := object.(*olmv1.ClusterCatalog); ok {
		return ofClusterCatalog(c)
	}
	c := object.(*v1beta1.CatalogSource)
	return &Catalog{
		Kind: CatalogSource, Object: c, ObjectMeta: c.ObjectMeta, Spec: c.Spec, Status: c.Status, Conditions: c.Status.Conditions,
	}
}

// Items returns the catalogs of a list, without ClusterCatalogs that represent a CatalogSource.
func Items(list kube.List) []Catalog {
	var all []Catalog
	switch list := list.(type) {
	case *v1beta1.CatalogSourceList:
		for i := range list.Items {
			all = append(all, *Of(&list.Items[i]))
		}
	case *olmv1.ClusterCatalogList:
		for i := range list.Items {
			if !IsMirror(&list.Items[i]) {
				all = append(all, *Of(&list.Items[i]))
			}
		}
	}
	return all
}

// IsMirror reports whether an object is the ClusterCatalog of a CatalogSource with spec.olmv1. The two are one catalog.
func IsMirror(object metav1.Object) bool {
	owner := metav1.GetControllerOfNoCopy(object)
	return owner != nil && owner.Kind == string(CatalogSource) && strings.HasPrefix(owner.APIVersion, v1beta1.GroupName+"/")
}

// Arg returns the catalog as an argument of a command: its name, with its type if the name is shared.
func (c *Catalog) Arg() string {
	if c.Shared {
		return c.Kind.Type() + "/" + c.Name
	}
	return c.Name
}

// Ref returns the object as arguments of kubectl: catalogsource NAME.
func (c *Catalog) Ref() string { return c.Kind.Type() + " " + c.Name }

// IsOurs reports whether catalogd maintains the object. OLM v1 has a catalogd of its own for ClusterCatalogs.
func (c *Catalog) IsOurs() bool {
	return c.Kind != ClusterCatalog || c.Annotations[v1beta1.ClaimedByAnnotation] != ""
}

// field returns the name of a field: a's for a CatalogSource, b's for a ClusterCatalog.
func (c *Catalog) field(a, b string) string {
	if c.Kind == ClusterCatalog {
		return b
	}
	return a
}

// AvailabilityField returns the field that makes the catalog unavailable.
func (c *Catalog) AvailabilityField() string { return c.field("availability", "availabilityMode") }

// ImageField returns the field of the image.
func (c *Catalog) ImageField() string {
	if Template(c) != "" {
		return "spec.imageTemplate"
	}
	return c.field("spec.image", "spec.source.image.ref")
}

// Suspension returns the fields that suspend the catalog, or that resume it. null removes a field.
func (c *Catalog) Suspension(suspend bool) map[string]any {
	metadata := map[string]any{"uid": c.UID}
	fields := map[string]any{"metadata": metadata}
	value := map[bool]any{true: true, false: nil}[suspend] // false is the default and needs no owner
	if c.Kind != ClusterCatalog {
		fields["spec"] = map[string]any{"suspend": value}
		return fields
	}
	if suspend {
		value = "true"
	}
	metadata["annotations"] = map[string]any{v1beta1.SuspendAnnotation: value}
	return fields
}

func ofClusterCatalog(o *olmv1.ClusterCatalog) *Catalog {
	c := &Catalog{Kind: ClusterCatalog, Object: o, ObjectMeta: o.ObjectMeta, Conditions: o.Status.Conditions}
	c.Spec.Priority = o.Spec.Priority
	c.Spec.Availability = v1beta1.Availability(o.Spec.AvailabilityMode)
	c.Spec.Suspend = o.Annotations[v1beta1.SuspendAnnotation] == "true"
	if image := o.Spec.Source.Image; image != nil {
		c.Spec.Image = image.Ref
		if c.Once = image.PollIntervalMinutes == nil; !c.Once {
			c.Spec.PollingInterval = &metav1.Duration{Duration: time.Duration(*image.PollIntervalMinutes) * time.Minute}
		}
	}
	if resolved := o.Status.ResolvedSource; resolved != nil && resolved.Image != nil {
		_, c.Status.Digest, _ = strings.Cut(resolved.Image.Ref, "@")
	}
	if o.Status.URLs != nil {
		c.Status.URLs = &v1beta1.CatalogSourceURLs{Base: o.Status.URLs.Base}
	}
	c.Status.Poll = &v1beta1.PollStatus{LastChangeTime: o.Status.LastUnpacked, Requested: o.Annotations[v1beta1.PollHandledAnnotation]}
	c.readConditions()
	return c
}

// nameTaken is in the message of a ClusterCatalog whose name a CatalogSource has.
const nameTaken = " belongs to CatalogSource "

// readConditions sets the conditions of a CatalogSource that those of a ClusterCatalog stand for.
func (c *Catalog) readConditions() {
	serving := meta.FindStatusCondition(c.Conditions, olmv1.ServingCondition)
	progressing := meta.FindStatusCondition(c.Conditions, olmv1.ProgressingCondition)
	if latest := cmp.Or(progressing, serving); latest != nil {
		c.Status.ObservedGeneration = latest.ObservedGeneration
	}
	if serving != nil {
		c.Status.Conditions = append(c.Status.Conditions, *serving)
	}
	ready := c.ready(serving, progressing)
	if ready == nil {
		return
	}
	progress := *ready
	if progressing != nil && ready.Message == progressing.Message && ready.Reason != v1beta1.SuspendedReason {
		progress = *progressing
	}
	if ready.Reason == v1beta1.SuspendedReason {
		ready.Reason = v1beta1.UnavailableReason
	}
	synced := *ready // the status is written once the packages are published
	synced.Reason = v1beta1.SyncedReason
	c.Status.Conditions = append(c.Status.Conditions,
		as(v1beta1.ReadyCondition, *ready), as(v1beta1.ProgressingCondition, progress), as(v1beta1.PackagesSyncedCondition, synced))
}

// ready returns the condition Ready of a ClusterCatalog, nil if there is none yet. While the first content is unpacked, there is no
// Progressing.
func (c *Catalog) ready(serving, progressing *metav1.Condition) *metav1.Condition {
	switch {
	case progressing == nil && serving == nil:
		return nil
	case progressing == nil:
		return because(*serving, v1beta1.UnpackingReason)
	case serving != nil && serving.Reason == olmv1.UserSpecifiedUnavailableReason:
		return serving
	case progressing.Reason != olmv1.SucceededReason:
		ready := *progressing
		ready.Status = metav1.ConditionFalse
		if strings.Contains(ready.Message, nameTaken) {
			ready.Reason = v1beta1.NameTakenReason
		}
		return &ready
	case serving != nil && serving.Status == metav1.ConditionTrue:
		return because(*serving, v1beta1.SucceededReason)
	case serving != nil && c.Spec.Suspend:
		return because(*serving, v1beta1.SuspendedReason)
	}
	return nil // of another program
}

func because(c metav1.Condition, reason string) *metav1.Condition {
	c.Reason = reason
	return &c
}

func as(conditionType string, c metav1.Condition) metav1.Condition {
	c.Type = conditionType
	return c
}
