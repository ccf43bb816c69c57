// Package image tests the container image that `make image` builds.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// entry is a file of an image, without its content.
type entry struct {
	name  string
	mode  int64
	owner string
}

// TestImage builds the image for this machine twice, as `make image` does, and runs it.
func TestImage(t *testing.T) {
	image := built(t)
	if again := built(t); digest(t, again) != digest(t, image) {
		t.Errorf("the same source gave %s, then %s", digest(t, image), digest(t, again))
	}
	if err := validate.Image(image); err != nil {
		t.Error(err)
	}
	entries, files := contents(t, image)
	want := []entry{
		{"etc/", 0o755, "0:0"}, {"etc/ssl/", 0o755, "0:0"}, {"etc/ssl/certs/", 0o755, "0:0"}, {"etc/ssl/certs/ca-certificates.crt", 0o644, "0:0"},
		{"catalogd", 0o755, "0:0"},
		{"usr/", 0o755, "0:0"}, {"usr/share/", 0o755, "0:0"}, {"usr/share/doc/", 0o755, "0:0"}, {"usr/share/doc/catalogd/", 0o755, "0:0"},
		{"usr/share/doc/catalogd/sbom.cdx.json", 0o644, "0:0"},
		{"var/", 0o755, "0:0"}, {"var/lib/", 0o755, "0:0"}, {"var/lib/catalogd/", 0o755, "65532:65532"},
	}
	if diff := cmp.Diff(want, entries, cmp.AllowUnexported(entry{})); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	config, err := image.ConfigFile()
	must.Succeed(t, err)
	if config.Config.User != "65532:65532" ||
		!cmp.Equal(config.Config.Entrypoint, []string{"/catalogd"}) || config.Architecture != runtime.GOARCH {
		t.Errorf("user %q, entrypoint %q, architecture %q", config.Config.User, config.Config.Entrypoint, config.Architecture)
	}
	if said := runBinary(t, files["catalogd"]); said != "catalogd v1.2.3\n" {
		t.Errorf("the program says %q", said)
	}
	program, err := elf.NewFile(bytes.NewReader(files["catalogd"]))
	must.Succeed(t, err)
	if program.Section(".symtab") != nil || program.Section(".debug_info") != nil {
		t.Error("the program has symbols or debug information: strip it")
	}
	checkSBOM(t, files["usr/share/doc/catalogd/sbom.cdx.json"])
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(files["etc/ssl/certs/ca-certificates.crt"]) {
		t.Error("the file of authorities has no certificate")
	}
}

// built is the image for this machine's platform.
func built(t *testing.T) v1.Image {
	t.Helper()
	out := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "run", "./hack/image", "--out", out, "--platforms", "linux/"+runtime.GOARCH, "--version",
		"v1.2.3", "--revision", "abc", "build")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1795348800")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	all, err := layout.ImageIndexFromPath(filepath.Join(out, "image"))
	must.Succeed(t, err)
	hash, err := v1.NewHash(strings.TrimSpace(stdout.String()))
	must.Succeed(t, err)
	index, err := all.ImageIndex(hash)
	must.Succeed(t, err)
	manifest, err := index.IndexManifest()
	must.Succeed(t, err)
	if len(manifest.Manifests) != 1 {
		t.Fatalf("%d images, want 1", len(manifest.Manifests))
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	must.Succeed(t, err)
	return image
}

func checkSBOM(t *testing.T, text []byte) {
	t.Helper()
	var bom struct {
		BOMFormat    string
		SerialNumber string
		Metadata     struct {
			Timestamp string
			Component struct{ Purl string }
		}
		Components []struct{ Purl string }
	}
	must.Succeed(t, json.Unmarshal(text, &bom))
	if bom.BOMFormat != "CycloneDX" || bom.SerialNumber != "" || bom.Metadata.Timestamp != "2026-11-22T12:00:00Z" ||
		bom.Metadata.Component.Purl != "pkg:golang/github.com/operator-catalogs/catalogd@v1.2.3" {
		t.Errorf("the SBOM begins %+v", bom)
	}
	var all []string
	for _, component := range bom.Components {
		all = append(all, component.Purl)
	}
	for _, want := range []string{
		"pkg:golang/stdlib@1.", "pkg:golang/k8s.io/client-go@v0.", "pkg:golang/golang.org/x/crypto/x509roots/fallback@v0.",
	} {
		if n := strings.Count("\n"+strings.Join(all, "\n"), "\n"+want); n != 1 {
			t.Errorf("%d components begin with %s, want 1:\n%s", n, want, strings.Join(all, "\n"))
		}
	}
}

// runBinary runs the program of the image with --version.
func runBinary(t *testing.T, program []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "catalogd")
	must.Succeed(t, os.WriteFile(path, program, 0o755))
	cmd := exec.CommandContext(t.Context(), path, "--version")
	cmd.Env = []string{}
	out, err := cmd.CombinedOutput()
	must.Succeed(t, err)
	return string(out)
}

// contents reads all layers, one after another.
func contents(t *testing.T, image v1.Image) (entries []entry, files map[string][]byte) {
	t.Helper()
	files = map[string][]byte{}
	layers, err := image.Layers()
	must.Succeed(t, err)
	for _, layer := range layers {
		packed, err := layer.Uncompressed()
		must.Succeed(t, err)
		for archive := tar.NewReader(packed); ; {
			header, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			must.Succeed(t, err)
			if !header.ModTime.Equal(time.Unix(0, 0)) {
				t.Errorf("%s is of %s, want no time", header.Name, header.ModTime)
			}
			entries = append(entries, entry{header.Name, header.Mode, fmt.Sprintf("%d:%d", header.Uid, header.Gid)})
			files[header.Name], err = io.ReadAll(archive)
			must.Succeed(t, err)
		}
	}
	return entries, files
}

func digest(t *testing.T, of v1.Image) v1.Hash {
	t.Helper()
	digest, err := of.Digest()
	must.Succeed(t, err)
	return digest
}
