package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/operator-catalogs/catalogd/bench/load"
	"github.com/operator-catalogs/catalogd/internal/bundle"
)

// A bundle of median size: of 122 bundles of the community operators, the median has 16 files of 153 kB, the largest of 63 kB.
const (
	bundleFiles     = 16
	bundleBytes     = 153_000
	bundleLargest   = 63_000
	bundledCatalog  = "bundled"
	bundledViewPath = "/catalogs/" + bundledCatalog + "/api/v1/packages/demo/bundles/demo.v1/"
)

// bundleRow compares a view of a cached bundle with nginx.
func bundleRow(view string) func(context.Context, *env) (Row, error) {
	return func(ctx context.Context, e *env) (Row, error) {
		row := Row{
			What:      view + " of a cached bundle of median size",
			Figure:    Series{What: ".../bundles/X/" + view, Unit: "req/s"},
			Yardstick: Series{What: "nginx, a file of those bytes", Unit: "req/s"},
		}
		row.atLeast(.5)
		r, err := e.besideNginx(ctx)
		if err != nil {
			return row, err
		}
		if err := e.serveBundle(ctx, r); err != nil {
			return row, err
		}
		return row, e.requests(ctx, r, &row, bundledViewPath+view, "bundle-"+view)
	}
}

// serveBundle serves a catalog whose bundle is in an image, and has catalogd pull that.
func (e *env) serveBundle(ctx context.Context, r *readerWorld) error {
	view := load.Target{Address: r.content, Path: bundledViewPath + "content"}
	if _, err := load.Get(ctx, view); err == nil {
		return nil
	}
	image, err := e.pushBundle(ctx)
	if err != nil {
		return err
	}
	dir := filepath.Join(e.dir, bundledCatalog)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	blobs := fmt.Sprintf(`{"schema":"olm.package","name":"demo","defaultChannel":"c"}
{"schema":"olm.channel","package":"demo","name":"c","entries":[{"name":"demo.v1"}]}
{"schema":"olm.bundle","package":"demo","name":"demo.v1","image":%q,"properties":[
{"type":"olm.package","value":{"packageName":"demo","version":"1.0.0"}},{"type":"olm.csv.metadata","value":{"displayName":"Demo"}}]}`, image)
	if err := os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(blobs), 0o600); err != nil {
		return err
	}
	c, err := newCatalog(dir, e.base.stats)
	if err != nil {
		return err
	}
	ref, _, err := e.registry.publish(ctx, "bench/"+bundledCatalog, c)
	if err != nil {
		return err
	}
	if err := e.cluster.create(ctx, bundledCatalog, ref, neverPoll); err != nil {
		return err
	}
	if err := e.cluster.waitFor(ctx, r.daemon, bundledCatalog, "PackagesSynced"); err != nil {
		return err
	}
	_, err = load.Get(ctx, view)
	return err
}

// pushBundle pushes a bundle image and returns its reference by digest.
func (e *env) pushBundle(ctx context.Context) (ref string, err error) {
	var files bytes.Buffer
	archive := tar.NewWriter(&files)
	for i := range bundleFiles {
		size := (bundleBytes - bundleLargest) / (bundleFiles - 1)
		if i == 0 {
			size = bundleLargest
		}
		text := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: demo-%d\ndata:\n  text: ", i)
		text += strings.Repeat("x", size-len(text)-1) + "\n"
		header := &tar.Header{Name: fmt.Sprintf("manifests/%02d.yaml", i), Size: int64(len(text)), Mode: 0o644}
		if err := archive.WriteHeader(header); err != nil {
			return "", err
		}
		if _, err := archive.Write([]byte(text)); err != nil {
			return "", err
		}
	}
	if err := archive.Close(); err != nil {
		return "", err
	}
	layer := static.NewLayer(files.Bytes(), types.OCILayer)
	image, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), layer)
	if err != nil {
		return "", err
	}
	image, err = mutate.Config(image, v1.Config{Labels: map[string]string{
		bundle.MediaTypeLabel: bundle.MediaType, bundle.PackageLabel: "demo",
	}})
	if err != nil {
		return "", err
	}
	digest, err := image.Digest()
	if err != nil {
		return "", err
	}
	at, err := name.NewDigest(e.registry.server.Addr + "/bench/bundle@" + digest.String())
	if err != nil {
		return "", err
	}
	return at.String(), remote.Write(at, image, remote.WithContext(ctx))
}
