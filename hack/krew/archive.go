package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"text/template"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/operator-catalogs/catalogd/hack/reproducible"
)

const plugin = "kubectl-catalog"

var defaultPlatforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

func parsePlatform(text string) (*v1.Platform, error) {
	p, err := v1.ParsePlatform(text)
	if err != nil || p.OS == "" || p.Architecture == "" || text != p.OS+"/"+p.Architecture {
		return nil, fmt.Errorf("invalid platform %q; use the form linux/arm64", text)
	}
	return p, nil
}

// archive is a released archive in the manifest.
type archive struct {
	OS, Arch, Name, SHA256, Binary string
}

// besides returns the files of the repository that accompany the program in an archive.
func besides(repository fs.FS) ([]reproducible.File, error) {
	sources := []struct {
		from, to string
		mode     int64
	}{{"LICENSE", "LICENSE", 0}, {"cmd/kubectl-catalog/kubectl_complete-catalog", "kubectl_complete-catalog", 0o755}}
	pages, err := fs.Glob(repository, "docs/cli/man/*.1")
	if err != nil {
		return nil, err
	}
	if len(pages) == 0 {
		return nil, errors.New("no manual pages in docs/cli/man: run make generate, in the root of the repository")
	}
	var files []reproducible.File
	for _, s := range sources {
		data, err := fs.ReadFile(repository, s.from)
		if err != nil {
			return nil, err
		}
		files = append(files, reproducible.File{Path: s.to, Data: data, Mode: s.mode})
	}
	for _, page := range pages {
		data, err := fs.ReadFile(repository, page)
		if err != nil {
			return nil, err
		}
		files = append(files, reproducible.File{Path: "man/man1/" + path.Base(page), Data: data})
	}
	return files, nil
}

// pack writes the archive of a platform.
func pack(opts options, p *v1.Platform, program []byte, with []reproducible.File) (archive, error) {
	a := archive{OS: p.OS, Arch: p.Architecture, Binary: plugin}
	write, extension := tarGz, ".tar.gz"
	if p.OS == "windows" {
		a.Binary += ".exe"
		write, extension = reproducible.Zip, ".zip"
	}
	a.Name = fmt.Sprintf("%s_%s_%s_%s%s", plugin, opts.version, a.OS, a.Arch, extension)
	files := append([]reproducible.File{{Path: a.Binary, Data: program, Mode: 0o755}}, with...)
	var packed bytes.Buffer
	if err := write(&packed, files); err != nil {
		return a, fmt.Errorf("packing %s: %w", a.Name, err)
	}
	a.SHA256 = fmt.Sprintf("%x", sha256.Sum256(packed.Bytes()))
	return a, os.WriteFile(filepath.Join(opts.out, a.Name), packed.Bytes(), 0o644)
}

func tarGz(to io.Writer, files []reproducible.File) error {
	compressed := gzip.NewWriter(to)
	return errors.Join(reproducible.Tar(compressed, files), compressed.Close())
}

// releases is the default of --url, by version.
const releases = "https://github.com/operator-catalogs/catalogd/releases/download/"

//go:embed krew.yaml
var manifest string

var manifestTemplate = template.Must(template.New("krew.yaml").Parse(manifest))

// writeManifest writes the manifest, named after the plugin.
func writeManifest(opts options, archives []archive) error {
	var text bytes.Buffer
	err := manifestTemplate.Execute(&text, map[string]any{
		"Version": opts.version, "URL": strings.TrimSuffix(opts.url, "/"), "Archives": archives,
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(opts.out, "catalog.yaml"), text.Bytes(), 0o644)
}
