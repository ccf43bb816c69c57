package cli

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/registry"
)

// A verdict says of a catalog whether it is as it should be.
type verdict struct {
	style  term.Style
	text   string // goes on after its name
	since  time.Time
	why    string // a sentence of catalogd's
	remedy string // what a person can do; empty where why says that, or there is nothing to do
}

// verdictOn reads the conditions of a catalog. namespace is catalogd's.
func verdictOn(c *v1beta1.CatalogSource, namespace string) verdict {
	ready := condition(c, v1beta1.ReadyCondition)
	v := verdict{style: term.Yellow, since: ready.LastTransitionTime.Time, why: whole(ready.Message)}
	running := "if that lasts, see whether catalogd runs: kubectl get pods --namespace " + namespace
	switch {
	case c.DeletionTimestamp != nil:
		v.text, v.since, v.why, v.remedy = "is being removed", c.DeletionTimestamp.Time, "", running
	case ready.Status == metav1.ConditionUnknown:
		v.text, v.since, v.remedy = "is new: catalogd has not looked at it", c.CreationTimestamp.Time, running
	case !isSeen(c):
		v.text, v.since, v.why, v.remedy = "was changed, and catalogd has not looked at it since", time.Time{}, "", running
	case ready.Status == metav1.ConditionTrue:
		v.fine(c)
	default:
		v.amiss(c, ready)
	}
	return v
}

// whole is a sentence of a status without the pointer to what stands below it here.
func whole(message string) string {
	return strings.TrimRight(strings.TrimSuffix(message, " See status.content.invalidPackages."), ": ")
}

// fine is of a catalog that is ready.
func (v *verdict) fine(c *v1beta1.CatalogSource) {
	invalid, empty := 0, false
	if has := c.Status.Content; has != nil {
		if at := has.UnpackedAt; at != nil && at.After(v.since) { // of what it was before the same need not be true
			v.since = at.Time
		}
		invalid, empty = int(has.InvalidPackageCount), has.Packages == 0 && has.InvalidPackageCount == 0
	}
	switch {
	case c.Spec.Suspend:
		v.text, v.remedy = "is served, but suspended: nobody looks for newer content", "kubectl catalog resume "+c.Name
		v.since = time.Time{} // which nobody notes down
	case invalid > 0:
		v.text = fmt.Sprintf("is served but for %s that cannot be used", counted(invalid, "package", "packages"))
		v.remedy = "tell who publishes the image what is said of them below; kubectl catalog lint " + imageOf(c) + " says it with file and line"
	case empty:
		v.text, v.remedy = "is served, but it is empty", "see whether this is the image that was meant, and what is in it: kubectl catalog lint "+imageOf(c)
	default:
		v.style, v.text = term.Green, "is fine"
	}
}

// amiss is of a catalog that catalogd looked at and found not to be ready.
func (v *verdict) amiss(c *v1beta1.CatalogSource, ready metav1.Condition) {
	served := condition(c, v1beta1.ServingCondition).Status == metav1.ConditionTrue
	progressing := condition(c, v1beta1.ProgressingCondition)
	switch {
	case c.Spec.Suspend && progressing.Reason == v1beta1.SuspendedReason && !served:
		v.text, v.remedy = "is suspended, and nothing of it was unpacked before", "kubectl catalog resume "+c.Name
	case ready.Reason == v1beta1.UserSpecifiedUnavailableReason:
		v.text = "is not offered, as spec.availability says"
		v.remedy = fmt.Sprintf(`kubectl patch catalogsource %s --type=merge -p '{"spec":{"availability":"Available"}}'`, c.Name)
	case ready.Reason == v1beta1.UnpackingReason:
		v.text = "is being unpacked"
		v.remedy = "wait: kubectl wait --for=condition=Ready catalogsource/" + c.Name
	case ready.Reason == v1beta1.InvalidPackagesReason:
		v.style, v.text = term.Red, "is served, but none of its packages can be used"
	case progressing.Reason == v1beta1.BlockedReason:
		v.style, v.text = term.Red, "cannot be used before somebody does something about it"
		if at := progressing.LastTransitionTime.Time; at.After(v.since) {
			v.since = at
		}
		if served {
			v.text = "is served as it was before: it cannot be brought up to date before somebody does something about it"
		}
	case served:
		v.text = "is served as it was before: it cannot be brought up to date at the moment, and catalogd tries again"
	default:
		v.style, v.text = term.Red, "cannot be used at the moment; catalogd tries again"
	}
	if v.remedy == "" {
		v.remedy = remedyOf(c, ready)
	}
}

// remedyOf is what a person can do about what the condition Ready says.
func remedyOf(c *v1beta1.CatalogSource, ready metav1.Condition) string {
	if !strings.Contains(ready.Message, registry.ReferenceForm) {
		return strings.NewReplacer("NAME", c.Name, "IMAGE", imageOf(c)).Replace(remedies[ready.Reason])
	}
	field := "spec.image" // which names no image that could be looked into
	if templateOf(c) != "" {
		field = "spec.imageTemplate"
	}
	return fmt.Sprintf("correct %s: kubectl edit catalogsource %s", field, c.Name)
}

// remedies are commands for what catalogd's own sentence does not spell out. NAME is the catalog's, IMAGE what it is made of.
var remedies = map[string]string{
	v1beta1.BlockedReason:               "kubectl catalog lint IMAGE finds all that is wrong with it; once it is pushed anew: kubectl catalog refresh NAME --wait",
	v1beta1.UnauthorizedReason:          "kubectl create secret docker-registry --help makes a Secret; name it in spec.registry.pullSecrets: kubectl edit catalogsource NAME",
	v1beta1.CertificateNotTrustedReason: "put the authority's certificate into a ConfigMap and name it in spec.registry.caBundle: kubectl edit catalogsource NAME",
	v1beta1.ImageNotFoundReason:         "push the image, and then: kubectl catalog refresh NAME --wait; or, if another was meant, correct spec.image: kubectl edit catalogsource NAME",
	v1beta1.RegistryUnreachableReason:   "once it answers: kubectl catalog refresh NAME --wait",
	v1beta1.ProxyFailedReason:           "once it answers: kubectl catalog refresh NAME --wait",
}
