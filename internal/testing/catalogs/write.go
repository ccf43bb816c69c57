package catalogs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime"

	"sigs.k8s.io/yaml"
)

// File is a file of a catalog, with all blobs of one package.
type File struct {
	Path    string // relative, with slashes: the package's directory and the file
	Content []byte
	Stats   Stats
}

// Stats counts what was generated.
type Stats struct {
	Packages int   `json:"packages"`
	Channels int   `json:"channels"`
	Bundles  int   `json:"bundles"`
	Blobs    int   `json:"blobs"`
	Bytes    int64 `json:"bytes"`   // of the blobs as compact JSON, with a line break each
	Written  int64 `json:"written"` // bytes of the files
	YAML     int64 `json:"yaml"`    // of Written, the bytes in YAML files
	Largest  int64 `json:"largest"` // bytes of the largest blob as compact JSON
}

// Add adds the counts of another file or catalog.
func (s *Stats) Add(o Stats) {
	s.Packages, s.Channels, s.Bundles, s.Blobs = s.Packages+o.Packages, s.Channels+o.Channels, s.Bundles+o.Bundles, s.Blobs+o.Blobs
	s.Bytes, s.Written, s.YAML, s.Largest = s.Bytes+o.Bytes, s.Written+o.Written, s.YAML+o.YAML, max(s.Largest, o.Largest)
}

// Files passes the files of a catalog to write, one at a time, sorted by package. write must not retain a file. Two
// packages per processor are in memory at a time.
func (s Shape) Files(ctx context.Context, write func(File) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		file File
		err  error
	}
	pending := make(chan chan result, runtime.GOMAXPROCS(0))
	go func() {
		defer close(pending)
		for _, p := range s.plans() {
			made := make(chan result, 1)
			select {
			case <-ctx.Done():
				return
			case pending <- made:
			}
			go func() {
				file, err := p.file(s.Seed)
				made <- result{file, err}
			}()
		}
	}()
	for made := range pending {
		r := <-made
		if r.err != nil {
			return r.err
		}
		if err := write(r.file); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// file formats the package as opm does: JSON indented by four spaces, or YAML with sorted keys.
func (p plan) file(seed uint64) (File, error) {
	stats := Stats{Packages: 1, Channels: p.channels, Bundles: p.bundles}
	var out bytes.Buffer
	for _, blob := range newAuthor(p, seed).blobs() {
		line := compact(blob)
		size := int64(len(line)) + 1
		stats.Blobs, stats.Bytes, stats.Largest = stats.Blobs+1, stats.Bytes+size, max(stats.Largest, size)
		if !p.yaml {
			if err := json.Indent(&out, line, "", "    "); err != nil {
				return File{}, fmt.Errorf("indenting %s: %w", p.name, err)
			}
			out.WriteByte('\n')
			continue
		}
		text, err := yaml.JSONToYAML(line)
		if err != nil {
			return File{}, fmt.Errorf("writing %s as YAML: %w", p.name, err)
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	stats.Written = int64(out.Len())
	path := p.name + "/catalog.json"
	if p.yaml {
		path, stats.YAML = p.name+"/catalog.yaml", stats.Written
	}
	return File{Path: path, Content: out.Bytes(), Stats: stats}, nil
}
