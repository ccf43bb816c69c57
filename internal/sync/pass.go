package sync

import (
	"cmp"
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/sync/status"
)

// lead is a pass of the leader. Each step gets the results of earlier steps. The error of a step is one of the API server,
// the store or ctx; a fault of the image is part of its result. again overrules what another program wrote to the object.
func (c *controller) lead(
	ctx context.Context, src source.Source, object client.Object, again bool, progress *progressReporter,
) (outcome, error) {
	if err := c.dropForeign(ctx, src); err != nil {
		return outcome{}, err
	}
	if src.State == source.Deleting {
		return c.finalize(ctx, src, object)
	}
	if src.State == source.Withdrawn {
		out, err := c.withdraw(ctx, src)
		if err == nil {
			err = c.claim(ctx, object, again)
		}
		return c.mirrored(ctx, object, out), err
	}
	if err := checkName(src); err != nil {
		return refused(src, err), nil
	}
	if err := c.claim(ctx, object, again); err != nil {
		return outcome{}, err
	}
	image, err := c.render(ctx, src)
	if err != nil {
		return outcome{}, err
	}
	if !status.IsAnnounced(src.Observed) {
		out := outcome{status: new(status.Announced(src, image.Image)), next: c.Clock.Now(), image: image.Ref}
		return c.mirrored(ctx, object, out), nil
	}
	access, err := c.access(ctx, src, image.Ref, image.Ref)
	if err != nil {
		return outcome{}, err
	}
	poll, err := c.resolve(ctx, src, image, access, progress)
	if err != nil {
		return outcome{}, err
	}
	content, err := c.unpack(ctx, src, image.Ref, access, poll, progress)
	if err != nil {
		return outcome{}, err
	}
	prepareErr := c.prepare(ctx, src.Name)
	packages, err := c.publish(ctx, src, content, progress)
	if err != nil {
		return outcome{}, err
	}
	out := c.conclude(ctx, src, findings{image, access, poll, content, packages})
	out.err = cmp.Or(out.err, prepareErr)
	return c.mirrored(ctx, object, out), nil
}

// follow is a pass of another replica. It brings the volume to the digest in the status, and writes nothing to the API
// server.
func (c *controller) follow(ctx context.Context, src source.Source) (outcome, error) {
	if err := c.dropForeign(ctx, src); err != nil {
		return outcome{}, err
	}
	if src.State != source.Available {
		return outcome{}, c.stopServing(src.Name)
	}
	adopted, waitUntil := c.adopt(src)
	if adopted.wanted.DigestStr() == "" {
		return outcome{next: waitUntil}, nil
	}
	access, err := c.access(ctx, src, src.Observed.Image, adopted.wanted.String())
	if err != nil {
		return outcome{}, err
	}
	content, err := c.unpack(ctx, src, src.Observed.Image, access, adopted, nil)
	if err != nil {
		return outcome{}, err
	}
	out := c.catchUp(ctx, src, access, content)
	out.err = c.prepare(ctx, src.Name)
	return out, nil
}

// release is a pass over a catalog that the selector does not select, or no longer. Its packages stay for the installation
// that takes over. If it is being deleted and was ours, it is finalized, as there may be no other installation. If another object
// has the name, the content is that one's.
func (c *controller) release(ctx context.Context, src source.Source, object client.Object, nameTaken bool) (outcome, error) {
	if nameTaken {
		return outcome{}, c.dropFinalizer(ctx, object)
	}
	wasOurs := c.leads() && (src.Observed.URL == "" || src.Observed.URL == c.baseURL(src.Name))
	if wasOurs && src.State == source.Deleting {
		return c.finalize(ctx, src, object)
	}
	if err := c.stopServing(src.Name); err != nil {
		return outcome{}, err
	}
	c.known.byName.Delete(src.Name)
	if wasOurs {
		return outcome{}, c.dropFinalizer(ctx, object)
	}
	return outcome{}, nil
}

// findings are the results of the steps of a leader.
type findings struct {
	image    image
	access   registryAccess
	poll     polled
	content  content
	packages status.Packages
}

// outcome is the result of a pass.
type outcome struct {
	status  *source.Status // to write; nil: leave it
	events  []status.Event // of a status that was written
	next    time.Time      // of the next pass; zero: when something changes
	image   string         // for traces, as is fault
	fault   error
	err     error // of the API server; the controller decides when to retry
	crowded bool  // no slot to unpack; the gate decides when to retry
}

// digest returns the digest in the status, for traces; "" if the pass leaves the status.
func (o outcome) digest() string {
	if o.status == nil {
		return ""
	}
	return o.status.Digest
}
