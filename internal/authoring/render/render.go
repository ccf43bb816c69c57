// Package render renders bundles as blobs of schema olm.bundle. A bundle is an image or a directory of the format registry+v1. The
// results are those of `opm render`; operator-registry reads the manifests.
package render

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"text/template"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"golang.org/x/sync/errgroup"

	"github.com/operator-catalogs/catalogd/internal/authoring"
	"github.com/operator-catalogs/catalogd/internal/fbc/splice"
	"github.com/operator-catalogs/catalogd/internal/registry"
	"github.com/operator-catalogs/catalogd/internal/unpack"
)

// maxPulls is the number of images that are pulled at the same time.
const maxPulls = 16

// Labels of images, as opm sets them (operator-registry, pkg/lib/bundle/generate.go).
const (
	prefix       = "operators.operatorframework.io."
	labelPackage = prefix + "bundle.package.v1"
	labelConfigs = prefix + "index.configs.v1"
	labelSQLite  = prefix + "index.database.v1"
)

// Annotations returns the annotations of a new bundle, which are also the labels of its image.
func Annotations(pkg string, channels []string, defaultChannel string) map[string]string {
	annotations := map[string]string{
		prefix + "bundle.mediatype.v1": "registry+v1",
		prefix + "bundle.manifests.v1": "manifests/",
		prefix + "bundle.metadata.v1":  "metadata/",
		prefix + "bundle.channels.v1":  strings.Join(channels, ","),
		labelPackage:                   pkg,
	}
	if defaultChannel != "" {
		annotations[prefix+"bundle.channel.default.v1"] = defaultChannel
	}
	return annotations
}

// Options configure a Renderer. The zero value is ready for use, without a cache.
type Options struct {
	Registry authoring.Options
	// Format is the form of the manifests in the blobs.
	Format Format
	// Pin replaces tags of bundle images by digests.
	Pin bool
	// As, if not nil, is the image reference of the blobs, made of Package, Name and Version. Bundles of directories have none
	// otherwise.
	As *template.Template
	// Cache is the directory in which rendered bundles are kept; "": none.
	Cache string
	// Progress, if not nil, is called with the number of rendered images. Calls are not concurrent.
	Progress func(done, total int)
}

// Bundle is a rendered bundle.
type Bundle struct {
	declcfg.Bundle
	Release
	// Digest is that of the image, "" for a directory.
	Digest string
	// Warnings are faults of the manifests that opm ignores.
	Warnings []string
}

// Release is the place of a bundle in a catalog, as its metadata and its CSV specify it.
type Release struct {
	Channels       []string // of metadata/annotations.yaml
	DefaultChannel string
	Version        string // of the CSV, likewise the rest
	Replaces       string
	Skips          []string
	SkipRange      string
}

// Blob returns the blob of the bundle as one line of JSON.
func (b *Bundle) Blob() ([]byte, error) { return Encode(b.Bundle) }

// Encode returns a blob as compact JSON, with <, > and & as they are.
func Encode(blob any) ([]byte, error) {
	text, err := splice.Encode(blob)
	if err != nil {
		return nil, fmt.Errorf("encoding a blob: %w", err)
	}
	return text, nil
}

// PackageBlob returns an olm.package blob for the package of the bundle, with the icon and the description of its CSV.
func (b *Bundle) PackageBlob(defaultChannel string) ([]byte, error) {
	var csv struct {
		Spec struct {
			Description string
			Icon        []struct {
				Data      string `json:"base64data"`
				MediaType string
			}
		}
	}
	if err := json.Unmarshal([]byte(b.CsvJSON), &csv); err != nil {
		return nil, fmt.Errorf("reading the icon and the description of CSV %q: %w", b.Name, err)
	}
	pkg := declcfg.Package{Schema: declcfg.SchemaPackage, Name: b.Package, DefaultChannel: defaultChannel, Description: csv.Spec.Description}
	if len(csv.Spec.Icon) > 0 {
		icon := csv.Spec.Icon[0]
		// As in opm, blanks do not count, and an icon that cannot be decoded is left out.
		if data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(icon.Data), "")); err == nil && len(data) > 0 {
			pkg.Icon = &declcfg.Icon{Data: data, MediaType: icon.MediaType}
		}
	}
	return Encode(pkg)
}

// Renderer renders bundles. It may be used concurrently.
type Renderer struct {
	opts   Options
	puller *remote.Puller
	cache  cache
}

// New returns a Renderer.
func New(opts Options) (*Renderer, error) {
	puller, err := remote.NewPuller(append(opts.Registry.Remote(), remote.WithJobs(maxPulls))...)
	if err != nil {
		return nil, fmt.Errorf("setting up access to registries: %w", err)
	}
	return &Renderer{opts: opts, puller: puller, cache: cache{dir: opts.Cache}}, nil
}

// NotBundleError is the error for an image without the labels of a bundle.
type NotBundleError struct {
	Ref     string
	Catalog bool // whether it is an image of a catalog
}

func (e *NotBundleError) Error() string {
	if e.Catalog {
		return "it is an image of a catalog, not of a bundle"
	}
	return "it is not an image of a bundle: label " + labelPackage + " is missing"
}

// Bundles renders images. The results are in the order of refs. It renders all of them or fails; the error has that of each image.
func (r *Renderer) Bundles(ctx context.Context, refs []string) ([]*Bundle, error) {
	rendered, err := r.Try(ctx, refs)
	if err != nil {
		return nil, err
	}
	var errs []error
	bundles := make([]*Bundle, 0, len(refs))
	for _, ref := range refs {
		result := rendered[ref]
		if result.Err != nil {
			errs = append(errs, result.Err)
			rendered[ref] = Result{}
		}
		bundles = append(bundles, result.Bundle)
	}
	return bundles, errors.Join(errs...)
}

// Result is a rendered bundle, or the error that names its image.
type Result struct {
	Bundle *Bundle
	Err    error
}

// Try renders images, 16 at a time and each once. The results are by reference. The error is that of a canceled context.
func (r *Renderer) Try(ctx context.Context, refs []string) (map[string]Result, error) {
	var (
		mu       sync.Mutex
		rendered = map[string]Result{}
		todo     = slices.Compact(slices.Sorted(slices.Values(refs)))
		group    errgroup.Group // without a context: all failures are reported
	)
	if len(todo) > 0 {
		r.cache.prune()
	}
	group.SetLimit(maxPulls)
	for _, ref := range todo {
		group.Go(func() error {
			b, err := r.image(ctx, ref)
			if err != nil {
				err = fmt.Errorf("rendering bundle %s: %w", ref, err)
			}
			mu.Lock()
			defer mu.Unlock()
			rendered[ref] = Result{b, err}
			if r.opts.Progress != nil {
				r.opts.Progress(len(rendered), len(todo))
			}
			return nil
		})
	}
	_ = group.Wait()
	return rendered, ctx.Err()
}

// image renders an image. An image that the cache has by its digest costs no request.
func (r *Renderer) image(ctx context.Context, text string) (*Bundle, error) {
	ref, err := authoring.ParseImage(text, r.opts.Registry)
	if err != nil {
		return nil, err
	}
	digest, ok := ref.(name.Digest)
	if !ok {
		descriptor, err := r.puller.Head(ctx, ref)
		if err != nil {
			return nil, registry.Explain("resolving the tag", ref, err)
		}
		digest = ref.Context().Digest(descriptor.Digest.String())
	}
	m, ok := r.cache.get(digest.DigestStr())
	if !ok {
		if m, err = r.pull(ctx, text, digest); err != nil {
			return nil, err
		}
		r.cache.put(digest.DigestStr(), m)
	}
	if r.opts.Pin {
		text = digest.Name()
	}
	b, err := r.finish(m, text)
	if err == nil {
		b.Digest = digest.DigestStr()
	}
	return b, err
}

// pull unpacks an image and reads it.
func (r *Renderer) pull(ctx context.Context, text string, digest name.Digest) (*manifests, error) {
	dir, err := os.MkdirTemp("", "kubectl-catalog-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	choose := func(labels map[string]string) ([]string, error) {
		if labels[labelPackage] != "" {
			return []string{"manifests", "metadata"}, nil
		}
		return nil, &NotBundleError{Ref: text, Catalog: labels[labelConfigs] != "" || labels[labelSQLite] != ""}
	}
	if _, err := unpack.Directories(ctx, digest, root, unpack.Options{Remote: []remote.Option{remote.Reuse(r.puller)}}, choose); err != nil {
		return nil, err
	}
	return read(dir)
}

// IsDirectory reports whether a path is a directory with a bundle: it has the directories manifests and metadata.
func IsDirectory(dir string) bool {
	for _, child := range []string{"manifests", "metadata"} {
		if info, err := os.Stat(dir + "/" + child); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

// Directory renders a bundle in a directory.
func (r *Renderer) Directory(dir string) (*Bundle, error) {
	m, err := read(dir)
	if err != nil {
		return nil, fmt.Errorf("rendering bundle %s: %w", dir, err)
	}
	return r.finish(m, "")
}

// finish makes a bundle of manifests. image is its reference, unless Options.As names another.
func (r *Renderer) finish(m *manifests, image string) (*Bundle, error) {
	if r.opts.As != nil {
		var out strings.Builder
		data := struct{ Package, Name, Version string }{m.Bundle.Package, m.Bundle.Name, m.Release.Version}
		if err := r.opts.As.Execute(&out, data); err != nil {
			return nil, fmt.Errorf("making the image reference: %w", err)
		}
		image = out.String()
	}
	b := &Bundle{Bundle: m.Bundle, Release: m.Release, Warnings: m.Warnings}
	b.CsvJSON, b.Objects = m.CSV, m.Objects
	if image != "" {
		b.Image = image
		addRelated(&b.Bundle, image)
	}
	return b, r.opts.Format.Apply(&b.Bundle)
}
