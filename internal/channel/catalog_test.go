package upgrade

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// sampleCatalog is the catalog of the quick start.
const sampleCatalog = "../../config/samples/catalog/configs"

// readCatalog reads the channels of a catalog, sound or not.
func readCatalog(tb testing.TB, dir string) []Channel {
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
	var out []Channel
	for _, c := range channels {
		ch := Channel{Package: c.Package, Name: c.Name}
		for _, e := range c.Entries {
			key := [2]string{c.Package, e.Name}
			ch.Entries = append(ch.Entries, Entry{Name: e.Name, Version: versions[key], Replaces: e.Replaces, Skips: slices.Clone(e.Skips),
				SkipRange: e.SkipRange, Deprecated: deprecated[key]})
		}
		out = append(out, ch)
	}
	return out
}
