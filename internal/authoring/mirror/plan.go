package mirror

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"
)

// Reference is an image of a catalog and the bundle that names it.
type Reference struct {
	Image           string
	Package, Bundle string
	Related         string // name of the related image; "" for the bundle image or a related image without a name
	IsBundle        bool
}

func (r Reference) String() string {
	text := fmt.Sprintf("bundle %q of package %q: ", r.Bundle, r.Package)
	switch {
	case r.IsBundle:
		return text + "image"
	case r.Related == "":
		return text + "related image"
	}
	return text + fmt.Sprintf("related image %q", r.Related)
}

// ReferencesOf returns the images of an olm.bundle blob: its own and the related ones.
func ReferencesOf(blob []byte) ([]Reference, error) {
	var bundle struct {
		Name, Package, Image string
		RelatedImages        []struct{ Name, Image string }
	}
	if err := json.Unmarshal(blob, &bundle); err != nil {
		return nil, fmt.Errorf("reading a bundle: %w", err)
	}
	refs := []Reference{{Image: bundle.Image, Package: bundle.Package, Bundle: bundle.Name, IsBundle: true}}
	for _, related := range bundle.RelatedImages {
		if related.Image == bundle.Image && related.Image != "" {
			continue
		}
		refs = append(refs, Reference{
			Image: related.Image, Package: bundle.Package, Bundle: bundle.Name, Related: related.Name,
		})
	}
	return refs, nil
}

// ParseReferences returns the distinct images, sorted. The error lists all empty and invalid references.
func ParseReferences(refs []Reference, opts ...name.Option) ([]*Image, error) {
	images := map[string]*Image{}
	var invalid []string
	for _, r := range refs {
		ref, err := parse(r.Image, opts)
		if err != nil {
			invalid = append(invalid, fmt.Sprintf("%s: %v", r, err))
			continue
		}
		it := item{kind: kindImage, repo: ref.Context()}
		switch ref := ref.(type) {
		case name.Digest:
			it.digest, err = v1.NewHash(ref.DigestStr())
			if err != nil {
				invalid = append(invalid, fmt.Sprintf("%s: %q: %v", r, r.Image, err))
				continue
			}
		case name.Tag:
			it.tag = ref.TagStr()
		}
		if known := images[it.String()]; known != nil {
			known.item.bundle = known.item.bundle || r.IsBundle
			continue
		}
		it.bundle = r.IsBundle
		images[it.String()] = &Image{Ref: it.String(), item: it}
	}
	if len(invalid) > 0 {
		slices.Sort(invalid)
		return nil, fmt.Errorf("the catalog has invalid image references; correct or remove their bundles:\n  %s",
			strings.Join(slices.Compact(invalid), "\n  "))
	}
	var sorted []*Image
	for _, image := range images {
		sorted = append(sorted, image)
	}
	slices.SortFunc(sorted, func(a, b *Image) int { return cmp.Compare(a.Ref, b.Ref) })
	return sorted, nil
}

func parse(ref string, opts []name.Option) (name.Reference, error) {
	if ref == "" {
		return nil, errors.New("it is empty")
	}
	parsed, err := name.ParseReference(ref, opts...)
	if err != nil || strings.HasSuffix(ref, ":") || strings.Contains(ref, "://") {
		return nil, fmt.Errorf("%q is not a valid image reference: write registry/repository:tag or registry/repository@digest", ref)
	}
	return parsed, nil
}

// Plan resolves images, looks for them at the target, and measures those that are absent. An unresolved image is in
// Err of the image. The error is that of ctx.
func (c *Copier) Plan(ctx context.Context, images []*Image) error {
	c.mu.Lock()
	c.state = Progress{Planning: true, AllImages: len(images)}
	c.mu.Unlock()
	defer c.report()()
	var group errgroup.Group
	group.SetLimit(c.opts.Jobs)
	for _, image := range images {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			image.Err = c.plan(ctx, image)
			c.mu.Lock()
			c.state.Images++
			c.mu.Unlock()
			return nil
		})
	}
	_ = group.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Images = 0
	return ctx.Err()
}

func (c *Copier) plan(ctx context.Context, image *Image) error {
	it := &image.item
	if it.digest.Hex == "" {
		err := c.ask(ctx, it.repo.RegistryStr(), func(ctx context.Context) (err error) {
			it.digest, err = c.from.resolve(ctx, it.repo.Tag(it.tag))
			return err
		})
		if err != nil {
			return err
		}
	}
	image.Digest = it.digest.String()
	err := c.ask(ctx, "", func(ctx context.Context) (err error) { image.Present, err = c.to.has(ctx, *it); return err })
	if err != nil || image.Present {
		return err
	}
	blobs := map[v1.Hash]int64{}
	if err := c.measure(ctx, *it, blobs, 0); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for digest, size := range blobs {
		image.Bytes += size
		if !c.counted[digest] {
			c.counted[digest] = true
			c.state.AllBytes += size
		}
	}
	return nil
}

// measure adds the sizes of the blobs of an image.
func (c *Copier) measure(ctx context.Context, it item, blobs map[v1.Hash]int64, depth int) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	n, err := c.manifest(ctx, c.from, it)
	if err != nil {
		return err
	}
	children, layers, err := n.refersTo(depth)
	if err != nil {
		return err
	}
	for _, d := range layers {
		blobs[d.Digest] = d.Size
	}
	for _, d := range children {
		if _, ok := blobs[d.Digest]; ok {
			continue // a hostile index may lead to a manifest in millions of ways
		}
		blobs[d.Digest] = 0
		child := item{kind: kindChild, repo: it.repo, catalog: it.catalog, digest: d.Digest}
		if err := c.measure(ctx, child, blobs, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// manifest returns a manifest of an origin.
func (c *Copier) manifest(ctx context.Context, from origin, it item) (n *node, err error) {
	err = c.ask(ctx, it.repo.RegistryStr(), func(ctx context.Context) (err error) { n, err = from.manifest(ctx, it); return err })
	return n, err
}

const (
	maxManifest = 16 << 20 // bytes; registries accept 4 MiB
	maxRefs     = 10_000   // in a manifest
	maxDepth    = 4        // of indexes
)

// refersTo returns the manifests and blobs that a manifest refers to, without non-distributable layers, which
// registries do not keep.
func (n *node) refersTo(depth int) (manifests, blobs []v1.Descriptor, err error) {
	if n.MediaType.IsSchema1() {
		return nil, nil, fmt.Errorf("manifest %s has the outdated format %s, which registries no longer accept: rebuild the image", n.Digest, n.MediaType)
	}
	var content struct {
		Manifests, Layers, Blobs []v1.Descriptor
		Config                   *v1.Descriptor
	}
	if err := json.Unmarshal(n.raw, &content); err != nil {
		return nil, nil, fmt.Errorf("manifest %s: %w", n.Digest, err)
	}
	blobs = append(content.Layers, content.Blobs...)
	if content.Config != nil && content.Config.Digest.Hex != "" {
		blobs = append(blobs, *content.Config)
	}
	manifests = content.Manifests
	if n.MediaType.IsIndex() {
		manifests = nil
		for _, d := range content.Manifests {
			if isManifest(d.MediaType) {
				manifests = append(manifests, d)
			} else {
				blobs = append(blobs, d)
			}
		}
	}
	switch {
	case len(manifests)+len(blobs) > maxRefs:
		return nil, nil, fmt.Errorf("manifest %s refers to %d objects; the limit is %d", n.Digest, len(manifests)+len(blobs), maxRefs)
	case len(manifests) > 0 && depth >= maxDepth:
		return nil, nil, fmt.Errorf("manifest %s: indexes are nested deeper than %d", n.Digest, maxDepth)
	}
	for _, d := range slices.Concat(manifests, blobs) {
		if d.Size < 0 || d.Digest.Hex == "" {
			return nil, nil, fmt.Errorf("manifest %s refers to an object without a digest, or with the size %d", n.Digest, d.Size)
		}
	}
	blobs = slices.DeleteFunc(blobs, func(d v1.Descriptor) bool { return !d.MediaType.IsDistributable() })
	return manifests, blobs, nil
}

// isManifest reports whether an index refers to a manifest by this type, and not to a blob.
func isManifest(t types.MediaType) bool {
	return t.IsIndex() || t.IsImage() || t.IsSchema1() || t == artifactManifest
}

// artifactManifest is the type of artifacts before OCI 1.1.
const artifactManifest types.MediaType = "application/vnd.oci.artifact.manifest.v1+json"
