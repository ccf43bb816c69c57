package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/operator-catalogs/catalogd/internal/catalogimage"
	"github.com/operator-catalogs/catalogd/internal/testing/catalogs"
	"github.com/operator-catalogs/catalogd/internal/testing/process"
	"github.com/operator-catalogs/catalogd/internal/testing/registry"
)

// catalog is a catalog as an image and, unless it is a variant, as a directory.
type catalog struct {
	dir   string
	stats catalogs.Stats // of a generated catalog; of others only Blobs, once it is known
	image v1.ImageIndex
	layer v1.Layer // the only one
}

// newCatalog builds the image of a directory.
func newCatalog(dir string, stats catalogs.Stats) (*catalog, error) {
	c := &catalog{dir: dir, stats: stats}
	var err error
	if c.image, err = catalogimage.Build(dir); err != nil {
		return nil, err
	}
	manifest, err := c.image.IndexManifest()
	if err != nil {
		return nil, err
	}
	image, err := c.image.Image(manifest.Manifests[0].Digest)
	if err != nil {
		return nil, err
	}
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	c.layer = layers[0]
	return c, nil
}

// generated returns a generated catalog. Its files are kept in the cache; their counts are written last, and files
// without them are generated again.
func (e *env) generated(ctx context.Context, shape catalogs.Shape) (*catalog, error) {
	dir := filepath.Join(e.cacheDir, shape.Key())
	counts := dir + ".counts.json"
	var stats catalogs.Stats
	text, err := os.ReadFile(counts)
	if err == nil && json.Unmarshal(text, &stats) == nil {
		return newCatalog(dir, stats)
	}
	began := time.Now()
	if stats, err = e.generate(ctx, shape, dir); err != nil {
		return nil, fmt.Errorf("generating a catalog: %w", err)
	}
	e.say("generating a catalog of %d bundles, %.1f MB: %.1f s", shape.Bundles, float64(shape.Bytes)/1e6, time.Since(began).Seconds())
	if text, err = json.MarshalIndent(stats, "", "  "); err != nil {
		return nil, err
	}
	if err := os.WriteFile(counts, text, 0o644); err != nil {
		return nil, err
	}
	return newCatalog(dir, stats)
}

func (e *env) generate(ctx context.Context, shape catalogs.Shape, dir string) (stats catalogs.Stats, err error) {
	if err := os.RemoveAll(dir); err != nil {
		return stats, err
	}
	said := time.Now()
	return stats, shape.Files(ctx, func(f catalogs.File) error {
		stats.Add(f.Stats)
		if time.Since(said) > 15*time.Second {
			said = time.Now()
			e.say("  generated %d of %d bundles", stats.Bundles, shape.Bundles)
		}
		file := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		return os.WriteFile(file, f.Content, 0o644)
	})
}

// given returns the catalog that --catalog names: a directory, which becomes /configs, or a tar archive with configs/ in it.
func (e *env) given(ctx context.Context) (c *catalog, err error) {
	dir := e.catalog
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		dir, err = e.extract(ctx, dir)
	}
	if err == nil {
		_, err = medianFile(dir)
	}
	if err == nil {
		c, err = newCatalog(dir, catalogs.Stats{})
	}
	if err != nil {
		return nil, fmt.Errorf("--catalog %s: %w", e.catalog, err)
	}
	return c, nil
}

// extract extracts a tar archive, compressed or not, and returns the directory configs in it.
func (e *env) extract(ctx context.Context, archive string) (dir string, err error) {
	if dir, err = os.MkdirTemp(e.dir, "given-"); err != nil {
		return "", err
	}
	_, err = process.Run(ctx, "tar", "xf", archive, "-C", dir)
	return filepath.Join(dir, "configs"), err
}

// changed returns a variant of the catalog, with one more blob in the file of median size.
func (e *env) changed(c *catalog, number int) (*catalog, error) {
	dir, err := os.MkdirTemp(e.dir, "variant-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) // the image has its own copy
	if err := os.CopyFS(dir, os.DirFS(c.dir)); err != nil {
		return nil, err
	}
	name, err := medianFile(dir)
	if err != nil {
		return nil, err
	}
	blob := fmt.Sprintf("{\"schema\":\"bench.example.com/v1\",\"name\":\"variant-%d\"}\n", number)
	if path.Ext(name) != ".json" {
		blob = "---\n" + blob
	}
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), append(content, blob...), 0o644)
	}
	if err != nil {
		return nil, err
	}
	stats := c.stats
	if stats.Blobs > 0 { // 0 is unknown
		stats.Blobs++
	}
	variant, err := newCatalog(dir, stats)
	if err != nil {
		return nil, err
	}
	variant.dir = ""
	return variant, nil
}

// medianFile returns the path in a directory of the JSON or YAML file of median size.
func medianFile(dir string) (string, error) {
	type sized struct {
		name string
		size int64
	}
	var files []sized
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".json", ".yaml", ".yml"}, path.Ext(name)) {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			files = append(files, sized{name, info.Size()})
		}
		return err
	})
	if err == nil && len(files) == 0 {
		err = errors.New("no JSON or YAML file: set a directory for /configs, or a tar archive with configs/ in it")
	}
	if err != nil {
		return "", err
	}
	slices.SortFunc(files, func(a, b sized) int { return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.name, b.name)) })
	return files[len(files)/2].name, nil
}

// found is a package in the content of a catalog.
type found struct {
	name        string
	blob, total int // bytes of its olm.package blob, and of all its blobs
}

// findPackages reads JSON lines.
func findPackages(all []byte) ([]found, error) {
	var list []found
	numbers := map[string]int{}
	for line := range bytes.Lines(all) {
		var blob struct{ Schema, Name, Package string }
		if err := json.Unmarshal(line, &blob); err != nil {
			return nil, fmt.Errorf("reading /all: %w", err)
		}
		of := blob.Package
		if blob.Schema == "olm.package" {
			of = blob.Name
		}
		if of == "" {
			continue
		}
		i, ok := numbers[of]
		if !ok {
			i = len(list)
			numbers[of] = i
			list = append(list, found{name: of})
		}
		list[i].total += len(line)
		if blob.Schema == "olm.package" {
			list[i].blob = len(line)
		}
	}
	if len(list) == 0 {
		return nil, errors.New("the catalog has no packages")
	}
	return list, nil
}

// nearest returns the package whose size is nearest to the wanted one.
func nearest(list []found, want int, size func(found) int) found {
	best := list[0]
	for _, f := range list {
		if math.Abs(float64(size(f)-want)) < math.Abs(float64(size(best)-want)) {
			best = f
		}
	}
	return best
}

// imageRegistry is an HTTP registry on loopback. It serves blobs from files, and counts requests.
type imageRegistry struct {
	server     *http.Server
	dir        string       // of the blobs
	all, heads atomic.Int64 // requests, and HEAD requests
}

func startRegistry(dir string) (r *imageRegistry, err error) {
	r = &imageRegistry{dir: dir}
	r.server, err = registry.Listen("127.0.0.1:0", dir, io.Discard, func(request *http.Request) {
		r.all.Add(1)
		if request.Method == http.MethodHead {
			r.heads.Add(1)
		}
	})
	return r, err
}

// counts returns the number of requests, and of HEAD requests.
func (r *imageRegistry) counts() (all, heads int) { return int(r.all.Load()), int(r.heads.Load()) }

// publish pushes a catalog as repository:latest and returns the reference and the digest.
func (r *imageRegistry) publish(ctx context.Context, repository string, c *catalog) (ref, digest string, err error) {
	ref = r.server.Addr + "/" + repository + ":latest"
	digest, err = registry.Push(ctx, ref, c.image)
	return ref, digest, err
}

// layerFile returns the gzipped tar archive of a published catalog.
func (r *imageRegistry) layerFile(c *catalog) (string, error) {
	hash, err := c.layer.Digest()
	return filepath.Join(r.dir, hash.Algorithm, hash.Hex), err
}
