package serve

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/channel/channeltest"
	"github.com/operator-catalogs/catalogd/internal/diff"
	"github.com/operator-catalogs/catalogd/internal/store"
)

func TestDiff(t *testing.T) {
	st := openStore(t)
	base := startServer(t, newHandler(st))
	before := packagesFS("1.0.0", "broken", "gone", "kept")
	before["c.json"] = channelFS(channeltest.Parse("1.0.0", "1.1.0 replaces 1.0.0"))["c.json"]
	commit(t, st, "c", "1", before)
	after := packagesFS("1.0.0", "kept", "new")
	after["broken.json"] = &fstest.MapFile{Data: []byte(`{"schema":"olm.package","name":"broken","defaultChannel":"none"}`)}
	after["c.json"] = channelFS(channeltest.Parse("1.1.0 deprecated leaks", "1.2.0 replaces 1.1.0 skips 1.0.9"))["c.json"]
	commit(t, st, "c", "2", after)

	old, now := "c@"+digestOf("1"), "c@"+digestOf("2")
	want := diff.Difference{
		From: diff.Catalog{Name: old, Digest: digestOf("1")}, To: diff.Catalog{Name: now, Digest: digestOf("2")},
		Packages: []diff.PackageDifference{
			{Name: "broken", Change: diff.Changed, Invalid: true, Note: `invalid: default channel "none" not found`},
			{
				Name: "foo", Change: diff.Changed,
				Channels: []diff.ChannelDifference{{
					Name: "stable", Change: diff.Changed, Head: diff.FromTo{From: "foo.v1.1.0", To: "foo.v1.2.0"},
					Entries: []diff.EntryDifference{
						{Name: "foo.v1.0.0", Change: diff.Removed},
						{Name: "foo.v1.1.0", Change: diff.Changed, Replaces: &diff.FromTo{From: "foo.v1.0.0"}},
						{
							Name: "foo.v1.2.0", Change: diff.Added, Replaces: &diff.FromTo{To: "foo.v1.1.0"},
							Skips: &diff.SkipsDifference{Added: []string{"foo.v1.0.9"}},
						},
					},
				}},
				Bundles: []diff.BundleDifference{{Name: "foo.v1.0.0", Version: "1.0.0", Change: diff.Removed},
					{Name: "foo.v1.2.0", Version: "1.2.0", Change: diff.Added}},
				Deprecations: []diff.DeprecationDifference{
					{Reference: diff.Reference{Kind: "bundle", Name: "foo.v1.1.0"}, Change: diff.Added, Message: "leaks"},
				},
			},
			{Name: "gone", Change: diff.Removed},
			{
				Name: "new", Change: diff.Added, DefaultChannel: &diff.FromTo{To: "stable"},
				Channels: []diff.ChannelDifference{{Name: "stable", Change: diff.Added, Head: diff.FromTo{To: "new.v1.0.0"}}},
				Bundles:  []diff.BundleDifference{{Name: "new.v1.0.0", Version: "1.0.0", Change: diff.Added}},
			},
		},
	}
	for _, path := range []string{
		"/catalogs/c/api/v1/diff?from=" + digestOf("1"), "/catalogs/c/digests/" + digestOf("2") + "/api/v1/diff?from=" + digestOf("1"),
		"/api/v1/diff?from=" + old + "&to=c", "/api/v1/diff?from=" + old + "&to=" + now,
	} {
		var got diff.Difference
		if err := json.Unmarshal([]byte(get(t, base+path)), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	if got := get(t, base+"/api/v1/diff?from=c&to="+old+"&package=gone&package=kept"); !strings.Contains(got, `"packages":[{"name":"gone","change":"added",`) {
		t.Errorf("the other way: %s", got)
	}
}

// TestDiffStops checks the time limit, and the limit of what is compared.
func TestDiffStops(t *testing.T) {
	st := openStore(t)
	commit(t, st, "a", "1", packagesFS("1.0.0", "p"))
	commit(t, st, "b", "2", packagesFS("1.0.1", "p"))
	s := newServer(testConfig(st))
	s.diffs.timeout = 0
	if got, want := statusOf(t, startServer(t, s)+"/api/v1/diff?from=a&to=b"), http.StatusServiceUnavailable; got != want {
		t.Errorf("without time: status %d, want %d", got, want)
	}
	a, _ := st.Catalog("a")
	left := 3 // a channel, an entry, a bundle
	for want, left := range map[bool]*int{true: &left, false: new(int)} {
		o, err := outline(a, left)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Packages["p"].Load(t.Context()); (err == nil) != want {
			t.Errorf("loading a package: error %v", err)
		}
	}
}

// TestDiffAwaitsValidation compares with content that is not validated yet.
func TestDiffAwaitsValidation(t *testing.T) {
	s := newServer(testConfig(openStore(t)))
	unvalidated := store.Catalog{Name: "c", Snapshot: &store.Snapshot{}}
	err := s.diffs.compare(nil, nil, unvalidated, unvalidated, nil)
	if refused, ok := err.(*statusError); !ok || refused.code != http.StatusServiceUnavailable { //nolint:errorlint // not wrapped
		t.Errorf("got %v, want 503", err)
	}
}
