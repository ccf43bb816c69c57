package sync

import (
	"context"
	"fmt"
	stdsync "sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/poll"
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
	image, err := poll.Render(template, gitVersion)
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
