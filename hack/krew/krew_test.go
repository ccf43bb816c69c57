package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// pluginManifest is krew's manifest: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest.
type pluginManifest struct {
	APIVersion string                `json:"apiVersion"`
	Kind       string                `json:"kind"`
	Metadata   struct{ Name string } `json:"metadata"`
	Spec       struct {
		Version          string             `json:"version"`
		Homepage         string             `json:"homepage"`
		ShortDescription string             `json:"shortDescription"`
		Description      string             `json:"description"`
		Caveats          string             `json:"caveats"`
		Platforms        []manifestPlatform `json:"platforms"`
	} `json:"spec"`
}

type manifestPlatform struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	URI    string `json:"uri"`
	SHA256 string `json:"sha256"`
	Bin    string `json:"bin"`
}

// The manifest is valid for krew, and each of its archives exists, with the stated digest and the program.
func TestManifest(t *testing.T) {
	out := t.TempDir()
	archives := packed(t, out)
	must.Succeed(t, writeManifest(options{out: out, version: "v1.2.3", url: "https://example.com/v1.2.3/"}, archives))
	text, err := os.ReadFile(filepath.Join(out, "catalog.yaml"))
	must.Succeed(t, err)
	var m pluginManifest
	must.Succeed(t, yaml.UnmarshalStrict(text, &m))
	if m.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" ||
		m.Kind != "Plugin" || m.Metadata.Name != "catalog" || m.Spec.Version != "v1.2.3" {
		t.Errorf("it begins %s %s %s %s", m.APIVersion, m.Kind, m.Metadata.Name, m.Spec.Version)
	}
	if short := m.Spec.ShortDescription; short == "" || len(short) > 50 || strings.ContainsAny(short, "\r\n") {
		t.Errorf("the short description %q is not one line of at most 50 characters", short)
	}
	if m.Spec.Homepage == "" || m.Spec.Description == "" ||
		!strings.Contains(m.Spec.Caveats, "store/catalog/v1.2.3/kubectl_complete-catalog") {
		t.Errorf("homepage %q, description %q, caveats %q", m.Spec.Homepage, m.Spec.Description, m.Spec.Caveats)
	}
	var platforms []string
	for _, p := range m.Spec.Platforms {
		labels := p.Selector.MatchLabels
		platforms = append(platforms, labels["os"]+"/"+labels["arch"])
		name, ok := strings.CutPrefix(p.URI, "https://example.com/v1.2.3/")
		if !ok || len(labels) != 2 || !regexp.MustCompile(`^[a-f0-9]{64}$`).MatchString(p.SHA256) {
			t.Errorf("%+v", p)
		}
		data, err := os.ReadFile(filepath.Join(out, name))
		must.Succeed(t, err)
		if got := fmt.Sprintf("%x", sha256.Sum256(data)); got != p.SHA256 {
			t.Errorf("the digest of %s is %s, the manifest says %s", name, got, p.SHA256)
		}
		if _, ok := contents(t, filepath.Join(out, name))[p.Bin]; !ok {
			t.Errorf("%s has no %s", name, p.Bin)
		}
	}
	if diff := cmp.Diff(defaultPlatforms, platforms); diff != "" {
		t.Errorf("platforms (-want +got):\n%s", diff)
	}
}

func TestArchives(t *testing.T) {
	out := t.TempDir()
	archives := packed(t, out)
	for _, test := range []struct{ name, program string }{
		{"kubectl-catalog_v1.2.3_linux_amd64.tar.gz", "kubectl-catalog"},
		{"kubectl-catalog_v1.2.3_darwin_arm64.tar.gz", "kubectl-catalog"},
		{"kubectl-catalog_v1.2.3_windows_amd64.zip", "kubectl-catalog.exe"},
	} {
		want := map[string]string{
			test.program:                     "-rwxr-xr-x program",
			"LICENSE":                        "-rw-r--r-- licence",
			"kubectl_complete-catalog":       "-rwxr-xr-x script",
			"man/":                           "drwxr-xr-x ",
			"man/man1/":                      "drwxr-xr-x ",
			"man/man1/kubectl-catalog.1":     "-rw-r--r-- page",
			"man/man1/kubectl-catalog-get.1": "-rw-r--r-- another",
		}
		if diff := cmp.Diff(want, contents(t, filepath.Join(out, test.name))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
	if diff := cmp.Diff(archives, packed(t, t.TempDir())); diff != "" {
		t.Errorf("packed again (-first +second):\n%s", diff)
	}
}

func TestErrorsNameTheRemedy(t *testing.T) {
	t.Chdir(t.TempDir()) // a directory without files to pack
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no version":        {nil, `krew takes versions like v1.2.3, not ""`},
		"version without v": {[]string{"--version", "1.2.3"}, `not "1.2.3"`},
		"no version at all": {[]string{"--version", "vnext"}, `not "vnext"`},
		"unknown flag":      {[]string{"--force"}, "see --help"},
		"argument":          {[]string{"--version", "v1.2.3", "build"}, `unexpected argument "build"`},
		"platform":          {[]string{"--version", "v1.2.3", "--platforms", "linux"}, "use the form linux/arm64"},
		"other directory":   {[]string{"--version", "v1.2.3"}, "in the root of the repository"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := run(t.Context(), test.args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one that says %q", err, test.want)
			}
		})
	}
}

// packed makes archives for all platforms with a stub of the plugin.
func packed(t *testing.T, out string) (archives []archive) {
	t.Helper()
	with, err := besides(fstest.MapFS{
		"LICENSE": {Data: []byte("licence")},
		"cmd/kubectl-catalog/kubectl_complete-catalog": {Data: []byte("script")},
		"docs/cli/man/kubectl-catalog.1":               {Data: []byte("page")},
		"docs/cli/man/kubectl-catalog-get.1":           {Data: []byte("another")},
	})
	must.Succeed(t, err)
	for _, text := range defaultPlatforms {
		p, err := parsePlatform(text)
		must.Succeed(t, err)
		a, err := pack(options{out: out, version: "v1.2.3"}, p, []byte("program"), with)
		must.Succeed(t, err)
		archives = append(archives, a)
	}
	return archives
}

// contents reads an archive: mode and data by name.
func contents(t *testing.T, file string) map[string]string {
	t.Helper()
	found := map[string]string{}
	if strings.HasSuffix(file, ".zip") {
		archive, err := zip.OpenReader(file)
		must.Succeed(t, err)
		defer archive.Close()
		for _, f := range archive.File {
			r, err := f.Open()
			must.Succeed(t, err)
			found[f.Name] = entry(t, f.FileInfo(), r)
		}
		return found
	}
	packed, err := os.Open(file)
	must.Succeed(t, err)
	defer packed.Close()
	plain, err := gzip.NewReader(packed)
	must.Succeed(t, err)
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		must.Succeed(t, err)
		found[header.Name] = entry(t, header.FileInfo(), archive)
	}
}

func entry(t *testing.T, info fs.FileInfo, r io.Reader) string {
	t.Helper()
	if made := info.ModTime().UTC(); made.Year() > 1980 {
		t.Errorf("%s has a build time: %s", info.Name(), made)
	}
	data, err := io.ReadAll(r)
	must.Succeed(t, err)
	return fmt.Sprintf("%s %s", info.Mode(), data)
}
