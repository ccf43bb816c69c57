package soak

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const configsLabel = "operators.operatorframework.io.index.configs.v1"

type sum [sha256.Size]byte

// version is one published content of a catalog.
type version struct {
	digest   string // of the image
	all      sum    // of the body of /all
	size     int64  // of that body, in bytes
	blobs    int
	packages map[string]packageVersion
}

type packageVersion struct {
	metas   sum    // of metas?package=
	blob    sum    // of metas?schema=olm.package&name=
	release string // version of the head of its channel
}

// source generates the content of one catalog, version after version. Sizes do not change, so that the use of the
// volume is comparable after many versions. Not safe for concurrent use.
type source struct {
	rng      *rand.Rand
	revision int
	packages []*sourcePackage
}

type sourcePackage struct {
	name    string
	yaml    bool
	bundles int
	filler  int // filler bytes of each bundle

	file  []byte   // as in the image
	lines [][]byte // as served
	packageVersion
}

// newSource returns a catalog of about this size in bytes.
func newSource(rng *rand.Rand, size int) *source {
	s := &source{rng: rng}
	count := 2 + rng.IntN(4)
	for i := range count {
		bundles := 1 + rng.IntN(4)
		p := &sourcePackage{name: fmt.Sprintf("operator-%c", 'a'+i), yaml: i%4 == 3, bundles: bundles, filler: size / count / bundles}
		s.packages = append(s.packages, p)
	}
	return s
}

// next changes at least one of the packages, and returns the image and its content.
func (s *source) next() (v1.Image, *version, error) {
	s.revision++
	must := s.rng.IntN(len(s.packages))
	for i, p := range s.packages {
		if i != must && p.file != nil && s.rng.IntN(3) > 0 {
			continue
		}
		if err := p.change(s.rng, s.revision); err != nil {
			return nil, nil, err
		}
	}
	image, err := s.image()
	if err != nil {
		return nil, nil, err
	}
	digest, err := image.Digest()
	if err != nil {
		return nil, nil, err
	}
	v := &version{digest: digest.String(), packages: map[string]packageVersion{}}
	all := sha256.New()
	for _, p := range s.packages {
		for _, line := range p.lines {
			v.size += int64(len(line))
			all.Write(line)
		}
		v.blobs += len(p.lines)
		v.packages[p.name] = p.packageVersion
	}
	all.Sum(v.all[:0])
	return image, v, nil
}

// change generates new content for a package.
func (p *sourcePackage) change(rng *rand.Rand, revision int) error {
	p.release = fmt.Sprintf("1.%d.0", revision)
	head := p.name + ".v" + p.release
	entries := []map[string]any{{"name": head}}
	blobs := []map[string]any{
		{"schema": "olm.package", "name": p.name, "defaultChannel": "stable", "description": fmt.Sprintf("Revision %d.", revision)},
		nil, // the channel, once its entries are known
		p.bundle(rng, head, p.release),
	}
	for i := 1; i < p.bundles; i++ {
		old := fmt.Sprintf("0.%d.0", i)
		entries = append(entries, map[string]any{"name": p.name + ".v" + old})
		entries[i-1]["replaces"] = p.name + ".v" + old
		blobs = append(blobs, p.bundle(rng, p.name+".v"+old, old))
	}
	blobs[1] = map[string]any{"schema": "olm.channel", "package": p.name, "name": "stable", "entries": entries}
	return p.render(blobs)
}

func (p *sourcePackage) bundle(rng *rand.Rand, name, release string) map[string]any {
	return map[string]any{
		"schema": "olm.bundle", "package": p.name, "name": name, "image": "registry.example/bundles/" + name,
		"properties": []map[string]any{
			{"type": "olm.package", "value": map[string]any{"packageName": p.name, "version": release}},
			{
				"type":  "olm.csv.metadata",
				"value": map[string]any{"displayName": p.name, "description": "Does nothing.", "provider": map[string]any{"name": "Soak"}},
			},
			{"type": "example.com.filler", "value": filler(rng, p.filler)},
		},
	}
}

// filler returns text that compresses to about a third, like catalogs.
func filler(rng *rand.Rand, size int) string {
	words := [...]string{
		"operator ", "catalog ", "bundle ", "channel ", "upgrade ", "\"quoted\" ", "größer ", "line\n", "12.50 ", "back\\slash ",
	}
	b := make([]byte, 0, size+20)
	for len(b) < size {
		b = append(b, words[rng.IntN(len(words))]...)
		b = append(b, byte('a'+rng.IntN(26)))
	}
	return string(b)
}

// render returns the blobs as a file of the catalog, and as the lines that catalogd should serve. YAML here is JSON
// with document separators.
func (p *sourcePackage) render(blobs []map[string]any) error {
	var file bytes.Buffer
	p.lines = nil
	metas := sha256.New()
	for i, blob := range blobs {
		line, err := json.Marshal(blob)
		if err != nil {
			return err
		}
		line = append(line, '\n')
		p.lines = append(p.lines, line)
		if i == 0 {
			p.blob = sha256.Sum256(line)
		} else {
			metas.Write(line)
		}
		if p.yaml {
			file.WriteString("---\n")
			file.Write(line)
		} else if err := json.Indent(&file, line, "", "    "); err != nil {
			return err
		}
	}
	metas.Sum(p.metas[:0])
	p.file = file.Bytes()
	return nil
}

// image returns the index image of the current packages.
func (s *source) image() (v1.Image, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, p := range s.packages {
		name := "configs/" + p.name + "/catalog.json"
		if p.yaml {
			name = "configs/" + p.name + "/catalog.yaml"
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Typeflag: tar.TypeReg, Size: int64(len(p.file))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(p.file); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }
	layer, err := tarball.LayerFromOpener(opener, tarball.WithCompressionLevel(gzip.BestSpeed))
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	return mutate.Config(image, v1.Config{Labels: map[string]string{configsLabel: "/configs"}})
}
