package store

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"time"
)

// compressor writes the compressed forms of snapshots in the background.
type compressor struct {
	volume    *volume
	space     *space
	inventory *inventory
	log       *slog.Logger
	urgent    atomic.Int32  // callers with urgent work
	retry     chan struct{} // has room for one request to write missing forms
}

func (c *compressor) run(ctx context.Context) error {
	lowerPriority()
	logged := map[string]bool{}
	for {
		changed := c.inventory.changes()
		logged = c.compressAll(ctx, changed, logged)
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-c.retry:
		}
	}
}

// compressAll writes the missing forms of the served catalogs until changed is closed. It takes and returns the keys of
// served snapshots whose failure is logged.
func (c *compressor) compressAll(ctx context.Context, changed <-chan struct{}, logged map[string]bool) map[string]bool {
	served := c.inventory.all()
	still := map[string]bool{}
	for _, catalog := range served {
		if key := catalog.Snapshot.Key(); logged[key] {
			still[key] = true
		}
	}
	for _, codec := range codecs() {
		for _, catalog := range served {
			select {
			case <-ctx.Done():
				return still
			case <-changed:
				return still
			default:
			}
			err, key := c.compress(ctx, catalog.Snapshot, codec), catalog.Snapshot.Key()
			if err == nil || ctx.Err() != nil || still[key] {
				continue
			}
			still[key] = true
			c.log.Warn("cannot store a compressed form of a catalog; it is served uncompressed",
				"catalog", catalog.Name, "encoding", codec.encoding, "error", err)
		}
	}
	return still
}

// compress writes a missing form of a snapshot that is not damaged. If the snapshot is deleted meanwhile, that is no error.
func (c *compressor) compress(ctx context.Context, snap *Snapshot, codec codec) error {
	if _, err := c.volume.Lstat(snap.form(codec)); err == nil || snap.Damaged() {
		return nil
	}
	u, err := c.space.usage()
	if err != nil {
		return err
	}
	return c.volume.replaceFile(snap.dir, catalogFile+codec.suffix, func(w io.Writer) error {
		return snap.encode(ctx, c.polite(ctx, &bounded{w, u}), codec)
	})
}

// yield begins urgent work of a caller.
func (c *compressor) yield() (end func()) {
	c.urgent.Add(1)
	return func() { c.urgent.Add(-1) }
}

// polite returns a writer that waits a moment before each write while there is urgent work. Low priority alone is not
// enough: it counts between threads, while goroutines share few processors.
func (c *compressor) polite(ctx context.Context, w io.Writer) io.Writer {
	const pause = 100 * time.Millisecond
	return writerFunc(func(p []byte) (int, error) {
		if c.urgent.Load() > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
		return w.Write(p)
	})
}

// writerFunc is an io.Writer.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// scrub decodes the forms of an intact snapshot and deletes damaged ones, so that run writes them again. Its only error is
// that of ctx.
func (c *compressor) scrub(ctx context.Context, snap *Snapshot) error {
	for _, codec := range codecs() {
		err := snap.decodeForm(ctx, codec, io.Discard)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.log.Error("a compressed form of a catalog is damaged; it will be written again", "file", snap.form(codec), "error", err)
		if err := c.drop(snap, codec); err != nil {
			c.log.Error("cannot delete a damaged file", "file", snap.form(codec), "error", err)
		}
	}
	return nil
}

// drop deletes a form and requests another.
func (c *compressor) drop(snap *Snapshot, codec codec) error {
	c.volume.publishing.Lock()
	defer c.volume.publishing.Unlock()
	if err := ignoreMissing(c.volume.Remove(snap.form(codec))); err != nil {
		return err
	}
	select {
	case c.retry <- struct{}{}:
	default: // requested already
	}
	return c.volume.syncDir(snap.dir)
}
