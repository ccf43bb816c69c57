package catalogs

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
	"github.com/operator-catalogs/catalogd/internal/registry"
)

// A verdict is the state of a catalog for people.
type verdict struct {
	style   output.Style
	text    string // continues a sentence that begins with the catalog
	since   time.Time
	message string // of catalogd
	remedy  string // empty if the message has it or none is needed
}

// newVerdict derives the verdict from the conditions. namespace is catalogd's.
func newVerdict(c *status.Catalog, namespace string) verdict {
	ready := status.Condition(c, v1beta1.ReadyCondition)
	v := verdict{style: output.Yellow, since: ready.LastTransitionTime.Time, message: status.Brief(ready.Message)}
	running := "if this persists, check that catalogd is running: kubectl get pods --namespace " + namespace
	if c.Kind == status.ClusterCatalog {
		running = "if this persists, check that catalogd runs with --cluster-catalogs: kubectl get statefulsets --namespace " + namespace +
			" -o yaml"
	}
	switch {
	case c.DeletionTimestamp != nil:
		v.text, v.since, v.message, v.remedy = "is being deleted", c.DeletionTimestamp.Time, "", running
	case ready.Status == metav1.ConditionUnknown:
		v.text, v.since, v.remedy = "is new: catalogd has not reconciled it yet", c.CreationTimestamp.Time, running
	case !c.IsOurs() && ready.Reason != v1beta1.BlockedReason && ready.Reason != v1beta1.NameTakenReason:
		v.text = "is maintained by another program, such as the catalogd of OLM v1"
	case !status.IsObserved(c):
		v.text, v.since, v.message, v.remedy = "was changed: catalogd has not reconciled the change yet", time.Time{}, "", running
	case ready.Status == metav1.ConditionTrue:
		v.ready(c)
	default:
		v.notReady(c, ready)
	}
	return v
}

func (v *verdict) ready(c *status.Catalog) {
	invalid, empty := 0, false
	if has := c.Status.Content; has != nil {
		if at := has.UnpackedAt; at != nil && at.After(v.since) { // it may have been different before
			v.since = at.Time
		}
		invalid, empty = int(has.InvalidPackageCount), has.Packages == 0 && has.InvalidPackageCount == 0
	}
	switch {
	case c.Spec.Suspend:
		v.text, v.remedy = "is served, but suspended: it is not polled", "kubectl catalog resume "+c.Arg()
		v.since = time.Time{} // unknown
	case invalid > 0:
		v.text = fmt.Sprintf("is served without %s", output.Counted(invalid, "invalid package", "invalid packages"))
		v.remedy = "report the reasons below to the publisher of the image; kubectl catalog lint " + status.Image(c) +
			" shows file and line"
	case empty:
		v.text = "is served, but empty"
		v.remedy = "check the image and its content: kubectl catalog lint " + status.Image(c)
	default:
		v.style, v.text = output.Green, "is ready"
	}
}

func (v *verdict) notReady(c *status.Catalog, ready metav1.Condition) {
	served := status.IsServed(c)
	progressing := status.Condition(c, v1beta1.ProgressingCondition)
	v.remedy = remedy(c, ready)
	switch {
	case c.Spec.Suspend && progressing.Reason == v1beta1.SuspendedReason && !served:
		v.text, v.remedy = "is suspended and was never unpacked", "kubectl catalog resume "+c.Arg()
	case ready.Reason == v1beta1.UserSpecifiedUnavailableReason:
		v.text = "is unavailable, as set in spec." + c.AvailabilityField()
		v.remedy = fmt.Sprintf(`kubectl patch %s --type=merge -p '{"spec":{%q:"Available"}}'`, c.Ref(), c.AvailabilityField())
	case ready.Reason == v1beta1.UnpackingReason:
		v.text = "is being unpacked"
		condition := v1beta1.ReadyCondition
		if c.Kind == status.ClusterCatalog {
			condition = v1beta1.ServingCondition
		}
		v.remedy = fmt.Sprintf("wait: kubectl wait --for=condition=%s %s", condition, strings.Replace(c.Ref(), " ", "/", 1))
	case ready.Reason == v1beta1.InvalidPackagesReason:
		v.style, v.text = output.Red, "is served, but all of its packages are invalid"
	case progressing.Reason == v1beta1.BlockedReason:
		v.style, v.text = output.Red, "is blocked until somebody fixes the cause"
		if at := progressing.LastTransitionTime.Time; at.After(v.since) {
			v.since = at
		}
		if served {
			v.text = "is served with its previous content: updates are blocked until somebody fixes the cause"
		}
	case served:
		v.text = "is served with its previous content: the update failed, and catalogd retries"
	default:
		v.style, v.text = output.Red, "is unavailable; catalogd retries"
	}
}

// remedy returns what a person can do about the reason of the condition Ready.
func remedy(c *status.Catalog, ready metav1.Condition) string {
	switch {
	case strings.Contains(ready.Message, registry.ReferenceForm): // the image is not a valid reference
		return fmt.Sprintf("correct %s: kubectl edit %s", c.ImageField(), c.Ref())
	case c.Kind == status.ClusterCatalog: // its reasons tell no causes
		return ""
	}
	return strings.NewReplacer("NAME", c.Name, "IMAGE", status.Image(c)).Replace(remedies[ready.Reason])
}

// remedies are for reasons whose message has none. NAME is the catalog's, IMAGE its image.
var remedies = map[string]string{
	v1beta1.BlockedReason: "kubectl catalog lint IMAGE lists all errors; after pushing a corrected image: " +
		"kubectl catalog refresh NAME --wait",
	v1beta1.UnauthorizedReason: "create a Secret (kubectl create secret docker-registry --help) " +
		"and add it to spec.registry.pullSecrets: kubectl edit catalogsource NAME",
	v1beta1.CertificateNotTrustedReason: "store the authority's certificate in a ConfigMap and set spec.registry.caBundle: " +
		"kubectl edit catalogsource NAME",
	v1beta1.ImageNotFoundReason: "push the image, then kubectl catalog refresh NAME --wait; " +
		"or correct spec.image: kubectl edit catalogsource NAME",
	v1beta1.RegistryUnreachableReason: "when it is reachable again: kubectl catalog refresh NAME --wait",
	v1beta1.ProxyFailedReason:         "when it works again: kubectl catalog refresh NAME --wait",
}

// scheduleText returns in words when a catalog is polled.
func scheduleText(c *status.Catalog) string {
	switch {
	case c.Spec.Availability == v1beta1.AvailabilityUnavailable:
		return "never while unavailable"
	case c.Spec.Suspend:
		return "never while suspended"
	case strings.Contains(status.Image(c), "@"):
		return "never: the image has a digest"
	case c.Once:
		return "never: spec.source.image.pollIntervalMinutes is not set"
	case c.Spec.PollingInterval != nil:
		return "about every " + trailingZeros.Replace(c.Spec.PollingInterval.Duration.String())
	case c.Spec.PollingSchedule != "":
		return cronText(c.Spec.PollingSchedule)
	}
	return "about every 15m, or as set by catalogd's --default-polling-interval"
}

// trailingZeros shortens a duration: 1h, not 1h0m0s.
var trailingZeros = strings.NewReplacer("h0m0s", "h", "m0s", "m")

var (
	daily   = regexp.MustCompile(`^(\d+) +(\d+) +\* +\* +(\*|\d)$`)
	minutes = regexp.MustCompile(`^\*/(\d+) +\* +\* +\* +\*$`)
	macros  = map[string]string{
		"@hourly": "every hour", "@daily": "every day at 00:00", "@midnight": "every day at 00:00",
		"@weekly": "every Sunday at 00:00", "@monthly": "on the first of each month at 00:00",
		"@yearly": "on the first of January at 00:00", "@annually": "on the first of January at 00:00",
	}
)

// cronText returns a cron expression in words if it has a common form.
func cronText(schedule string) string {
	zone, rest := "UTC", schedule
	if after, ok := strings.CutPrefix(schedule, "CRON_TZ="); ok {
		zone, rest, _ = strings.Cut(after, " ")
	}
	rest = strings.TrimSpace(rest)
	words := macros[rest]
	if every, ok := strings.CutPrefix(rest, "@every "); ok {
		return "every " + every
	}
	if m := daily.FindStringSubmatch(rest); m != nil {
		minute, _ := strconv.Atoi(m[1])
		hour, _ := strconv.Atoi(m[2])
		day := "day"
		if m[3] != "*" {
			n, _ := strconv.Atoi(m[3])
			day = time.Weekday(n % 7).String()
		}
		words = fmt.Sprintf("every %s at %02d:%02d", day, hour, minute)
	} else if m := minutes.FindStringSubmatch(rest); m != nil {
		words = "every " + m[1] + " minutes of the hour"
	}
	if words == "" {
		words = fmt.Sprintf("cron expression %q", rest)
	}
	return words + " (" + zone + ")"
}
