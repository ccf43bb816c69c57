package sync

import (
	"context"
	"fmt"
	stdsync "sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"k8s.io/apimachinery/pkg/version"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/poll"
	"github.com/operator-catalogs/catalogd/internal/registry"
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
func (v *serverVersions) get(
	ctx context.Context, read func(context.Context) (*version.Info, error), now time.Time, fresh bool,
) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	age := now.Sub(v.readAt)
	if !fresh && age < versionAge {
		return v.gitVersion, nil
	}
	info, err := read(ctx)
	if err == nil {
		v.gitVersion, v.readAt = info.GitVersion, now
		return v.gitVersion, nil
	}
	logf.FromContext(ctx).Error(err, "cannot read the API server's version, which image templates need")
	if age < 2*versionAge {
		return v.gitVersion, nil
	}
	return "", err
}

// registryAccess is the result of access: the way to the registry of an image.
type registryAccess struct {
	spec     source.Access    // in effect
	client   *registry.Client // nil if err is not
	err      error
	missing  []string // pull Secrets for all catalogs that cannot be read
	insecure []string // registries of the image that are not verified
	subject  string   // identifies the pull and its settings, to tell whether the last failure concerns it
}

// RegistryAccess reads how a catalog reaches registries.
func (e *Engine) RegistryAccess(ctx context.Context, src source.Source) (access registry.Access, err error) {
	spec, err := e.accessReader().Settings(ctx, src.Access)
	if err == nil {
		access, _, err = e.accessReader().Read(ctx, spec)
	}
	return access, err
}

// access reads how the registry of an image is reached. An error is a fault once the registry is needed.
func (e *Engine) access(ctx context.Context, src source.Source, image, subject string) (_ registryAccess, err error) {
	ctx, end := span(ctx, "access", &err)
	defer end()
	reader := e.accessReader()
	var settings registry.Access
	var missing []string
	spec, accessErr := reader.Settings(ctx, src.Access)
	if accessErr == nil {
		settings, missing, accessErr = reader.Read(ctx, spec)
	}
	if ctx.Err() != nil {
		return registryAccess{}, ctx.Err()
	}
	out := registryAccess{spec: spec, missing: missing}
	if accessErr == nil {
		out.client, accessErr = e.Config.Registries.Client(src.Name, settings)
	}
	if accessErr != nil {
		out.err, out.subject = accessErr, subject+"\n"+accessErr.Error()
		return out, nil
	}
	out.subject = subject + "\n" + out.client.Fingerprint()
	if ref, err := name.ParseReference(image); err == nil {
		out.insecure = out.client.Insecure(ref)
	}
	return out, nil
}

// notBefore returns when the registry of an image accepts requests again, and when they can succeed again.
func (a registryAccess) notBefore(image string) (asked, advised time.Time) {
	ref, err := name.ParseReference(image)
	if err != nil || a.client == nil {
		return time.Time{}, time.Time{}
	}
	return a.client.NotBefore(ref)
}

// polled is the result of resolve.
type polled struct {
	attempted bool
	at        time.Time   // of the poll; zero: none was made
	wanted    name.Digest // zero: the served one
	foundAt   string      // the reference by digest at which a registry has it; empty: none was asked
	postponed time.Time   // when a poll is made that is due; zero: none was postponed
	answered  bool        // whether a requested poll was made, or cannot be
	fault     error
}

// resolve finds the wanted digest: that of a digest reference, that of a poll if one is due, else the last one.
func (e *Engine) resolve(
	ctx context.Context, src source.Source, image image, access registryAccess, progress *progressReporter,
) (_ polled, err error) {
	ctx, end := span(ctx, "resolve", &err)
	defer end()
	if image.fault != nil {
		return polled{attempted: true, answered: true, fault: image.fault}, nil
	}
	ref, err := name.ParseReference(image.Ref)
	if err != nil {
		return polled{attempted: true, answered: true, fault: fault.Block(badReference(src, image.Ref))}, nil
	}
	if digest, ok := ref.(name.Digest); ok {
		return polled{wanted: digest, answered: true}, nil
	}
	var out polled
	if digest := e.lastDigest(src); src.Observed.Image == image.Ref && digest != "" {
		out.wanted = ref.Context().Digest(digest)
	}
	schedule, err := e.schedule(src)
	if err != nil {
		out.attempted, out.answered, out.fault = true, true, fault.Block(err)
		return out, nil
	}
	if src.Schedule.Suspend || !e.isDue(src, access) {
		return out, nil
	}
	if out.postponed = e.postpone(src, schedule, access, image.Ref); !out.postponed.IsZero() {
		return out, nil
	}
	if src.Observed.Digest == "" || src.Urgent() { // else there is often nothing new
		progress.enter(ctx, source.Resolving)
	}
	return e.poll(ctx, src, out, access, ref)
}

func badReference(src source.Source, image string) error {
	field := src.Image.Field
	if src.Image.Template != "" {
		field = "the image template"
	}
	return fmt.Errorf("invalid image reference %q in %s: %s", image, field, registry.ReferenceForm)
}

// poll asks the registry of an image, or its mirrors, for the digest. If they fail, out keeps the digest it has.
func (e *Engine) poll(ctx context.Context, src source.Source, out polled, access registryAccess, ref name.Reference) (polled, error) {
	out.attempted, out.answered, out.at = true, true, e.Clock.Now()
	err := access.err
	if err == nil {
		ctx, end := span(ctx, "poll", &err)
		_, err = access.client.Try(ctx, ref, func(ctx context.Context, at registry.Endpoint) error {
			digest, err := poll.Digest(ctx, at.Ref, at.Remote...)
			if err == nil {
				out.wanted, out.foundAt = ref.Context().Digest(digest.DigestStr()), digest.String()
			}
			return err
		})
		end()
	}
	if ctx.Err() != nil {
		return polled{}, ctx.Err() // it says nothing about the image
	}
	e.Metrics.Polled(src.Name, out.at, err)
	if err != nil {
		out.fault = remedies(ref.String(), access).WithRemedy(err)
	}
	return out, nil
}

func remedies(image string, access registryAccess) fault.Context {
	return fault.Context{Image: image, Access: access.spec, Missing: access.missing}
}

// lastDigest returns the digest that was found last. The store is ahead of the status if the status was not written since.
func (e *Engine) lastDigest(src source.Source) string {
	if served, ok := e.Store.Catalog(src.Name); ok && (src.Observed.Digest == "" || isAhead(src.Observed, served)) {
		return served.Snapshot.Info().Digest
	}
	return src.Observed.Digest
}

// isDue reports whether to poll: on request, at the first pass, after a change of the image or the access, or on schedule.
func (e *Engine) isDue(src source.Source, access registryAccess) bool {
	entry := e.Polls.Get(src.Name)
	return src.Urgent() || entry.Last.IsZero() || entry.Subject != access.subject ||
		(!entry.Next.IsZero() && !e.Clock.Now().Before(entry.Next))
}

// maxPostponed limits how much later than planned a poll is since the registry failed for other catalogs.
const maxPostponed = 5 * time.Minute

// postpone returns when a due poll is made; zero: now. It waits while the registry refuses requests and, unless the poll is
// requested, for a while when the registry is known to fail. The first poll of this process waits for its turn, as all
// catalogs are due then. Without served content, or after a change of the image or the access, nothing waits.
func (e *Engine) postpone(src source.Source, schedule poll.Schedule, access registryAccess, image string) time.Time {
	now := e.Clock.Now()
	entry := e.Polls.Get(src.Name)
	_, served := e.Store.Catalog(src.Name)
	first := entry.Last.IsZero()
	changed := !first && entry.Subject != access.subject || src.SpecChanged()
	if !served || changed || access.client == nil {
		return time.Time{}
	}
	asked, advised := access.notBefore(image)
	window := schedule.Window(entry.Last, now)
	latest := entry.Due.Add(maxPostponed)
	turn := now
	switch {
	case asked.After(now):
		turn = e.Polls.Postpone(src.Name, asked, window)
	case src.PollRequested():
	case advised.After(now) && latest.After(now):
		if advised.After(latest) {
			advised = latest
		}
		turn = e.Polls.Postpone(src.Name, advised, window)
	case first && entry.Next.IsZero():
		turn = e.Polls.Plan(src.Name, now, window)
	case first:
		turn = entry.Next
	}
	if !turn.After(now) {
		return time.Time{}
	}
	return turn
}

// schedule returns when a catalog is polled.
func (e *Engine) schedule(src source.Source) (poll.Schedule, error) {
	switch {
	case src.Schedule.Cron != "":
		schedule, err := poll.Cron(src.Schedule.Cron)
		if err != nil {
			return schedule, fmt.Errorf("spec.pollingSchedule is invalid: %w", err)
		}
		if now := e.Clock.Now(); schedule.Next(now, now, src.Name).IsZero() {
			return schedule, fmt.Errorf("spec.pollingSchedule %q matches no day", src.Schedule.Cron)
		}
		return schedule, nil
	case src.Schedule.Interval != 0:
		return poll.Every(src.Schedule.Interval), nil
	}
	return poll.Every(e.Config.DefaultPollingInterval), nil
}
