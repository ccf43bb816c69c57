package mirror

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/operator-catalogs/catalogd/internal/catalogimage"
	"github.com/operator-catalogs/catalogd/internal/registry"
)

// registryOrigin reads from registries. It keeps manifests in a temporary file, because a registry may count their requests.
type registryOrigin struct {
	puller *remote.Puller
	opts   []remote.Option

	mu    sync.Mutex
	spool *os.File
	size  int64
	kept  map[v1.Hash]kept
}

// kept is the place of a manifest in the spool.
type kept struct {
	v1.Descriptor
	at int64
}

func newRegistryOrigin(opts Options) (*registryOrigin, error) {
	options := opts.remote()
	puller, err := remote.NewPuller(options...)
	if err != nil {
		return nil, err
	}
	spool, err := catalogimage.TempFile()
	if err != nil {
		return nil, fmt.Errorf("making a temporary file: %w", err)
	}
	return &registryOrigin{puller: puller, opts: append(options, remote.Reuse(puller)), spool: spool, kept: map[v1.Hash]kept{}}, nil
}

// Close frees the spool.
func (o *registryOrigin) Close() error { return o.spool.Close() }

func (o *registryOrigin) resolve(ctx context.Context, tag name.Tag) (v1.Hash, error) {
	head, err := o.puller.Head(ctx, tag)
	if err == nil {
		return head.Digest, nil
	}
	if !isNotFound(err) && !isTransient(err) { // HEAD is unsupported, or its headers are incomplete
		var got *remote.Descriptor
		if got, err = o.puller.Get(ctx, tag); err == nil {
			return got.Digest, nil
		}
	}
	return v1.Hash{}, registry.Explain("resolving the tag", tag, err)
}

func (o *registryOrigin) manifest(ctx context.Context, it item) (*node, error) {
	if n, err := o.keptManifest(it.digest); n != nil || err != nil {
		return n, err
	}
	ref := it.repo.Digest(it.digest.String())
	got, err := o.puller.Get(ctx, ref)
	if err != nil {
		return nil, registry.Explain("reading manifest "+it.digest.String(), ref, err)
	}
	if len(got.Manifest) > maxManifest {
		return nil, fmt.Errorf("manifest %s exceeds the limit of %d MiB", it.digest, maxManifest>>20)
	}
	n := &node{got.Descriptor, got.Manifest}
	return n, o.keep(n)
}

func (o *registryOrigin) keptManifest(digest v1.Hash) (*node, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	k, ok := o.kept[digest]
	if !ok {
		return nil, nil
	}
	raw := make([]byte, k.Size)
	if _, err := o.spool.ReadAt(raw, k.at); err != nil {
		return nil, fmt.Errorf("reading a temporary file: %w", err)
	}
	return &node{k.Descriptor, raw}, nil
}

func (o *registryOrigin) keep(n *node) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := o.spool.WriteAt(n.raw, o.size); err != nil {
		return fmt.Errorf("writing a temporary file: %w", err)
	}
	o.kept[n.Digest] = kept{v1.Descriptor{MediaType: n.MediaType, Digest: n.Digest, Size: n.Size}, o.size}
	o.size += int64(len(n.raw))
	return nil
}

func (o *registryOrigin) blob(ctx context.Context, it item, d v1.Descriptor) (io.ReadCloser, error) {
	ref := it.repo.Digest(d.Digest.String())
	explain := func(err error) error { return registry.Explain("reading blob "+d.Digest.String(), ref, err) }
	layer, err := o.puller.Layer(ctx, ref)
	if err != nil {
		return nil, explain(err)
	}
	body, err := layer.Compressed()
	if err != nil {
		return nil, explain(err)
	}
	return &explained{body, explain}, nil
}

// explained explains the errors of reading.
type explained struct {
	io.ReadCloser
	explain func(error) error
}

func (e *explained) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = e.explain(err)
	}
	return n, err
}

// cosignSuffixes are those of the tags that cosign makes of a digest.
var cosignSuffixes = []string{".sig", ".att", ".sbom"}

// attached finds the tags of cosign, and the referrers of OCI.
func (o *registryOrigin) attached(ctx context.Context, it item) ([]item, error) {
	var found []item
	base := it.digest.Algorithm + "-" + it.digest.Hex
	for _, suffix := range cosignSuffixes {
		tag := it.repo.Tag(base + suffix)
		digest, err := o.resolve(ctx, tag)
		switch {
		case err == nil:
			found = append(found, item{kind: kindAttached, repo: it.repo, tag: tag.TagStr(), digest: digest})
		case !isNotFound(err):
			return nil, err
		}
	}
	ref := it.repo.Digest(it.digest.String())
	index, err := remote.Referrers(ref, append(slices.Clip(o.opts), remote.WithContext(ctx))...)
	if answer, ok := errors.AsType[*transport.Error](err); ok && slices.Contains(noReferrers, answer.StatusCode) {
		return found, nil
	}
	if err != nil {
		return nil, registry.Explain("listing referrers", ref, err)
	}
	raw, err := index.RawManifest()
	if err != nil {
		return nil, err
	}
	var referrers v1.IndexManifest
	if err := json.Unmarshal(raw, &referrers); err != nil {
		return nil, fmt.Errorf("reading the referrers of %s: %w", ref, err)
	}
	if len(referrers.Manifests) > maxRefs {
		return nil, fmt.Errorf("%s has %d referrers; the limit is %d", ref, len(referrers.Manifests), maxRefs)
	}
	for _, d := range referrers.Manifests {
		found = append(found, item{kind: kindAttached, repo: it.repo, digest: d.Digest})
	}
	return found, nil
}

// noReferrers are responses of registries that lack the API for referrers, besides those that go-containerregistry knows.
var noReferrers = []int{http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented}

func isNotFound(err error) bool {
	answer, ok := errors.AsType[*transport.Error](err)
	return ok && answer.StatusCode == http.StatusNotFound
}

// builtIndex is the origin of the image of a catalog.
type builtIndex struct{ index v1.ImageIndex }

func (b builtIndex) resolve(context.Context, name.Tag) (v1.Hash, error) { return b.index.Digest() }

func (b builtIndex) attached(context.Context, item) ([]item, error) { return nil, nil }

func (b builtIndex) manifest(_ context.Context, it item) (*node, error) {
	var of interface {
		partial.WithRawManifest
		partial.Describable
	} = b.index
	if digest, err := b.index.Digest(); err != nil {
		return nil, err
	} else if digest != it.digest {
		if of, err = b.index.Image(it.digest); err != nil {
			return nil, err
		}
	}
	raw, err := of.RawManifest()
	if err != nil {
		return nil, err
	}
	mediaType, err := of.MediaType()
	if err != nil {
		return nil, err
	}
	return &node{v1.Descriptor{MediaType: mediaType, Digest: it.digest, Size: int64(len(raw))}, raw}, nil
}

func (b builtIndex) blob(_ context.Context, it item, d v1.Descriptor) (io.ReadCloser, error) {
	image, err := b.index.Image(it.digest)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(string(d.MediaType), "config.v1+json") || d.MediaType == types.DockerConfigJSON {
		raw, err := image.RawConfigFile()
		return io.NopCloser(bytes.NewReader(raw)), err
	}
	layer, err := image.LayerByDigest(d.Digest)
	if err != nil {
		return nil, err
	}
	return layer.Compressed()
}
