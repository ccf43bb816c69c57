package edit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/operator-catalogs/catalogd/internal/authoring/export"
	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// model is a catalog as values: what edits mean, without the text.
type model map[string]*modelPackage

type modelPackage struct {
	Channels     map[string]map[string]channel.Entry
	Bundles      map[string]string // versions
	Deprecations map[string]string // messages by schema and name
}

// modelOf decodes the blobs of a catalog.
func modelOf(t *testing.T, c *Catalog) model {
	t.Helper()
	m := model{}
	for _, d := range c.docs(func(d *doc) bool { return d.packageOf() != "" }) {
		p := m[d.packageOf()]
		if p == nil {
			p = &modelPackage{map[string]map[string]channel.Entry{}, map[string]string{}, map[string]string{}}
			m[d.packageOf()] = p
		}
		var blob struct {
			Entries []struct {
				channel.Entry
				Reference struct{ Schema, Name string }
				Message   string
			}
		}
		must.Succeed(t, json.Unmarshal(d.JSON, &blob))
		switch d.Schema {
		case fbc.SchemaBundle:
			version, err := versionOf(d.JSON)
			must.Succeed(t, err)
			p.Bundles[d.Name] = version
		case fbc.SchemaChannel:
			p.Channels[d.Name] = map[string]channel.Entry{}
			for _, e := range blob.Entries {
				p.Channels[d.Name][e.Name] = e.Entry
			}
		case fbc.SchemaDeprecations:
			for _, e := range blob.Entries {
				p.Deprecations[e.Reference.Schema+" "+e.Reference.Name] = e.Message
			}
		}
	}
	return m
}

func (p *modelPackage) remove(bundle string) {
	for name, entries := range p.Channels {
		gone, ok := entries[bundle]
		if !ok {
			continue
		}
		delete(entries, bundle)
		for key, e := range entries {
			if e.Replaces == bundle {
				e.Replaces = gone.Replaces
				entries[key] = e
			}
		}
		if len(entries) == 0 {
			delete(p.Channels, name)
			delete(p.Deprecations, "olm.channel "+name)
		}
	}
	delete(p.Bundles, bundle)
	delete(p.Deprecations, "olm.bundle "+bundle)
}

// randomCatalog writes valid packages in a random style, with comments, unknown fields and large numbers.
func randomCatalog(t *testing.T, r *rand.Rand) map[string]string {
	t.Helper()
	files := map[string]string{}
	for p := range 1 + r.IntN(3) {
		pkg := fmt.Sprintf("p%d", p)
		blobs := []any{map[string]any{"schema": "olm.package", "name": pkg, "defaultChannel": "c0", "unknown": json.Number("9007199254740993")}}
		count := 1 + r.IntN(4)
		for ch := range 1 + r.IntN(2) {
			var entries []any
			for i := range count {
				e := map[string]any{"name": fmt.Sprintf("%s.v1.%d.0", pkg, i), "x": json.Number("1.50")}
				if i > 0 {
					e["replaces"] = fmt.Sprintf("%s.v1.%d.0", pkg, i-1)
				}
				if r.IntN(3) == 0 {
					e["skips"] = []string{pkg + ".v0.1.0"}
				}
				entries = append(entries, e)
			}
			if r.IntN(2) == 0 {
				slices.Reverse(entries)
			}
			blobs = append(blobs, map[string]any{"schema": "olm.channel", "package": pkg, "name": fmt.Sprintf("c%d", ch), "entries": entries})
		}
		for i := range count {
			blobs = append(blobs, map[string]any{"schema": "olm.bundle", "package": pkg, "name": fmt.Sprintf("%s.v1.%d.0", pkg, i), "image": "r.example/x",
				"properties": []any{map[string]any{"type": "olm.package", "value": map[string]string{"packageName": pkg, "version": fmt.Sprintf("1.%d.0", i)}}}})
		}
		var out bytes.Buffer
		style := r.IntN(3)
		for i, blob := range blobs {
			raw, err := json.Marshal(blob)
			must.Succeed(t, err)
			if style == 0 {
				raw, err = export.JSON(raw)
			} else if style == 1 {
				raw, err = export.YAML(raw)
				raw = fmt.Appendf(bytes.Replace(raw, []byte("schema:"), []byte("# about it\nschema:"), 1), "# end of %d\n", i)
			}
			must.Succeed(t, err)
			out.Write(raw)
		}
		files[pkg+map[bool]string{true: "/catalog.yaml", false: "/catalog.json"}[style == 1]] = out.String()
	}
	return files
}

// FuzzEdits makes random edits. The model of the text must be the edited model, and the text of other packages unchanged.
func FuzzEdits(f *testing.F) {
	for seed := range uint64(100) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		c, _ := open(t, randomCatalog(t, r))
		want := modelOf(t, c)
		for range 1 + r.IntN(6) {
			names := slices.Sorted(maps.Keys(want))
			if len(names) == 0 {
				return
			}
			pkg := names[r.IntN(len(names))]
			texts := c.texts()
			what, err := randomEdit(r, c, want, pkg)
			if err != nil {
				return // the text may be half changed: commands write nothing then
			}
			if diff := cmp.Diff(want, modelOf(t, c), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("%s (-model +text):\n%s\nof\n%s", what, diff, strings.Join(slices.Collect(maps.Values(c.texts())), "\n"))
			}
			for name, text := range c.texts() {
				if !strings.HasPrefix(name, pkg+"/") && text != texts[name] {
					t.Fatalf("%s changes %s", what, name)
				}
				if own, _, _ := strings.Cut(name, "/"); want[own] != nil && !strings.Contains(text, "9007199254740993") {
					t.Fatalf("%s changes a large number in %s:\n%s", what, name, text)
				}
			}
		}
	})
}

// randomEdit changes a package in both. The error is that of the catalog.
func randomEdit(r *rand.Rand, c *Catalog, m model, pkg string) (what string, err error) {
	p := m[pkg]
	bundles := slices.Sorted(maps.Keys(p.Bundles))
	switch r.IntN(6) {
	case 0:
		delete(m, pkg)
		return "removing " + pkg, c.RemovePackages(pkg)
	case 1:
		bundle := bundles[r.IntN(len(bundles))]
		p.remove(bundle)
		return "removing " + bundle, c.RemoveBundles(pkg, bundle)
	case 2:
		bundle, message := bundles[r.IntN(len(bundles))], fmt.Sprintf("message: # %d\n\"two\"", r.IntN(3))
		p.Deprecations["olm.bundle "+bundle] = message
		return "deprecating " + bundle, c.Deprecate(pkg, fbc.SchemaBundle, bundle, message)
	case 3:
		channels := slices.Sorted(maps.Keys(p.Channels))
		name := channels[r.IntN(len(channels))]
		p.Deprecations["olm.channel "+name] = "m"
		return "deprecating " + name, c.Deprecate(pkg, fbc.SchemaChannel, name, "m")
	case 4:
		below := fmt.Sprintf("1.%d.0", 1+r.IntN(3))
		before := map[string]map[string]channel.Entry{}
		for name, entries := range p.Channels {
			before[name] = maps.Clone(entries)
		}
		for _, bundle := range bundles {
			if fbc.CompareVersions(p.Bundles[bundle], below) < 0 {
				p.remove(bundle)
			}
		}
		for name, entries := range p.Channels {
			for key, e := range entries {
				if e.Replaces == "" {
					entries[key] = before[name][key] // clusters that have the removed one can upgrade
				}
			}
		}
		return "truncating " + pkg, c.Truncate(pkg, below, "")
	}
	return randomAddition(r, c, p, pkg)
}

func randomAddition(r *rand.Rand, c *Catalog, p *modelPackage, pkg string) (string, error) {
	version := fmt.Sprintf("1.%d.%d", r.IntN(5), 1+r.IntN(3))
	mode := []channel.Mode{channel.ModeHead, channel.ModeSemver, channel.ModeSkipPatch}[r.IntN(3)]
	added := channel.Entry{Name: pkg + ".v" + version, Version: version, Skips: []string{pkg + ".v0.2.0"}, SkipRange: "<" + version}
	names := []string{[]string{"c0", "c1", "new"}[r.IntN(3)]}
	what := fmt.Sprintf("adding %s to %s of %s by %s", version, names[0], pkg, mode)
	blob := fmt.Sprintf(`{"schema":"olm.bundle","package":%q,"name":%q,"image":"r.example/y","properties":[{"type":"olm.package","value":{"packageName":%q,"version":%q}}]}`,
		pkg, added.Name, pkg, version)
	_, err := c.Add([]Addition{{Package: pkg, Image: "r.example/y", Entry: added, Channels: names, Blob: []byte(blob)}}, mode, false)
	if err != nil {
		return what, err
	}
	var have []channel.Entry
	for _, e := range p.Channels[names[0]] {
		e.Version = p.Bundles[e.Name]
		have = append(have, e)
	}
	placed, err := channel.Place(mode, have, added, nil)
	if err != nil {
		return what, fmt.Errorf("the model refuses it: %w", err)
	}
	p.Bundles[added.Name] = version
	p.Channels[names[0]] = map[string]channel.Entry{}
	for _, e := range placed {
		e.Version = ""
		p.Channels[names[0]][e.Name] = e
	}
	return what, nil
}
