package graphql

import (
	"cmp"
	"os"
	"slices"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
)

// TestUpgradesMatchCatalog compares upgrades with a naive reading of every channel of $COMMUNITY_CATALOG or, if it is not set, of the quick
// start's sample.
func TestUpgradesMatchCatalog(t *testing.T) {
	dir := os.DirFS(cmp.Or(os.Getenv("COMMUNITY_CATALOG"), "../../../config/samples/catalog/configs"))
	catalog, err := declcfg.LoadFS(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	st := emptyStore(t, t.TempDir())
	commit(t, st, "main", "1", dir)
	url := startServer(t, config(), st)
	edges := 0
	for _, c := range catalog.Channels {
		const query = `query($p: String!, $c: String!) { package(name: $p) {
			channel(name: $c) { head { name } entries { name version } upgrades { from to } } } }`
		got := ask[struct {
			Package *struct {
				Channel struct {
					Head     struct{ Name string }
					Entries  []struct{ Name, Version string }
					Upgrades []struct{ From, To string }
				}
			}
		}](t, url, query, "p", c.Package, "c", c.Name)
		if got.Package == nil {
			continue // invalid
		}
		versions := map[string]string{}
		for _, e := range got.Package.Channel.Entries {
			versions[e.Name] = e.Version
		}
		if head := headOf(c); got.Package.Channel.Head.Name != head {
			t.Errorf("%s/%s: got head %s, want %s", c.Package, c.Name, got.Package.Channel.Head.Name, head)
		}
		onto := map[string][]string{}
		for _, u := range got.Package.Channel.Upgrades {
			onto[u.To] = append(onto[u.To], u.From)
		}
		for _, e := range c.Entries {
			want := replacedBy(e, versions)
			slices.Sort(onto[e.Name])
			if !slices.Equal(want, onto[e.Name]) {
				t.Errorf("%s/%s: %s upgrades %q, want %q", c.Package, c.Name, e.Name, onto[e.Name], want)
			}
			edges += len(want)
		}
	}
	if edges < 50 {
		t.Errorf("the catalog has only %d edges", edges)
	}
}

// headOf returns the entry that no other replaces or skips. A valid channel has one.
func headOf(c declcfg.Channel) string {
	behind := map[string]bool{}
	for _, e := range c.Entries {
		behind[e.Replaces] = true
		for _, name := range e.Skips {
			behind[name] = true
		}
	}
	i := slices.IndexFunc(c.Entries, func(e declcfg.ChannelEntry) bool { return !behind[e.Name] })
	return c.Entries[i].Name
}

// replacedBy returns the bundles that an entry can be installed over, sorted, once for each reason.
func replacedBy(e declcfg.ChannelEntry, versions map[string]string) []string {
	names := append([]string{e.Replaces}, e.Skips...)
	if covers, err := semver.ParseRange(e.SkipRange); err == nil && e.SkipRange != "" {
		for name, version := range versions {
			if v, err := semver.Parse(version); err == nil && name != e.Name && covers(v) {
				names = append(names, name)
			}
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" })
	slices.Sort(names)
	return names
}
