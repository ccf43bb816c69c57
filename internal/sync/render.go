package sync

import (
	"context"
	"fmt"
	stdsync "sync"
	"time"

	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/poll"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/sync/fault"
	"github.com/operator-catalogs/catalogd/internal/sync/status"
)

// versionAge limits the age of the cluster's version in templates. With it, a catalog follows an upgrade of the cluster
// within ten minutes.
const versionAge = 5 * time.Minute

// image is the result of render.
type image struct {
	status.Image
	fault error
}

// render returns the image that the source names, or that its template makes of the cluster's version.
func (e *Engine) render(ctx context.Context, src source.Source) (_ image, err error) {
	ctx, end := span(ctx, "render", &err)
	defer end()
	if src.Image.Template == "" {
		return image{Image: status.Image{Ref: src.Image.Ref}}, nil
	}
	gitVersion, versionErr := e.versions.get(ctx, e.Config.ServerVersion, e.Clock.Now(), src.Urgent())
	if ctx.Err() != nil {
		return image{}, ctx.Err()
	}
	ref, unresolved := poll.Render(src.Image.Template, gitVersion)
	out := image{Image: status.Image{Ref: ref, Unresolved: unresolved}}
	switch {
	case unresolved == nil:
	case versionErr != nil:
		out.fault = fault.WithReason(v1beta1.UnableToResolveReason,
			fmt.Errorf("%w, as the API server's version cannot be read", unresolved))
	default:
		out.fault = fault.Block(fault.WithReason(v1beta1.UnableToResolveReason, unresolved))
	}
	return out, nil
}

// serverVersions caches the API server's version for all catalogs. The zero value is ready for use.
type serverVersions struct {
	mu         stdsync.Mutex
	gitVersion string
	readAt     time.Time
}

// get returns the version. It reads it if the cached one is older than versionAge, or if fresh. If that fails, the cached
// one is good until it is twice as old.
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
