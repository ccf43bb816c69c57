package migrate

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/operator-catalogs/catalogd/apis/olmv1"
	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/kube"
)

// A Field is what became of a field that is set.
type Field struct {
	Name string // such as spec.pollingInterval
	To   string // the field and its value in the other kind; empty if it is lost
	Note string // why it is lost, or how the value differs
}

// IsLost reports whether the other kind has no counterpart.
func (f Field) IsLost() bool { return f.To == "" }

// A Conversion is a CatalogSource as a ClusterCatalog, or the reverse.
type Conversion struct {
	To     kube.Object
	Fields []Field
}

func (c *Conversion) kept(field, to string, value any) { c.changed(field, to, value, "") }

func (c *Conversion) changed(field, to string, value any, note string) {
	c.Fields = append(c.Fields, Field{field, fmt.Sprintf("%s: %v", to, value), note})
}

func (c *Conversion) lost(field, note string) {
	c.Fields = append(c.Fields, Field{Name: field, Note: note})
}

// metadata keeps labels and annotations, except those that the cluster or catalogd sets, and those by which tools find their objects.
func (c *Conversion) metadata(from, to metav1.Object) {
	keep := func(field string, all map[string]string, dropped ...string) map[string]string {
		all = maps.Clone(all)
		for _, key := range dropped {
			delete(all, key)
		}
		for key := range all {
			if managed.MatchString(key) {
				c.lost("metadata."+field, key+": a tool finds its objects by it")
			}
		}
		maps.DeleteFunc(all, func(key, _ string) bool { return managed.MatchString(key) })
		if len(all) == 0 {
			return nil
		}
		c.Fields = append(c.Fields, Field{Name: "metadata." + field, To: "metadata." + field})
		return all
	}
	to.SetLabels(keep("labels", from.GetLabels(), olmv1.MetadataNameLabel))
	to.SetAnnotations(keep("annotations", from.GetAnnotations(), corev1.LastAppliedConfigAnnotation, v1beta1.ImageTemplateAnnotation,
		v1beta1.SuspendAnnotation, v1beta1.PollRequestedAnnotation, v1beta1.PollHandledAnnotation, v1beta1.ClaimedByAnnotation))
	if to.GetName() != from.GetName() {
		c.kept("metadata.name", "metadata.name", to.GetName())
	}
}

// Intervals that stand for those that the other kind cannot express.
const (
	defaultInterval = 15 * time.Minute     // of catalogd's --default-polling-interval
	rarely          = 365 * 24 * time.Hour // for a ClusterCatalog that is never polled
)

// ToClusterCatalog converts a CatalogSource.
func ToClusterCatalog(from *v1beta1.CatalogSource, as string) (*Conversion, error) {
	to := &olmv1.ClusterCatalog{}
	to.SetGroupVersionKind(olmv1.GroupVersion.WithKind("ClusterCatalog"))
	to.Name = as
	c := &Conversion{To: to}
	c.metadata(from, to)
	image, err := c.image(from)
	if err != nil {
		return nil, err
	}
	to.Spec.Source = olmv1.CatalogSource{Type: olmv1.SourceTypeImage, Image: image}
	to.Spec.Priority = from.Spec.Priority
	if from.Spec.Priority != 0 {
		c.kept("spec.priority", "spec.priority", from.Spec.Priority)
	}
	if from.Spec.Availability == v1beta1.AvailabilityUnavailable {
		to.Spec.AvailabilityMode = olmv1.AvailabilityModeUnavailable
		c.kept("spec.availability", "spec.availabilityMode", to.Spec.AvailabilityMode)
	}
	if from.Spec.Suspend {
		metav1.SetMetaDataAnnotation(&to.ObjectMeta, v1beta1.SuspendAnnotation, "true")
		c.kept("spec.suspend", "annotation "+v1beta1.SuspendAnnotation, "true")
	}
	c.loseRest(from.Spec)
	return c, nil
}

// loseRest names the fields that ClusterCatalogs do not have.
func (c *Conversion) loseRest(spec v1beta1.CatalogSourceSpec) {
	for _, f := range []struct {
		name string
		set  bool
		note string
	}{
		{"spec.displayName", spec.DisplayName != "", ""},
		{"spec.publisher", spec.Publisher != "", ""},
		{"spec.description", spec.Description != "", ""},
		{"spec.icon", spec.Icon != nil, ""},
		{"spec.extractContent", spec.ExtractContent != nil, "the image needs the label operators.operatorframework.io.index.configs.v1"},
		{"spec.registry", spec.Registry != nil,
			"all ClusterCatalogs share the access in ConfigMap catalogd-cluster-catalogs of catalogd's namespace"},
		{"spec.include", len(spec.Include) > 0, "a ClusterCatalog always has the whole catalog"},
		{"spec.exclude", len(spec.Exclude) > 0, "a ClusterCatalog always has the whole catalog"},
		{"spec.olmv0", spec.OLMv0 != nil, "only CatalogSources are offered to OLM v0"},
		{"spec.prefetchBundles", spec.PrefetchBundles != "" && spec.PrefetchBundles != v1beta1.PrefetchNone,
			"only the bundles of CatalogSources are prefetched"},
		{"spec.olmv1", spec.OLMv1, "the ClusterCatalog itself is offered to OLM v1"},
	} {
		if f.set {
			c.lost(f.name, f.note)
		}
	}
}

// image converts the image, and when it is polled. ClusterCatalogs need a tag or a digest.
func (c *Conversion) image(from *v1beta1.CatalogSource) (*olmv1.ImageSource, error) {
	field, given := "spec.image", from.Spec.Image
	template, annotation := from.Spec.ImageTemplate, from.Annotations[v1beta1.ImageTemplateAnnotation]
	if template != "" || annotation != "" {
		given = from.Status.Image
		if field = "spec.imageTemplate"; template == "" {
			field = "annotation " + v1beta1.ImageTemplateAnnotation
		}
		if given == "" || strings.Contains(given, "{") {
			return nil, fmt.Errorf("%s is not resolved, and ClusterCatalogs have no templates", field)
		}
	}
	ref, err := name.ParseReference(given)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	note := ""
	switch {
	case field != "spec.image":
		note = "the template is lost: an upgrade of the cluster does not change the image"
	case ref.Name() != given:
		note = "ClusterCatalogs need a registry, and a tag or a digest"
		given = ref.Name()
	}
	c.changed(field, "spec.source.image.ref", given, note)
	image := &olmv1.ImageSource{Ref: given}
	_, isTag := ref.(name.Tag)
	switch {
	case isTag:
		image.PollIntervalMinutes = c.minutes(from.Spec)
	case from.Spec.PollingInterval != nil:
		c.lost("spec.pollingInterval", "an image with a digest is never polled")
	}
	return image, nil
}

func (c *Conversion) minutes(spec v1beta1.CatalogSourceSpec) *int {
	field, note, interval := "spec.pollingInterval", "", defaultInterval
	switch {
	case spec.PollingSchedule != "":
		field, note = "spec.pollingSchedule", fmt.Sprintf("the schedule is lost (%s)", spec.PollingSchedule)
	case spec.PollingInterval != nil:
		interval = spec.PollingInterval.Duration
	default:
		note = "catalogd's default; without it, a ClusterCatalog is never polled"
	}
	minutes := int((interval + time.Minute - 1) / time.Minute)
	if rounded := time.Duration(minutes) * time.Minute; rounded != interval {
		note = fmt.Sprintf("rounded up from %s", interval)
	}
	c.changed(field, "spec.source.image.pollIntervalMinutes", minutes, note)
	return &minutes
}

// ToCatalogSource converts a ClusterCatalog. The CatalogSource keeps offering its content to OLM v1.
func ToCatalogSource(from *olmv1.ClusterCatalog, as string) (*Conversion, error) {
	if problems := validation.IsDNS1123Label(as); len(problems) > 0 {
		return nil, exit.Usagef("the name %q is no DNS label, as the names of CatalogSources are: specify another, such as --name %s",
			as, Label(as))
	}
	if from.Spec.Source.Image == nil {
		return nil, fmt.Errorf("it has no image")
	}
	to := &v1beta1.CatalogSource{}
	to.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("CatalogSource"))
	to.Name = as
	c := &Conversion{To: to}
	c.metadata(from, to)
	image := from.Spec.Source.Image
	to.Spec.Image = image.Ref
	c.kept("spec.source.image.ref", "spec.image", image.Ref)
	const minutes = "spec.source.image.pollIntervalMinutes"
	switch {
	case strings.Contains(image.Ref, "@"): // never polled as either kind
	case image.PollIntervalMinutes == nil:
		to.Spec.PollingInterval = &metav1.Duration{Duration: rarely}
		c.changed(minutes, "spec.pollingInterval", rarely,
			"never polled has no counterpart; a suspended CatalogSource would not be unpacked either")
	default:
		to.Spec.PollingInterval = &metav1.Duration{Duration: time.Duration(*image.PollIntervalMinutes) * time.Minute}
		c.kept(minutes, "spec.pollingInterval", to.Spec.PollingInterval.Duration)
	}
	if to.Spec.Priority = from.Spec.Priority; to.Spec.Priority != 0 {
		c.kept("spec.priority", "spec.priority", to.Spec.Priority)
	}
	if from.Spec.AvailabilityMode == olmv1.AvailabilityModeUnavailable {
		to.Spec.Availability = v1beta1.AvailabilityUnavailable
		c.kept("spec.availabilityMode", "spec.availability", to.Spec.Availability)
	}
	if from.Annotations[v1beta1.SuspendAnnotation] == "true" {
		to.Spec.Suspend = true
		c.kept("annotation "+v1beta1.SuspendAnnotation, "spec.suspend", true)
	}
	to.Spec.OLMv1 = true
	c.changed("kind", "spec.olmv1", true, "catalogd keeps a ClusterCatalog of the name, so that OLM v1 still finds the catalog")
	return c, nil
}

// Object returns the new object without empty fields of the Go type.
func (c *Conversion) Object() (map[string]any, error) { return manifest(c.To) }
