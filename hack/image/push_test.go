package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/operator-catalogs/catalogd/hack/reproducible"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
	"github.com/operator-catalogs/catalogd/internal/testing/registry"
)

// some is a release.
var some = release{version: "v1.2.3", revision: "abc", created: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}

// TestPush pushes the built index, for every platform.
func TestPush(t *testing.T) {
	host := registry.Start(t, nil)
	out, want := saved(t)

	var stdout bytes.Buffer
	must.Succeed(t, run(t.Context(), []string{"--out", out, "push", host + "/catalogd:v1"}, &stdout, io.Discard))
	if got := stdout.String(); got != host+"/catalogd@"+digest(t, want).String()+"\n" {
		t.Errorf("printed %q, want %s", got, digest(t, want))
	}
	ref, err := name.ParseReference(host + "/catalogd:v1")
	must.Succeed(t, err)
	index, err := remote.Index(ref)
	must.Succeed(t, err)
	must.Succeed(t, validate.Index(index))
	if digest(t, index) != digest(t, want) {
		t.Errorf("%s stands in the registry, want %s", digest(t, index), digest(t, want))
	}
	manifest, err := index.IndexManifest()
	must.Succeed(t, err)
	var platforms []string
	for _, image := range manifest.Manifests {
		platforms = append(platforms, image.Platform.String())
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64", "linux/s390x"}, platforms); diff != "" {
		t.Errorf("platforms (-want +got):\n%s", diff)
	}
	if manifest.Annotations["org.opencontainers.image.version"] != some.version ||
		manifest.Annotations["org.opencontainers.image.revision"] != some.revision {
		t.Errorf("annotations: %v", manifest.Annotations)
	}
}

// The archive has the files of the layout, and the name of the image after `docker load`.
func TestArchive(t *testing.T) {
	out, _ := saved(t)
	dir := t.TempDir()
	packed, err := os.Open(filepath.Join(out, "image.tar"))
	must.Succeed(t, err)
	defer packed.Close()
	for archive := tar.NewReader(packed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must.Succeed(t, err)
		path := filepath.Join(dir, header.Name)
		if header.Typeflag == tar.TypeDir {
			must.Succeed(t, os.Mkdir(path, 0o755))
			continue
		}
		data, err := io.ReadAll(archive)
		must.Succeed(t, err)
		must.Succeed(t, os.WriteFile(path, data, 0o600))
	}
	must.Succeed(t, validate.Index(load(t, dir)))
	all, err := layout.ImageIndexFromPath(dir)
	must.Succeed(t, err)
	manifest, err := all.IndexManifest()
	must.Succeed(t, err)
	if got := manifest.Manifests[0].Annotations["io.containerd.image.name"]; got != "ghcr.io/operator-catalogs/catalogd:v1.2.3" {
		t.Errorf("it is called %q", got)
	}
}

func TestErrorsNameTheRemedy(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	out, _ := saved(t)
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"nothing":        {nil, "want build, or push IMAGE; see --help"},
		"unknown flag":   {[]string{"--force", "build"}, "see --help"},
		"no image":       {[]string{"push"}, "want build, or push IMAGE"},
		"platform":       {[]string{"--platforms", "amd64", "build"}, `invalid platform "amd64"; use the form linux/arm64`},
		"nothing built":  {[]string{"--out", t.TempDir(), "push", "127.0.0.1:1/c"}, "build the image first"},
		"bad reference":  {[]string{"--out", out, "push", "Not An Image"}, "use the form registry.example/catalogd:v1"},
		"no registry":    {[]string{"--out", out, "push", strings.TrimPrefix(closed.URL, "http://") + "/c"}, "pushing to 127.0.0.1:"},
		"other platform": {[]string{"--platforms", "windows/amd64", "build"}, `invalid platform "windows/amd64"`},
	} {
		t.Run(name, func(t *testing.T) {
			if err := run(t.Context(), test.args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one that says %q", err, test.want)
			}
		})
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if err := run(t.Context(), []string{"build"}, io.Discard, io.Discard); err == nil ||
		!strings.Contains(err.Error(), "expected seconds since 1970") {
		t.Errorf("got error %v", err)
	}
}

// saved writes an image for three platforms, with an empty program in place of catalogd.
func saved(t *testing.T) (out string, index v1.ImageIndex) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "nothing")
	must.Succeed(t, os.WriteFile(program+".go", []byte("package main\n\nfunc main() {}\n"), 0o600))
	command := exec.CommandContext(t.Context(), "go", "build", "-o", program, program+".go")
	command.Env = append(os.Environ(), reproducible.Settled...)
	if text, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	index, err := assemble(map[string]string{"linux/s390x": program, "linux/amd64": program, "linux/arm64": program}, some)
	must.Succeed(t, err)
	out = t.TempDir()
	must.Succeed(t, save(index, options{out: out, release: some}))
	return out, index
}

// load reads the index of a layout.
func load(t *testing.T, dir string) v1.ImageIndex {
	t.Helper()
	all, err := layout.ImageIndexFromPath(dir)
	must.Succeed(t, err)
	manifest, err := all.IndexManifest()
	must.Succeed(t, err)
	if len(manifest.Manifests) != 1 {
		t.Fatalf("%d indexes, want 1", len(manifest.Manifests))
	}
	index, err := all.ImageIndex(manifest.Manifests[0].Digest)
	must.Succeed(t, err)
	return index
}

func digest(t *testing.T, of interface{ Digest() (v1.Hash, error) }) v1.Hash {
	t.Helper()
	digest, err := of.Digest()
	must.Succeed(t, err)
	return digest
}
