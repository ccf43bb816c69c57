package store

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// summaries reads all summaries of a snapshot, and each on its own.
func summaries(t *testing.T, snap *Snapshot) []fbc.Summary {
	t.Helper()
	var out []fbc.Summary
	for summary, err := range snap.Summaries() {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, summary)
		alone, ok, err := snap.Summary(summary.Name)
		if err != nil || !ok {
			t.Fatalf("%s: got %v %v", summary.Name, ok, err)
		}
		if diff := cmp.Diff(summary, alone); diff != "" {
			t.Errorf("%s, among others and alone:\n%s", summary.Name, diff)
		}
	}
	return out
}

func TestSummaries(t *testing.T) {
	snap, _ := commitSmall(t)
	got := summaries(t, snap)
	if len(got) != len(snap.Packages()) {
		t.Fatalf("got %d summaries of %d packages", len(got), len(snap.Packages()))
	}
	for i, p := range snap.Packages() {
		pkg, err := fbc.LoadPackage(p.Name, snap.Package(p.Name).All())
		if err != nil {
			t.Fatal(err)
		}
		for head, err := range snap.Select(Query{Schema: fbc.SchemaBundle, Package: p.Name, Name: pkg.DefaultHead()}).All() {
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(fbc.NewSummary(pkg, head), got[i]); diff != "" {
				t.Errorf("%s, -want +got:\n%s", p.Name, diff)
			}
			if got[i].DisplayName == "" || got[i].Version == "" || len(got[i].Channels) == 0 {
				t.Errorf("%s: the summary is %+v: it is all but empty", p.Name, got[i])
			}
		}
	}
	for range snap.Summaries() {
		break // it may be left early
	}
	for _, name := range []string{"", "nosuch", "olm.package"} {
		if s, ok, err := snap.Summary(name); ok || err != nil {
			t.Errorf("got %+v %v %v for the package %q", s, ok, err, name)
		}
	}
}

func TestInvalidPackagesHaveNoSummary(t *testing.T) {
	snap := commit(t, open(t, t.TempDir(), newClock()), "cat", 1, files{"c.json": validFoo + invalidBar + nameless})
	got := summaries(t, snap)
	if len(got) != 1 || got[0].Name != "foo" || got[0].Head != "foo.v1" || got[0].Version != "1.0.0" {
		t.Errorf("got %+v, want one of foo", got)
	}
	if _, ok, err := snap.Summary("bar"); ok || err != nil {
		t.Errorf("bar has a summary (%v)", err)
	}
}

// A reader that holds a snapshot reads its summaries after its deletion.
func TestSummariesAfterRemove(t *testing.T) {
	v := testVolume{t, t.TempDir()}
	s := open(t, v.dir, newClock())
	snap := commit(t, s, "cat", 1, files{"c.json": validFoo})
	if err := s.Remove("cat"); err != nil {
		t.Fatal(err)
	}
	wantNames(t, v.path("snapshots"))
	if got := summaries(t, snap); len(got) != 1 || got[0].Name != "foo" {
		t.Errorf("got %+v", got)
	}
}

// Truncation or damage of an open file is an error, never an early end.
func TestSummariesOfADamagedFile(t *testing.T) {
	for name, harm := range map[string]func(string) string{
		"shorter": func(s string) string { return s[:3] },
		"no JSON": func(s string) string { return strings.Replace(s, "{", "[", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			v := testVolume{t, t.TempDir()}
			s := open(t, v.dir, newClock())
			snap := commit(t, s, "cat", 1, files{"c.json": validFoo})
			v.write(harm(v.read("snapshots", key, packagesFile)), "snapshots", key, packagesFile)
			count := 0
			for _, err := range snap.Summaries() {
				if count++; !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, ErrValidationDamaged) {
					t.Errorf("got error %v", err)
				}
			}
			if count != 1 {
				t.Errorf("got %d summaries, want one with an error", count)
			}
			if _, ok, err := snap.Summary("foo"); ok || err == nil {
				t.Errorf("alone: got %v %v", ok, err)
			}
			if names, err := s.Scrub(t.Context()); err != nil || len(names) != 0 {
				t.Errorf("Scrub: got %q %v, want none to be unpacked again", names, err)
			}
			if len(summaries(t, snap)) != 1 {
				t.Error("no summary")
			}
			c, _ := reopen(t, s, v.dir, newClock()).Catalog("cat")
			if len(summaries(t, c.Snapshot)) != 1 {
				t.Error("no summary after a restart")
			}
		})
	}
}

// A snapshot of the layout before summaries is served from its catalog.jsonl and unpacked again.
func TestEarlierLayoutIsUnpackedAgain(t *testing.T) {
	v := testVolume{t, t.TempDir()}
	if err := os.CopyFS(v.dir, os.DirFS("testdata/earlier-layout")); err != nil {
		t.Fatal(err)
	}
	s := open(t, v.dir, newClock())
	wantNames(t, v.path("snapshots"), key)
	earlier, ok := s.Catalog("cat")
	if !ok || text(t, earlier.Snapshot) != v.read("snapshots", key, catalogFile) {
		t.Fatal("the catalog is not served")
	}
	before := names(t, v.path("snapshots", key))
	if damaged, err := s.Scrub(t.Context()); err != nil || len(damaged) != 1 {
		t.Errorf("Scrub: got %q %v, want the catalog to be unpacked again", damaged, err)
	}
	if !earlier.Snapshot.Validated() {
		t.Error("its packages are not validated")
	}
	wantNames(t, v.path("snapshots", key), before...) // the next start would take a description for a proof
	if _, ok := s.Snapshot(key); ok {
		t.Error("the snapshot is given")
	}
	commit(t, s, "cat", 1, files{"c.json": validFoo})
	s = reopen(t, s, v.dir, newClock())
	c, ok := s.Catalog("cat")
	if !ok || len(summaries(t, c.Snapshot)) != 1 {
		t.Error("the catalog was not unpacked again")
	}
	wantNames(t, v.path("snapshots"), key)
}

const withFacts = `{"schema":"olm.bundle","package":"foo","name":"foo.v1","properties":[
		{"type":"olm.package","value":{"packageName":"foo","version":"1.0.0-rc.1"}},
		{"type":"olm.gvk","value":{"group":"example.com","version":"v1","kind":"Foo"}}]}
	{"schema":"olm.bundle","package":"foo","name":"foo.v2",
		"properties":[{"type":"example.com/text","value":1},{"type":"olm.package","value":{"version":"2"}},
		{"type":"olm.gvk","value":{"group":"example.com","version":"v1","kind":"Foo"}},
		{"type":"olm.gvk","value":{"group":"example.com","version":"v2","kind":"Foo"}}]}
	{"schema":"olm.bundle","package":"bar","name":"bar.v1",
		"properties":[{"type":"olm.gvk","value":{"group":"example.org","version":"v1","kind":"Bar"}},{"type":"olm.gvk","value":{"version":"v1","kind":"Core"}}]}
	{"schema":"example.com","package":"bar","name":"bar.v1",
		"properties":[{"type":"olm.gvk","value":{"group":"example.org","version":"v1","kind":"Bar"}}]}
	{"schema":"olm.bundle","package":"bar","name":"bar.v0"}`

func TestSelectByFacts(t *testing.T) {
	v, c := testVolume{t, t.TempDir()}, newClock()
	s := open(t, v.dir, c)
	commit(t, s, "cat", 1, files{"c.json": withFacts})
	s = reopen(t, s, v.dir, c, tiny)
	copied := commit(t, s, "cat", 2, files{"c.json": withFacts}) // nothing is parsed, so the facts come from the index
	gvk := func(group, version, kind string) Query {
		return Query{Provides: fbc.GVK{Group: group, Version: version, Kind: kind}}
	}
	for name, c := range map[string]struct {
		query Query
		want  string
	}{
		"a property":                         {Query{Property: "example.com/text"}, "foo.v2"},
		"a property of several":              {Query{Property: "olm.gvk"}, "foo.v1 foo.v2 bar.v1"},
		"an unknown property":                {Query{Property: "olm.bundle"}, ""},
		"an API is no property":              {Query{Property: "example.com/v1/Foo"}, ""},
		"a property of a package":            {Query{Property: "olm.gvk", Package: "foo"}, "foo.v1 foo.v2"},
		"a property of a bundle":             {Query{Property: "olm.gvk", Package: "foo", Name: "foo.v2", Schema: fbc.SchemaBundle}, "foo.v2"},
		"a property of what has none":        {Query{Property: "olm.gvk", Name: "bar.v0"}, ""},
		"a property of a custom blob":        {Query{Property: "olm.gvk", Custom: true}, ""},
		"an API":                             {gvk("example.com", "v1", "Foo"), "foo.v1 foo.v2"},
		"another version of it":              {gvk("example.com", "v2", "Foo"), "foo.v2"},
		"any version":                        {gvk("example.com", "", "Foo"), "foo.v1 foo.v2"},
		"a group":                            {gvk("example.com", "", ""), "foo.v1 foo.v2"},
		"a kind":                             {gvk("", "", "Bar"), "bar.v1"},
		"a kind of the core group":           {gvk("", "v1", "Core"), "bar.v1"},
		"a version":                          {gvk("", "v1", ""), "foo.v1 foo.v2 bar.v1"},
		"no part of a name":                  {gvk("example", "", ""), ""},
		"an unknown API":                     {gvk("example.com", "v3", "Foo"), ""},
		"a property is no API":               {gvk("example.com", "text", ""), ""},
		"an API and a property":              {Query{Property: "example.com/text", Provides: fbc.GVK{Kind: "Foo"}}, "foo.v2"},
		"an API of a package that has it":    {Query{Package: "foo", Provides: fbc.GVK{Version: "v1"}}, "foo.v1 foo.v2"},
		"an API of a package that has it no": {Query{Package: "bar", Provides: fbc.GVK{Kind: "Foo"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			blobs := copied.Select(c.query)
			for i := range blobs.Len() {
				got = append(got, blobs.Entry(i).Name)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %q, want %s", got, c.want)
			}
		})
	}
}

func TestEntries(t *testing.T) {
	snap := commit(t, open(t, t.TempDir(), newClock()), "cat", 1, files{"c.json": withFacts})
	all := snap.Select(Query{})
	sizes := 0
	for i := range all.Len() {
		sizes += all.Entry(i).Size + 1
	}
	if int64(sizes) != all.Size() {
		t.Errorf("the entries have %d bytes, the blobs %d", sizes, all.Size())
	}
	want := Entry{Number: 1, Schema: fbc.SchemaBundle, Package: "foo", Name: "foo.v2", Version: "2", Size: all.Entry(1).Size}
	if diff := cmp.Diff(want, all.Entry(1)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := all.Entry(4); got.Version != "" || got.Name != "bar.v0" {
		t.Errorf("got %+v, want a bundle without a version", got)
	}

	lines := strings.SplitAfter(text(t, snap), "\n")
	wantBlobs(t, all.Slice(1, 3), lines[1]+lines[2], 2)
	wantBlobs(t, all.Slice(1, 4).Slice(1, 2), lines[2], 1)
	wantBlobs(t, all.Slice(5, 5), "", 0)
	kept := all.Keep(func(e Entry) bool { return slices.Contains([]uint32{0, 3, 4}, e.Number) })
	wantBlobs(t, kept, lines[0]+lines[3]+lines[4], 3)
	wantBlobs(t, all.Keep(func(Entry) bool { return false }), "", 0)
	if got := kept.Slice(1, 2).Entry(0); got.Number != 3 || got.Schema != "example.com" {
		t.Errorf("got %+v", got)
	}
	wantBlobs(t, all, strings.Join(lines, ""), 5) // they are what they were
}
