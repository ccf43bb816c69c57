package sync

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// The events of a CatalogSource: the reason, and the action that it is about.
const (
	eventUnpacked        = "Unpacked"        // a new digest is served
	eventFailed          = "Failed"          // polling or unpacking failed in a new way
	eventRecovered       = "Recovered"       // it works again
	eventInvalidPackages = "InvalidPackages" // other packages than before are not valid

	actionUnpack  = "Unpack"
	actionPublish = "Publish"
)

// recordEvents tells what changed between the status as it was read and as it will be written. What stays as it was is
// told by conditions, not by events.
func (r *CatalogReconciler) recordEvents(rec *reconciliation) {
	c, before, after := rec.catalog, rec.before.Status, rec.catalog.Status
	was, is := progress(before), progress(after)
	if after.Content != nil && before.Digest != after.Digest {
		eventType, packages := corev1.EventTypeNormal, counted(rec.published, "package", "packages")
		switch {
		case rec.unexamined:
			packages = "packages that are still being examined"
		case rec.published == 0:
			eventType = corev1.EventTypeWarning
		}
		r.event(c, eventType, eventUnpacked, actionUnpack, fmt.Sprintf("Serving %s at %s: %s, %s.", rec.image, after.Digest,
			packages, counted(int(after.Content.Bundles), "bundle", "bundles")))
	}
	if rec.fetchErr != nil && was != is {
		r.event(c, corev1.EventTypeWarning, eventFailed, actionUnpack, is.message)
	}
	if was.failed() && before.Digest != "" && is.reason == v1beta1.SucceededReason {
		r.event(c, corev1.EventTypeNormal, eventRecovered, actionUnpack, fmt.Sprintf("%s is followed again.", rec.image))
	}
	if after.Content != nil && len(after.Content.InvalidPackages) > 0 && !sameInvalid(before.Content, after.Content) {
		r.event(c, corev1.EventTypeWarning, eventInvalidPackages, actionPublish, describeInvalid(after.Content))
	}
}

func (r *CatalogReconciler) event(c *v1beta1.CatalogSource, eventType, reason, action, note string) {
	r.Recorder.Eventf(c, nil, eventType, reason, action, "%s", truncate(note, 1000)) // a note has at most 1 kB
}

// progressing is what the Progressing condition says.
type progressing struct{ reason, message string }

func progress(s v1beta1.CatalogSourceStatus) progressing {
	cond := meta.FindStatusCondition(s.Conditions, v1beta1.ProgressingCondition)
	if cond == nil {
		return progressing{}
	}
	return progressing{cond.Reason, cond.Message}
}

func (p progressing) failed() bool {
	return p.reason == v1beta1.RetryingReason || p.reason == v1beta1.BlockedReason
}

func sameInvalid(before, after *v1beta1.CatalogContent) bool {
	return before != nil && before.InvalidPackageCount == after.InvalidPackageCount &&
		equality.Semantic.DeepEqual(before.InvalidPackages, after.InvalidPackages)
}

func describeInvalid(content *v1beta1.CatalogContent) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s not valid and not published:", counted(int(content.InvalidPackageCount), "package is", "packages are"))
	for i, p := range content.InvalidPackages {
		if i == 5 {
			b.WriteString(" and others, see status.content.invalidPackages")
			break
		}
		fmt.Fprintf(&b, " %q (%s)", p.Name, truncate(p.Reason, 150))
	}
	return b.String()
}
