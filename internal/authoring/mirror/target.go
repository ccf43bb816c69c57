package mirror

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/operator-catalogs/catalogd/internal/registry"
)

// Destination is a registry and a prefix of repository names.
type Destination struct {
	Registry name.Registry
	Prefix   string // may be empty
}

// ParseDestination parses REGISTRY[/PREFIX].
func ParseDestination(text string, opts ...name.Option) (Destination, error) {
	host, prefix, _ := strings.Cut(strings.TrimRight(text, "/"), "/")
	bad := fmt.Errorf("%q is not a valid destination: write registry/prefix, or archive.tar", text)
	if !strings.ContainsAny(host, ".:") && host != "localhost" {
		return Destination{}, bad
	}
	reg, err := name.NewRegistry(host, append(opts, name.StrictValidation)...)
	if err != nil || strings.ContainsAny(prefix, ":@") {
		return Destination{}, bad
	}
	to := Destination{reg, prefix}
	if prefix != "" && !repositoryPath.MatchString(prefix) {
		return Destination{}, bad
	}
	return to, nil
}

// repositoryPath matches names of repositories of the distribution specification.
var repositoryPath = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`)

// String returns REGISTRY[/PREFIX].
func (d Destination) String() string { return path.Join(d.Registry.RegistryStr(), d.Prefix) }

// Catalog returns the repository of a catalog: PREFIX/NAME.
func (d Destination) Catalog(catalog string) name.Repository {
	return d.Registry.Repo(path.Join(d.Prefix, catalog))
}

// Repository returns the repository of the images of a repository: PREFIX/HOST/PATH, where "_" replaces the ":" before a
// port. It keeps the host, so that repositories of two hosts never share a name.
func (d Destination) Repository(of name.Repository) (name.Repository, error) {
	at := path.Join(d.Prefix, hostPath(of), of.RepositoryStr())
	if !repositoryPath.MatchString(at) || len(at) > 255 {
		return name.Repository{}, fmt.Errorf("invalid repository name %s for the images of %s", at, of)
	}
	return d.Registry.Repo(at), nil
}

// hostPath returns the host of a repository as a part of a path.
func hostPath(of name.Repository) string { return strings.ReplaceAll(hostOf(of), ":", "_") }

// hostOf returns the usual name of the host.
func hostOf(of name.Repository) string {
	if of.RegistryStr() == name.DefaultRegistry {
		return "docker.io"
	}
	return of.RegistryStr()
}

// registryTarget pushes to a registry.
type registryTarget struct {
	Destination
	puller *remote.Puller
	pusher *remote.Pusher

	mu    sync.Mutex
	blobs map[v1.Hash]*located

	// referrers serializes the pushes of referrers: without the API for them, each changes an index.
	referrers sync.Mutex
}

// located is a blob at the target. Its mutex is held while the blob is uploaded, so that it is uploaded once.
type located struct {
	sync.Mutex
	in name.Repository // zero: unknown
}

func newRegistryTarget(to Destination, puller *remote.Puller, opts Options) *registryTarget {
	pusher, err := remote.NewPusher(opts.remote()...)
	if err != nil { // the options made the puller before
		panic(err)
	}
	return &registryTarget{Destination: to, puller: puller, pusher: pusher, blobs: map[v1.Hash]*located{}}
}

func (t *registryTarget) repository(it item) (name.Repository, error) {
	if it.catalog != "" {
		return t.Catalog(it.catalog), nil
	}
	return t.Repository(it.repo)
}

// reference returns the name of a manifest at the target. Images that are referred to by digest get a tag too, as
// registries may remove manifests without a tag.
func (t *registryTarget) reference(it item) (name.Reference, error) {
	repo, err := t.repository(it)
	switch {
	case err != nil:
		return nil, err
	case it.tag != "":
		return repo.Tag(it.tag), nil
	case it.kind == kindImage:
		return repo.Tag("mirrored-" + it.digest.Hex[:16]), nil
	}
	return repo.Digest(it.digest.String()), nil
}

func (t *registryTarget) has(ctx context.Context, it item) (bool, error) {
	ref, err := t.reference(it)
	if err != nil {
		return false, err
	}
	head, err := t.puller.Head(ctx, ref)
	if err == nil {
		return head.Digest == it.digest, nil
	}
	answer, ok := errors.AsType[*transport.Error](err)
	// Registries with permissions by repository answer 401 or 403 for one that does not exist. The push shows
	// whether the permission is lacking.
	if ok && slices.Contains([]int{http.StatusNotFound, http.StatusUnauthorized, http.StatusForbidden}, answer.StatusCode) {
		return false, nil
	}
	return false, registry.Explain("looking for "+ref.String(), ref, err)
}

func (t *registryTarget) putBlob(ctx context.Context, it item, d v1.Descriptor, open func() (io.ReadCloser, error)) error {
	repo, err := t.repository(it)
	if err != nil {
		return err
	}
	t.mu.Lock()
	blob := t.blobs[d.Digest]
	if blob == nil {
		blob = &located{}
		t.blobs[d.Digest] = blob
	}
	t.mu.Unlock()
	blob.Lock()
	defer blob.Unlock()
	var layer v1.Layer = upload{d, open}
	if blob.in.RepositoryStr() == "" && it.repo.RegistryStr() == repo.RegistryStr() {
		blob.in = it.repo // the registry is also the source
	}
	if blob.in.RepositoryStr() != "" && blob.in != repo {
		layer = &remote.MountableLayer{Layer: layer, Reference: blob.in.Digest(d.Digest.String())}
	}
	if err := t.pusher.Upload(ctx, repo, layer); err != nil {
		return explainPush(repo.Digest(d.Digest.String()), err)
	}
	blob.in = repo
	return nil
}

func (t *registryTarget) put(ctx context.Context, it item, n *node) error {
	ref, err := t.reference(it)
	if err != nil {
		return err
	}
	var content struct{ Subject *v1.Descriptor }
	if json.Unmarshal(n.raw, &content) == nil && content.Subject != nil {
		t.referrers.Lock()
		defer t.referrers.Unlock()
	}
	if err := t.pusher.Put(ctx, ref, taggable{n}); err != nil {
		return explainPush(ref, err)
	}
	return nil
}

func explainPush(ref name.Reference, err error) error {
	explained := registry.Explain("pushing to "+ref.Context().String(), ref, err)
	if answer, ok := errors.AsType[*transport.Error](err); ok && ref.Context().RegistryStr() == cmp.Or(hostIn(answer), ref.Context().RegistryStr()) {
		switch answer.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden:
			return fmt.Errorf("%w; log in first: docker login %s", explained, ref.Context().RegistryStr())
		case http.StatusNotFound, http.StatusMethodNotAllowed:
			return fmt.Errorf("pushing to %s: the registry answered %d; create the repository first, if the registry requires it: %w",
				ref.Context(), answer.StatusCode, err)
		}
	}
	return explained
}

// hostIn returns the host of the request that was answered.
func hostIn(answer *transport.Error) string {
	if answer.Request == nil {
		return ""
	}
	return answer.Request.URL.Host
}

// taggable is a node for remote.Pusher.
type taggable struct{ n *node }

func (t taggable) RawManifest() ([]byte, error)        { return t.n.raw, nil }
func (t taggable) MediaType() (types.MediaType, error) { return t.n.MediaType, nil }

// upload is a blob as a layer, as far as remote.Pusher reads it.
type upload struct {
	d    v1.Descriptor
	open func() (io.ReadCloser, error)
}

func (u upload) Digest() (v1.Hash, error)             { return u.d.Digest, nil }
func (u upload) DiffID() (v1.Hash, error)             { return v1.Hash{}, errors.ErrUnsupported }
func (u upload) Compressed() (io.ReadCloser, error)   { return u.open() }
func (u upload) Uncompressed() (io.ReadCloser, error) { return nil, errors.ErrUnsupported }
func (u upload) Size() (int64, error)                 { return u.d.Size, nil }
func (u upload) MediaType() (types.MediaType, error) {
	return cmp.Or(u.d.MediaType, types.OCILayer), nil
}
