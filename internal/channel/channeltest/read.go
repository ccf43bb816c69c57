// Package channeltest provides channels for tests, and an independent walk of their upgrade graphs.
package channeltest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// Dir returns the directory of the catalog that tests walk: $COMMUNITY_CATALOG, or the sample of the quick start.
func Dir(tb testing.TB) string {
	tb.Helper()
	if dir := os.Getenv("COMMUNITY_CATALOG"); dir != "" {
		return dir
	}
	root, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			return filepath.Join(root, "config/samples/catalog/configs")
		}
		if filepath.Dir(root) == root {
			tb.Fatal("no go.mod above the working directory")
		}
		root = filepath.Dir(root)
	}
}

// Read returns the channels of a catalog directory, valid or not.
func Read(tb testing.TB, dir string) []channel.Channel {
	tb.Helper()
	var channels []declcfg.Channel
	versions, deprecated := map[[2]string]string{}, map[[2]string]string{}
	add := func(b scan.Blob) error {
		switch b.Schema {
		case fbc.SchemaBundle:
			versions[[2]string{b.Package, b.Name}] = fbc.FactsOf(b).Version
		case fbc.SchemaChannel:
			var c declcfg.Channel
			if err := json.Unmarshal(b.JSON, &c); err != nil {
				return err
			}
			channels = append(channels, c)
		case fbc.SchemaDeprecations:
			var d declcfg.Deprecation
			if err := json.Unmarshal(b.JSON, &d); err != nil {
				return err
			}
			for _, e := range d.Entries {
				if e.Reference.Schema == fbc.SchemaBundle {
					deprecated[[2]string{d.Package, e.Reference.Name}] = e.Message
				}
			}
		}
		return nil
	}
	fsys := os.DirFS(dir)
	files, err := scan.Files(fsys)
	if err != nil {
		tb.Fatal(err)
	}
	for _, file := range files {
		if err := scan.ReadFile(fsys, file, 0, add); err != nil {
			tb.Fatal(err)
		}
	}
	var out []channel.Channel
	for _, c := range channels {
		ch := channel.Channel{Package: c.Package, Name: c.Name}
		for _, e := range c.Entries {
			key := [2]string{c.Package, e.Name}
			ch.Entries = append(ch.Entries, channel.Entry{
				Name: e.Name, Version: versions[key], Replaces: e.Replaces, Skips: slices.Clone(e.Skips),
				SkipRange: e.SkipRange, Deprecated: deprecated[key],
			})
		}
		out = append(out, ch)
	}
	return out
}
