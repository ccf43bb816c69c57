package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"

	"github.com/operator-catalogs/catalogd/internal/testing/process"
	"github.com/operator-catalogs/catalogd/internal/testing/registry"
)

// The images of a mirror: each for two architectures with a layer of its own. Some share a base.
const (
	mirrorImages = 60
	mirrorShares = 10 // images with the same base
	mirrorBase   = 8 << 20
	mirrorLayer  = 1 << 20
	mirrorJobs   = 8
)

// mirrorCatalog compares the plugin with crane copy of the same images.
func mirrorCatalog(ctx context.Context, e *env) (Row, error) {
	row := Row{
		What:      fmt.Sprintf("%d images of 2 architectures, from one loopback registry to an empty one", mirrorImages),
		Figure:    Series{What: "kubectl-catalog mirror --all: process start -> end", Unit: "MB/s"},
		Yardstick: Series{What: fmt.Sprintf("crane.Copy of these images, %d at a time", mirrorJobs), Unit: "MB/s"},
	}
	row.atLeast(.8)
	w, err := e.mirrorWorld(ctx)
	if err != nil {
		return row, err
	}
	defer w.close()
	self, err := os.Executable()
	if err != nil {
		return row, err
	}
	var peaks, again []float64
	figure := func(ctx context.Context) (float64, error) {
		return w.measure(ctx, func(to string) error {
			args := []string{"mirror", w.catalog, "--all", "--to", to + "/mirror", "--jobs", strconv.Itoa(mirrorJobs), "-o", filepath.Join(w.dir, "manifests")}
			peak, err := runMeasured(ctx, filepath.Join(w.dir, "log"), e.plugin, args...)
			peaks = append(peaks, peak)
			return err
		}, func(to string) error {
			began := time.Now()
			_, err := process.Run(ctx, e.plugin, "mirror", w.catalog, "--all", "--to", to+"/mirror", "-o", filepath.Join(w.dir, "manifests"))
			again = append(again, time.Since(began).Seconds())
			return err
		})
	}
	yardstick := func(ctx context.Context) (float64, error) {
		return w.measure(ctx, func(to string) error {
			_, err := process.Run(ctx, self, craneCommand, w.list, to)
			return err
		}, nil)
	}
	if err := e.alternate(ctx, &row, e.runs, figure, yardstick); err != nil {
		return row, err
	}
	row.note("%.0f MB of distinct blobs; peak memory of the plugin: %s", float64(w.bytes)/1e6, newSeries("", "MiB", peaks...))
	row.note("a second run, which finds all images at the target: %s", newSeries("", "s", again...))
	row.note("the plugin also looks for signatures, tags the images and pushes the catalog")
	return row, nil
}

// mirrorWorld is a registry with images and a catalog that names them.
type mirrorWorld struct {
	dir, catalog, list string
	bytes              int64 // of distinct blobs
	source             *http.Server
}

func (w *mirrorWorld) close() {
	if w.source != nil {
		_ = w.source.Close()
	}
	_ = os.RemoveAll(w.dir)
}

func (e *env) mirrorWorld(ctx context.Context) (w *mirrorWorld, err error) {
	w = &mirrorWorld{dir: filepath.Join(e.dir, "mirror")}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.source, err = registry.Listen("127.0.0.1:0", filepath.Join(w.dir, "source"), io.Discard, func(*http.Request) {}); err != nil {
		return w, err
	}
	w.catalog, w.list = filepath.Join(w.dir, "catalog.json"), filepath.Join(w.dir, "images")
	random := rand.NewChaCha8([32]byte{})
	var base v1.Layer
	var blobs, list, entries []string
	for i := range mirrorImages {
		if i%mirrorShares == 0 {
			base = randomLayer(random, mirrorBase)
			w.bytes += mirrorBase
		}
		ref, err := w.push(ctx, i, base, random)
		if err != nil {
			return w, err
		}
		w.bytes += 2 * mirrorLayer
		list = append(list, ref)
		blobs = append(blobs, fmt.Sprintf(`{"schema":"olm.bundle","package":"demo","name":"demo.v%d","image":%q,"properties":[`+
			`{"type":"olm.package","value":{"packageName":"demo","version":"%[1]d.0.0"}},{"type":"olm.csv.metadata","value":{}}]}`, i, ref))
		entry := map[string]string{"name": fmt.Sprintf("demo.v%d", i)}
		if i > 0 {
			entry["replaces"] = fmt.Sprintf("demo.v%d", i-1)
		}
		text, err := json.Marshal(entry)
		if err != nil {
			return w, err
		}
		entries = append(entries, string(text))
	}
	blobs = append(blobs, `{"schema":"olm.package","name":"demo","defaultChannel":"c"}`,
		`{"schema":"olm.channel","package":"demo","name":"c","entries":[`+strings.Join(entries, ",")+`]}`)
	return w, errors.Join(os.WriteFile(w.catalog, []byte(strings.Join(blobs, "\n")), 0o600),
		os.WriteFile(w.list, []byte(strings.Join(list, "\n")+"\n"), 0o600))
}

func randomLayer(random *rand.ChaCha8, size int) v1.Layer {
	content := make([]byte, size)
	_, _ = random.Read(content) // it never fails
	return static.NewLayer(content, types.OCILayer)
}

// push pushes an image for two architectures and returns its reference by digest.
func (w *mirrorWorld) push(ctx context.Context, i int, base v1.Layer, random *rand.ChaCha8) (string, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range []string{"amd64", "arm64"} {
		image, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), base, randomLayer(random, mirrorLayer))
		if err != nil {
			return "", err
		}
		platform := &v1.Platform{OS: "linux", Architecture: architecture}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	tag, err := name.NewTag(fmt.Sprintf("%s/bench/image-%d:v1", w.source.Addr, i))
	if err != nil {
		return "", err
	}
	if err := remote.WriteIndex(tag, index, remote.WithContext(ctx)); err != nil {
		return "", err
	}
	digest, err := index.Digest()
	return tag.Context().Digest(digest.String()).String(), err
}

// measure returns the megabytes per second of a copy to an empty registry. then, if not nil, follows and is not measured.
func (w *mirrorWorld) measure(ctx context.Context, run, then func(to string) error) (rate float64, err error) {
	dir := filepath.Join(w.dir, "target")
	target, err := registry.Listen("127.0.0.1:0", dir, io.Discard, func(*http.Request) {})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, target.Close(), os.RemoveAll(dir)) }()
	if err := flush(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := run(target.Addr); err != nil {
		return 0, err
	}
	rate = float64(w.bytes) / 1e6 / time.Since(began).Seconds()
	if then != nil {
		err = then(target.Addr)
	}
	return rate, err
}

// runMeasured runs a program to its end, and returns its peak memory in MiB.
func runMeasured(ctx context.Context, log, program string, args ...string) (peak float64, err error) {
	child, err := process.Start(filepath.Base(program), log, program, args...)
	if err != nil {
		return 0, err
	}
	err = process.Every(ctx, 5*time.Millisecond, func() (bool, error) {
		if now, err := peakMemory(child.PID()); err == nil { // it may have exited
			peak = max(peak, now)
		}
		return child.Ended() != nil, nil
	})
	if err != nil {
		child.Kill()
		return 0, err
	}
	return peak, child.Failed()
}

// craneCommand makes this program copy the images of a list to a registry, as crane copy does.
const craneCommand = "crane-copy"

func craneCopy(ctx context.Context, list, to string) error {
	file, err := os.Open(list)
	if err != nil {
		return err
	}
	defer file.Close()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(mirrorJobs)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		from := lines.Text()
		group.Go(func() error {
			repository, _, _ := strings.Cut(from, "@")
			return crane.Copy(from, to+"/mirror/"+repository[strings.Index(repository, "/")+1:]+":v1", crane.WithContext(ctx))
		})
	}
	return group.Wait()
}
