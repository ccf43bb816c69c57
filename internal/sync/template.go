package sync

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	stdsync "sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// The variables of an image template. Their names are those of OLM v0.
const (
	majorVariable = "kube_major_version"
	minorVariable = "kube_minor_version"
	patchVariable = "kube_patch_version"
)

// versionAge is how old the API server's version may be that templates are rendered with. With it, a catalog follows an
// upgrade of the cluster within ten minutes, however long the reconcile before it takes.
const versionAge = 5 * time.Minute

// render decides which image is meant: the one that spec.image names, or what the template and the cluster's version make.
// A template that cannot be resolved stops the catalog where it is: nothing is polled or unpacked.
func (r *CatalogReconciler) render(ctx context.Context, rec *reconciliation) error {
	c := rec.catalog
	template := templateOf(c)
	if template == "" {
		meta.RemoveStatusCondition(&c.Status.Conditions, v1beta1.TemplatesHaveResolvedCondition)
		rec.image = c.Spec.Image
		return nil
	}
	gitVersion, versionErr := r.versions.get(ctx, r.Config.ServerVersion, r.Clock.Now(), rec.isAskedFor())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	image, err := renderTemplate(template, variables(gitVersion))
	if err != nil {
		setCondition(c, v1beta1.TemplatesHaveResolvedCondition, metav1.ConditionFalse, v1beta1.UnableToResolveReason, err.Error())
		if versionErr != nil {
			err = fmt.Errorf("%w, as the API server's version cannot be read", err)
			rec.attempted, rec.fetchErr = true, &reasonedError{v1beta1.UnableToResolveReason, err}
			return nil
		}
		rec.blocked(&reasonedError{v1beta1.UnableToResolveReason, err})
		return nil
	}
	rec.image = image
	setCondition(c, v1beta1.TemplatesHaveResolvedCondition, metav1.ConditionTrue, v1beta1.AllTemplatesResolvedReason,
		fmt.Sprintf("The image is %s.", rec.image))
	return nil
}

// templateOf returns the template of a catalog's image, "" if it has none.
func templateOf(c *v1beta1.CatalogSource) string {
	if c.Spec.ImageTemplate != "" {
		return c.Spec.ImageTemplate
	}
	return c.Annotations[v1beta1.ImageTemplateAnnotation]
}

// braces is anything in braces, and a brace that stands alone.
var braces = regexp.MustCompile(`\{[^{}]*\}|[{}]`)

// renderTemplate puts values in place of the variables of a template. The texts of its errors are what OLM's enhancement
// for templates asks for.
func renderTemplate(template string, values map[string]string) (string, error) {
	const failed = "Cannot construct catalog image reference" // a message for people, and promised: it begins as it does
	known := []string{majorVariable, minorVariable, patchVariable}
	var missing []string
	for _, found := range braces.FindAllString(template, -1) {
		variable := strings.Trim(found, "{}")
		switch {
		case !slices.Contains(known, variable):
			return "", fmt.Errorf("%s, %q is not a known variable; known are %s", failed, found, strings.Join(known, ", "))
		case values[variable] == "" && !slices.Contains(missing, fmt.Sprintf("%q", variable)):
			missing = append(missing, fmt.Sprintf("%q", variable))
		}
	}
	switch len(missing) {
	case 0:
		return braces.ReplaceAllStringFunc(template, func(found string) string { return values[strings.Trim(found, "{}")] }), nil
	case 1:
		return "", fmt.Errorf("%s, variable %s couldn't be resolved", failed, missing[0])
	default:
		return "", fmt.Errorf("%s, variables %s couldn't be resolved", failed, strings.Join(missing, ", "))
	}
}

// gitVersionFormat is the beginning of the gitVersion of Kubernetes, such as v1.20.1+bd9e442 or v1.37.1-rc.0.
var gitVersionFormat = regexp.MustCompile(`^v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:[-+.]|$)`)

// variables are the values that a version gives to a template. One that the version does not tell is empty.
func variables(gitVersion string) map[string]string {
	parts := gitVersionFormat.FindStringSubmatch(gitVersion)
	if parts == nil {
		return nil
	}
	return map[string]string{majorVariable: parts[1], minorVariable: parts[2], patchVariable: parts[3]}
}

// serverVersions keeps the API server's version for all catalogs for a while. The zero value is ready for use.
type serverVersions struct {
	mu         stdsync.Mutex
	gitVersion string
	readAt     time.Time
}

// get returns the version; it is read if what is kept is older than versionAge, or if it has to be fresh. While it cannot be
// read, what was read before holds until it is twice as old: then nobody knows what the cluster is.
func (v *serverVersions) get(ctx context.Context, read func(context.Context) (string, error), now time.Time, fresh bool) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	age := now.Sub(v.readAt)
	if !fresh && age < versionAge {
		return v.gitVersion, nil
	}
	gitVersion, err := read(ctx)
	if err == nil {
		v.gitVersion, v.readAt = gitVersion, now
		return gitVersion, nil
	}
	logf.FromContext(ctx).Error(err, "cannot read the API server's version, which image templates need")
	if age < 2*versionAge {
		return v.gitVersion, nil
	}
	return "", err
}
