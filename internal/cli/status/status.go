// Package status reads the status of a CatalogSource or of a ClusterCatalog.
package status

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// Condition returns a condition of a catalog, with status Unknown if the catalog does not have it.
func Condition(c *Catalog, kind string) metav1.Condition {
	if found := meta.FindStatusCondition(c.Status.Conditions, kind); found != nil {
		return *found
	}
	return metav1.Condition{Type: kind, Status: metav1.ConditionUnknown}
}

// Ready returns the condition Ready. If catalogd has not set it yet, the message says so.
func Ready(c *Catalog) metav1.Condition {
	ready := Condition(c, v1beta1.ReadyCondition)
	if ready.Status == metav1.ConditionUnknown && ready.Message == "" {
		ready.Message = "catalogd has not reconciled it yet; check that catalogd is running" + c.field("", " with --cluster-catalogs")
	}
	return ready
}

// IsReady reports whether a catalog is ready.
func IsReady(c *Catalog) bool { return Ready(c).Status == metav1.ConditionTrue }

// IsServed reports whether some content of a catalog is served.
func IsServed(c *Catalog) bool {
	return Condition(c, v1beta1.ServingCondition).Status == metav1.ConditionTrue
}

// IsObserved reports whether the status is about the current spec.
func IsObserved(c *Catalog) bool {
	return c.Status.ObservedGeneration == c.Generation &&
		Condition(c, v1beta1.ReadyCondition).Status != metav1.ConditionUnknown
}

// IsFailing reports whether a catalog needs attention. One that is being unpacked, or that somebody made unavailable, does not.
func IsFailing(c *Catalog) bool {
	ready := Condition(c, v1beta1.ReadyCondition)
	calm := []string{v1beta1.UnpackingReason, v1beta1.UnavailableReason, v1beta1.UserSpecifiedUnavailableReason}
	return IsObserved(c) && ready.Status == metav1.ConditionFalse && !slices.Contains(calm, ready.Reason)
}

// Image returns the image of a catalog: the served one or, before there is one, the requested one.
func Image(c *Catalog) string {
	return cmp.Or(c.Status.Image, c.Spec.Image, Template(c))
}

// Template returns the image template of a catalog.
func Template(c *Catalog) string {
	return cmp.Or(c.Spec.ImageTemplate, c.Annotations[v1beta1.ImageTemplateAnnotation])
}

// Sentence returns a message of a status with pointers to commands instead of fields.
func Sentence(c *Catalog, message string) string {
	return trim(strings.ReplaceAll(message, v1beta1.SeeInvalidPackages, "kubectl catalog describe "+c.Arg()+" lists them all."))
}

// Brief returns a message of a status without its pointers to fields.
func Brief(message string) string {
	return trim(strings.TrimSuffix(message, " "+v1beta1.SeeInvalidPackages))
}

// trim removes the colon that stays behind where a registry gave no reason.
func trim(message string) string { return strings.TrimRight(message, ": ") }
