package sync

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/poll"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// maxInvalidPackages is how many invalid packages a status names; it has a count of all.
const maxInvalidPackages = 20

// conclude says in the status what the steps before it found, and when to come again. A pass that found no place to unpack
// an image is to be repeated whole when there is one: it leaves the status and the time of the next poll as they were, so that what
// was due or asked for still is.
func (r *CatalogReconciler) conclude(ctx context.Context, rec *reconciliation) error {
	c := rec.catalog
	if rec.crowded {
		c.Status = *rec.before.Status.DeepCopy()
		c.Status.Progress = nil
		return nil
	}
	served, ok := r.Store.Catalog(c.Name)
	if rec.current || (!ok && c.Status.Digest == "") {
		c.Status.Image = rec.image
	}
	switch {
	case !ok:
		c.Status.URLs, c.Status.Content = nil, nil // the digest stays: it says what to unpack when that is possible
	case !rec.lags:
		r.describe(rec, served)
	}
	if rec.fetchErr != nil {
		logf.FromContext(ctx).Error(rec.fetchErr, "the catalog is not brought up to date", "served", ok)
	}
	if !rec.lags { // else others serve what the status says, and it stays as it is
		setServing(c, served, ok)
		setPackagesSynced(rec, ok)
	}
	setProgressing(rec, ok)
	setReady(rec)
	c.Status.ObservedGeneration = c.Generation
	r.planNext(rec)
	r.measure(rec)
	rec.concluded = true
	return nil
}

// measure has the metrics say what this pass found.
func (r *CatalogReconciler) measure(rec *reconciliation) {
	name := rec.catalog.Name
	_, served := r.Store.Catalog(name)
	behind := rec.lags || (!served && rec.catalog.Status.Digest != "")
	r.Metrics.Observe(rec.catalog, r.Polls.Get(name), len(rec.insecure) > 0, behind)
	r.Metrics.Scheduled(name, r.interval(rec))
	if !rec.polledAt.IsZero() && rec.fetchErr == nil && rec.current {
		r.Metrics.Current(name, rec.polledAt)
	}
}

// describe copies what is served into the status.
func (r *CatalogReconciler) describe(rec *reconciliation, served store.Catalog) {
	c, info := rec.catalog, served.Snapshot.Info()
	if c.Status.Digest != info.Digest || served.Since.After(changeTime(c).Time) {
		since := metav1.NewTime(served.Since).Rfc3339Copy()
		pollStatus(c).LastChangeTime = &since
	}
	c.Status.Digest = info.Digest
	c.Status.URLs = &v1beta1.CatalogSourceURLs{Base: r.baseURL(c.Name)}
	unpackedAt := metav1.NewTime(info.UnpackedAt).Rfc3339Copy()
	c.Status.Content = &v1beta1.CatalogContent{
		Packages:            int32(rec.published),
		Channels:            int32(info.Channels),
		Bundles:             int32(info.Bundles),
		Blobs:               int32(info.Blobs),
		Bytes:               info.Bytes,
		Source:              served.Endpoint,
		UnpackedAt:          &unpackedAt,
		InvalidPackages:     invalidPackages(rec.invalid),
		InvalidPackageCount: int32(len(rec.invalid)),
	}
	if was := rec.before.Status; rec.unexamined && was.Content != nil && was.Digest == info.Digest { // what was found out then still holds
		now := c.Status.Content
		now.Packages, now.InvalidPackages, now.InvalidPackageCount = was.Content.Packages, was.Content.InvalidPackages, was.Content.InvalidPackageCount
	}
}

func (r *CatalogReconciler) baseURL(catalog string) string {
	return r.Config.BaseURL + "/catalogs/" + catalog
}

func invalidPackages(all []store.InvalidPackage) []v1beta1.InvalidPackage {
	slices.SortFunc(all, func(a, b store.InvalidPackage) int { return cmp.Compare(a.Name, b.Name) })
	var out []v1beta1.InvalidPackage
	for _, p := range all[:min(len(all), maxInvalidPackages)] {
		out = append(out, v1beta1.InvalidPackage{Name: truncate(p.Name, 253), Reason: p.Reason})
	}
	return out
}

// truncate keeps what catalogs say from filling a status.
func truncate(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// planNext notes the attempt, if there was one, and decides when to come again: after a failure as the backoff says, else
// when the next poll is due.
func (r *CatalogReconciler) planNext(rec *reconciliation) {
	c, now := rec.catalog, r.Clock.Now()
	switch {
	case retried(rec.fetchErr):
		r.Polls.Record(c.Name, rec.subject, now, rec.fetchErr)
	case !rec.polledAt.IsZero():
		r.Polls.Record(c.Name, rec.subject, rec.polledAt, nil)
	case rec.attempted: // without a poll: what an earlier failure asked for is over
		r.Polls.Record(c.Name, rec.subject, r.Polls.Get(c.Name).Last, nil)
	}
	entry := r.Polls.Get(c.Name)
	if rec.postponed.IsZero() && !rec.attempted && entry.Next.After(now) && !entry.Next.Equal(entry.Due) {
		rec.postponed = entry.Next // by an earlier pass; we came for another reason
	}
	switch {
	case retried(rec.fetchErr):
		at := r.retryAt(rec, now.Add(poll.Backoff(entry.Failures)))
		rec.next = r.Polls.Plan(c.Name, at, at.Sub(now)/2) // not the window of the schedule: many that fail are to recover as soon as one
	case !rec.postponed.IsZero():
		rec.next = rec.postponed // noted already
	case entry.Err != nil && now.Before(entry.Next):
		rec.next = entry.Next // we came for another reason while the backoff lasts
	default:
		rec.next = r.Polls.Plan(c.Name, r.nextPoll(rec, entry.Last, now), r.window(rec))
	}
	watchVersion(rec, now)
}

// watchVersion has a catalog with a template come again in time to see that the cluster has another version.
func watchVersion(rec *reconciliation, now time.Time) {
	if templateOf(rec.catalog) != "" && (rec.next.IsZero() || rec.next.After(now.Add(versionAge))) {
		rec.next = now.Add(versionAge)
	}
}

// retryAt is from when on to try again after a failure: when the catalog's own backoff, own, that of the registry, and the wait
// that it asked for are over. Catalogs that wait for one time take turns.
func (r *CatalogReconciler) retryAt(rec *reconciliation, own time.Time) time.Time {
	ref, err := name.ParseReference(rec.image)
	if err != nil || rec.client == nil {
		return own
	}
	at := own
	asked, advised := rec.client.NotBefore(ref)
	for _, other := range []time.Time{asked, advised} {
		if other.After(at) {
			at = other
		}
	}
	return at
}

// nextPoll is zero where there will be none: a digest reference, a suspended catalog, an image or a schedule that cannot
// be read.
func (r *CatalogReconciler) nextPoll(rec *reconciliation, last, now time.Time) time.Time {
	c := rec.catalog
	ref, err := name.ParseReference(rec.image)
	if _, byDigest := ref.(name.Digest); err != nil || byDigest || c.Spec.Suspend {
		return time.Time{}
	}
	schedule, err := r.schedule(c)
	if err != nil {
		return time.Time{}
	}
	return schedule.Next(last, now, c.Name)
}

// interval is how much time lies between two polls; 0 where there will be none.
func (r *CatalogReconciler) interval(rec *reconciliation) time.Duration {
	now := r.Clock.Now()
	schedule, err := r.schedule(rec.catalog)
	if err != nil || r.nextPoll(rec, now, now).IsZero() {
		return 0
	}
	return schedule.Gap(now)
}

func setCondition(c *v1beta1.CatalogSource, conditionType string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
		Type:               conditionType,
		Status:             status,
		Reason:             reason,
		Message:            truncate(message, 4096),
		ObservedGeneration: c.Generation,
	})
}

func setServing(c *v1beta1.CatalogSource, served store.Catalog, ok bool) {
	if !ok {
		setCondition(c, v1beta1.ServingCondition, metav1.ConditionFalse, v1beta1.UnavailableReason, "Nothing is unpacked yet.")
		return
	}
	setCondition(c, v1beta1.ServingCondition, metav1.ConditionTrue, v1beta1.AvailableReason,
		fmt.Sprintf("Serving the content of %s.", served.Snapshot.Info().Digest))
}

// setProgressing leaves the condition as it is where nothing was attempted: what the last attempt found still holds.
func setProgressing(rec *reconciliation, served bool) {
	c := rec.catalog
	fault := func(status metav1.ConditionStatus, reason string) {
		message := sentence(rec.fetchErr)
		if served {
			message += " What was served before stays served."
		}
		setCondition(c, v1beta1.ProgressingCondition, status, reason, message)
	}
	switch {
	case needsPerson(rec.fetchErr):
		fault(metav1.ConditionFalse, v1beta1.BlockedReason)
	case rec.fetchErr != nil:
		fault(metav1.ConditionTrue, v1beta1.RetryingReason)
	case c.Spec.Suspend:
		setCondition(c, v1beta1.ProgressingCondition, metav1.ConditionFalse, v1beta1.SuspendedReason,
			"Not polled, as spec.suspend is true; what is served stays served.")
	case rec.attempted || isCurrent(rec):
		setCondition(c, v1beta1.ProgressingCondition, metav1.ConditionTrue, v1beta1.SucceededReason,
			fmt.Sprintf("%s is unpacked and current.%s", rec.image, rec.insecureNote()))
	}
}

// isCurrent tells that there was nothing to attempt: a digest reference whose content is served.
func isCurrent(rec *reconciliation) bool {
	_, err := name.NewDigest(rec.image)
	return err == nil && rec.current
}

func setPackagesSynced(rec *reconciliation, served bool) {
	c := rec.catalog
	switch {
	case rec.syncErr != nil:
		setCondition(c, v1beta1.PackagesSyncedCondition, metav1.ConditionFalse, v1beta1.SyncFailedReason, sentence(rec.syncErr))
	case !served:
		setCondition(c, v1beta1.PackagesSyncedCondition, metav1.ConditionFalse, v1beta1.UnavailableReason, "Nothing is unpacked yet.")
	case rec.unexamined:
		setCondition(c, v1beta1.PackagesSyncedCondition, metav1.ConditionFalse, v1beta1.UnpackingReason,
			"The packages of the content are still being examined.")
	case len(rec.invalid) > 0:
		setCondition(c, v1beta1.PackagesSyncedCondition, metav1.ConditionTrue, v1beta1.InvalidPackagesReason,
			fmt.Sprintf("%s published, %s left out: %s. See status.content.invalidPackages.", counted(rec.published, "package is", "packages are"),
				counted(len(rec.invalid), "is", "are"), firstInvalid(c.Status.Content)))
	default:
		setCondition(c, v1beta1.PackagesSyncedCondition, metav1.ConditionTrue, v1beta1.SyncedReason,
			fmt.Sprintf("%s published.", counted(rec.published, "package is", "packages are")))
	}
}

// firstInvalid names the first package that is left out, as an example.
func firstInvalid(content *v1beta1.CatalogContent) string {
	first := content.InvalidPackages[0]
	example := fmt.Sprintf("%q (%s)", first.Name, truncate(first.Reason, 150))
	if content.InvalidPackageCount > 1 {
		return example + " and others"
	}
	return example
}

// setReady summarises the other conditions: the first that is not as it should be is what is amiss.
func setReady(rec *reconciliation) {
	c := rec.catalog
	progressing := meta.FindStatusCondition(c.Status.Conditions, v1beta1.ProgressingCondition)
	serving := meta.FindStatusCondition(c.Status.Conditions, v1beta1.ServingCondition)
	synced := meta.FindStatusCondition(c.Status.Conditions, v1beta1.PackagesSyncedCondition)
	fault := func(cond *metav1.Condition) {
		setCondition(c, v1beta1.ReadyCondition, metav1.ConditionFalse, cond.Reason, cond.Message)
	}
	switch {
	case progressing.Reason != v1beta1.SucceededReason && progressing.Reason != v1beta1.SuspendedReason:
		setCondition(c, v1beta1.ReadyCondition, metav1.ConditionFalse, whyNotReady(rec, progressing), progressing.Message)
	case serving.Status != metav1.ConditionTrue:
		fault(serving)
	case synced.Status != metav1.ConditionTrue:
		fault(synced)
	case rec.published == 0 && len(rec.invalid) > 0: // a catalog none of whose packages can be used
		fault(synced)
	case c.Spec.Suspend:
		setCondition(c, v1beta1.ReadyCondition, metav1.ConditionTrue, progressing.Reason, synced.Message+" Not polled, as spec.suspend is true.")
	default:
		setCondition(c, v1beta1.ReadyCondition, metav1.ConditionTrue, progressing.Reason, synced.Message+rec.insecureNote())
	}
}

// whyNotReady is the reason of Ready for what Progressing says: where it is known what is amiss, that. As long as nothing
// was attempted, it is what the last attempt found.
func whyNotReady(rec *reconciliation, progressing *metav1.Condition) string {
	ready := meta.FindStatusCondition(rec.catalog.Status.Conditions, v1beta1.ReadyCondition)
	if rec.fetchErr == nil && ready != nil && ready.Message == progressing.Message {
		return ready.Reason
	}
	return cmp.Or(reasonOf(rec.fetchErr), progressing.Reason)
}

// insecureNote says, behind another sentence, which registries need not prove who they are.
func (rec *reconciliation) insecureNote() string {
	if len(rec.insecure) == 0 {
		return ""
	}
	return fmt.Sprintf(" Not verified, as insecure is set for it: %s.", strings.Join(rec.insecure, ", "))
}

// sentence makes a sentence of an error, for people.
func sentence(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	if text == "" {
		return text
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
