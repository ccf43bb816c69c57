// Package status turns the results of a pass into the status of a catalog and into events. Its functions are pure: the same
// source and results make the same status, whatever the kind of the object.
package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/sync/fault"
)

// Results are the results of the steps of a pass.
type Results struct {
	Image     Image
	Fault     error    // why the image was not polled or unpacked
	Attempted bool     // whether the image was polled or unpacked
	Current   bool     // whether the served content is the wanted one
	Behind    bool     // whether it is older than the status; another replica serves the newer one
	Insecure  []string // registries of the image that are not verified
	Answered  bool     // whether a requested poll was made, or cannot be
	Served    *Served  // nil while nothing is served
	Packages  Packages
	Prefetch  *source.Prefetch
}

// Image is the resolved image.
type Image struct {
	Ref        string // empty: the template could not be resolved
	Unresolved error  // why not
}

// Served is the served content.
type Served struct {
	Digest  string
	URL     string // of the catalog
	Since   time.Time
	Content source.Content // without packages
}

// Packages are the results of publishing.
type Packages struct {
	Published    int
	Invalid      []source.InvalidPackage
	NotValidated bool  // whether the content is still being validated; Published and Invalid are zero then
	Err          error // why some could not be written
}

const (
	nothingUnpacked = "No content is unpacked yet."
	notPolled       = "Polling is suspended by spec.suspend"

	// maxInvalidPackages limits how many invalid packages a status names; it counts all.
	maxInvalidPackages = 20
)

// Concluded returns the status after a whole pass.
func Concluded(src source.Source, r Results) source.Status {
	s := conclusion{src: src, results: r, Status: begin(src)}
	s.setTemplate(src, r.Image)
	if r.Answered && src.PollRequested() {
		s.Requested = src.Schedule.Request
	}
	if r.Current || (r.Served == nil && s.Digest == "") {
		s.Image = r.Image.Ref
	}
	switch {
	case r.Served == nil:
		s.URL, s.Content = "", nil // the digest stays: it is unpacked again as soon as possible
	case !r.Behind:
		s.setContent()
	}
	if !r.Behind { // else other replicas serve what these conditions say
		s.setServing()
		s.setPackagesSynced()
	}
	s.setProgressing()
	s.setReady()
	s.Prefetch = r.Prefetch
	s.Generation = src.Generation
	return s.Status
}

// Announced returns the status before the first work on a catalog. Clients of OLM v1 wait for Serving=False, so the first
// status that they see must have it.
func Announced(src source.Source, image Image) source.Status {
	s := conclusion{src: src, Status: begin(src)}
	s.setTemplate(src, image)
	if s.Digest == "" {
		s.Image = image.Ref
	}
	s.Generation = 0 // if somebody emptied the status, the image is polled next
	message := fmt.Sprintf("Unpacking and publishing %s.", cmp.Or(image.Ref, src.Image.Template))
	s.set(v1beta1.ProgressingCondition, metav1.ConditionTrue, v1beta1.UnpackingReason, message)
	s.set(v1beta1.ServingCondition, metav1.ConditionFalse, v1beta1.UnavailableReason, nothingUnpacked)
	s.set(v1beta1.PackagesSyncedCondition, metav1.ConditionFalse, v1beta1.UnavailableReason, nothingUnpacked)
	s.set(v1beta1.ReadyCondition, metav1.ConditionFalse, v1beta1.UnpackingReason, message)
	return s.Status
}

// IsAnnounced reports whether work on the catalog was announced before.
func IsAnnounced(s source.Status) bool {
	return meta.FindStatusCondition(s.Conditions, v1beta1.ProgressingCondition) != nil
}

// Withdrawn returns the status of a catalog that its owner withdrew.
func Withdrawn(src source.Source) source.Status {
	s := conclusion{src: src, Status: begin(src)}
	s.Digest, s.URL, s.Content, s.Prefetch = "", "", nil, nil
	s.Generation = src.Generation
	for _, condition := range []string{
		v1beta1.ServingCondition, v1beta1.ProgressingCondition, v1beta1.PackagesSyncedCondition, v1beta1.ReadyCondition,
	} {
		s.set(condition, metav1.ConditionFalse, v1beta1.UserSpecifiedUnavailableReason,
			"The catalog is not served: spec.availability is Unavailable.")
	}
	return s.Status
}

// Deleted returns the status of a deleted catalog whose object others still keep.
func Deleted(src source.Source) source.Status {
	s := conclusion{src: src, Status: begin(src)}
	s.Digest, s.URL, s.Content = "", "", nil
	s.Generation = src.Generation
	for _, condition := range []string{v1beta1.ServingCondition, v1beta1.PackagesSyncedCondition, v1beta1.ReadyCondition} {
		s.set(condition, metav1.ConditionFalse, v1beta1.UnavailableReason, "The catalog was deleted, and its content with it.")
	}
	return s.Status
}

// IsWithdrawn reports whether the status says that the catalog's packages were deleted.
func IsWithdrawn(s source.Status) bool {
	synced := meta.FindStatusCondition(s.Conditions, v1beta1.PackagesSyncedCondition)
	return synced != nil && synced.Reason == v1beta1.UserSpecifiedUnavailableReason
}

// IsReady reports whether the status says that the catalog is Ready.
func IsReady(s source.Status) bool {
	return meta.IsStatusConditionTrue(s.Conditions, v1beta1.ReadyCondition)
}

// begin returns a copy of the last status, without the progress of the pass.
func begin(src source.Source) source.Status {
	s := src.Observed
	s.Conditions = slices.Clone(s.Conditions)
	s.Progress = nil
	return s
}

// conclusion is a status in the making.
type conclusion struct {
	source.Status
	src     source.Source
	results Results
}

func (s *conclusion) set(condition string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type:               condition,
		Status:             status,
		Reason:             reason,
		Message:            scan.Shorten(message, 4096),
		ObservedGeneration: s.src.Generation,
	})
}

func (s *conclusion) setTemplate(src source.Source, image Image) {
	const condition = v1beta1.TemplatesHaveResolvedCondition
	switch {
	case src.Image.Template == "":
		meta.RemoveStatusCondition(&s.Conditions, condition)
	case image.Unresolved != nil:
		s.set(condition, metav1.ConditionFalse, v1beta1.UnableToResolveReason, image.Unresolved.Error())
	default:
		s.set(condition, metav1.ConditionTrue, v1beta1.AllTemplatesResolvedReason, fmt.Sprintf("The image is %s.", image.Ref))
	}
}

// setContent copies the numbers of the served content.
func (s *conclusion) setContent() {
	served, packages := s.results.Served, s.results.Packages
	if s.Digest != served.Digest || served.Since.After(s.Changed) {
		s.Changed = served.Since
	}
	content := served.Content
	content.Packages = packages.Published
	content.Invalid, content.InvalidCount = firstInvalid(packages.Invalid), len(packages.Invalid)
	if was := s.src.Observed; packages.NotValidated && was.Content != nil && was.Digest == served.Digest { // still true
		content.Packages = was.Content.Packages
		content.Invalid, content.InvalidCount = was.Content.Invalid, was.Content.InvalidCount
	}
	s.Digest, s.URL, s.Content = served.Digest, served.URL, &content
}

func firstInvalid(all []source.InvalidPackage) []source.InvalidPackage {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b source.InvalidPackage) int { return cmp.Compare(a.Name, b.Name) })
	sorted = sorted[:min(len(sorted), maxInvalidPackages)]
	for i := range sorted {
		sorted[i].Name = scan.Shorten(sorted[i].Name, 253)
	}
	return sorted
}

func (s *conclusion) setServing() {
	if served := s.results.Served; served != nil {
		s.set(v1beta1.ServingCondition, metav1.ConditionTrue, v1beta1.AvailableReason,
			fmt.Sprintf("Serving the content of %s.", served.Digest))
		return
	}
	s.set(v1beta1.ServingCondition, metav1.ConditionFalse, v1beta1.UnavailableReason, nothingUnpacked)
}

// setProgressing keeps the condition if nothing was attempted: the result of the last attempt still holds.
func (s *conclusion) setProgressing() {
	r := s.results
	switch {
	case r.Fault != nil:
		message := sentence(r.Fault)
		if r.Served != nil {
			message += " The previous content is still served."
		}
		if fault.NeedsPerson(r.Fault) {
			s.set(v1beta1.ProgressingCondition, metav1.ConditionFalse, v1beta1.BlockedReason, message)
			return
		}
		s.set(v1beta1.ProgressingCondition, metav1.ConditionTrue, v1beta1.RetryingReason, message)
	case s.src.Schedule.Suspend:
		s.set(v1beta1.ProgressingCondition, metav1.ConditionFalse, v1beta1.SuspendedReason, notPolled+"; the content is still served.")
	case r.Attempted || (r.Current && source.IsDigest(r.Image.Ref)):
		s.set(v1beta1.ProgressingCondition, metav1.ConditionTrue, v1beta1.SucceededReason,
			fmt.Sprintf("%s is unpacked and current.%s", r.Image.Ref, insecureNote(r.Insecure)))
	}
}

func (s *conclusion) setPackagesSynced() {
	packages := s.results.Packages
	published := counted(packages.Published, "package is", "packages are") + " published"
	switch {
	case packages.Err != nil:
		s.set(v1beta1.PackagesSyncedCondition, metav1.ConditionFalse, v1beta1.SyncFailedReason, sentence(packages.Err))
	case s.results.Served == nil:
		s.set(v1beta1.PackagesSyncedCondition, metav1.ConditionFalse, v1beta1.UnavailableReason, nothingUnpacked)
	case packages.NotValidated:
		s.set(v1beta1.PackagesSyncedCondition, metav1.ConditionFalse, v1beta1.UnpackingReason, "The packages are still being validated.")
	case len(packages.Invalid) > 0:
		first := s.Content.Invalid[0]
		example := fmt.Sprintf("%q (%s)", first.Name, scan.Shorten(first.Reason, 150))
		if len(packages.Invalid) > 1 {
			example += " and others"
		}
		s.set(v1beta1.PackagesSyncedCondition, metav1.ConditionTrue, v1beta1.InvalidPackagesReason, fmt.Sprintf("%s, %s left out: %s.%s %s",
			published, counted(len(packages.Invalid), "is", "are"), example, s.notFoundNote(), v1beta1.SeeInvalidPackages))
	default:
		s.set(v1beta1.PackagesSyncedCondition, metav1.ConditionTrue, v1beta1.SyncedReason, published+"."+s.notFoundNote())
	}
}

// notFoundNote names parts of the filter that match nothing in the catalog.
func (s *conclusion) notFoundNote() string {
	subset := s.results.Served.Content.Subset
	if subset == nil || subset.NotFoundCount == 0 {
		return ""
	}
	const most = 3
	names := strings.Join(subset.NotFound[:min(most, len(subset.NotFound))], ", ")
	if more := subset.NotFoundCount - most; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return " The catalog does not have what spec.include or spec.exclude names: " + names + "."
}

// setReady summarizes the other conditions: the first that is wrong becomes the reason.
func (s *conclusion) setReady() {
	progressing := meta.FindStatusCondition(s.Conditions, v1beta1.ProgressingCondition)
	serving := meta.FindStatusCondition(s.Conditions, v1beta1.ServingCondition)
	synced := meta.FindStatusCondition(s.Conditions, v1beta1.PackagesSyncedCondition)
	packages := s.results.Packages
	switch {
	case progressing.Reason != v1beta1.SucceededReason && progressing.Reason != v1beta1.SuspendedReason:
		s.set(v1beta1.ReadyCondition, metav1.ConditionFalse, s.faultReason(progressing), progressing.Message)
	case serving.Status != metav1.ConditionTrue:
		s.set(v1beta1.ReadyCondition, metav1.ConditionFalse, serving.Reason, serving.Message)
	case synced.Status != metav1.ConditionTrue, packages.Published == 0 && len(packages.Invalid) > 0:
		s.set(v1beta1.ReadyCondition, metav1.ConditionFalse, synced.Reason, synced.Message)
	case s.src.Schedule.Suspend:
		s.set(v1beta1.ReadyCondition, metav1.ConditionTrue, progressing.Reason, synced.Message+" "+notPolled+".")
	default:
		s.set(v1beta1.ReadyCondition, metav1.ConditionTrue, progressing.Reason, synced.Message+insecureNote(s.results.Insecure))
	}
}

// faultReason returns the reason of Ready for the fault in Progressing. If nothing was attempted, that of the last
// attempt holds.
func (s *conclusion) faultReason(progressing *metav1.Condition) string {
	ready := meta.FindStatusCondition(s.Conditions, v1beta1.ReadyCondition)
	if s.results.Fault == nil && ready != nil && ready.Message == progressing.Message {
		return ready.Reason
	}
	return cmp.Or(fault.Reason(s.results.Fault), progressing.Reason)
}
