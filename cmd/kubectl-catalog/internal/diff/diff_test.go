package diff

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// looking is a package whose details are d, or cannot be had.
func looking(hash string, d *Details, err error) Package {
	return Package{Hash: hash, Look: func() (*Details, error) { return d, err }}
}

func TestCompare(t *testing.T) {
	never := Package{Hash: "same", Look: func() (*Details, error) { panic("nobody needs to look into it") }}
	old := &Details{
		DefaultChannel: "alpha",
		Channels:       map[string]Channel{"alpha": {"1", "a.v1"}, "gone": {"2", "a.v1"}, "same": {"3", "a.v1"}},
		Bundles:        map[string]Bundle{"a.v1": {"1", "1.0.0"}, "a.v9": {"2", "9.0.0"}},
		Deprecations:   map[Reference]string{{Kind: "package"}: "move on"},
	}
	now := &Details{
		DefaultChannel: "beta",
		Channels:       map[string]Channel{"alpha": {"4", "a.v10"}, "beta": {"5", "a.v10"}, "same": {"3", "a.v1"}},
		Bundles:        map[string]Bundle{"a.v1": {"3", "1.0.0"}, "a.v10": {"4", "10.0.0"}},
		Deprecations:   map[Reference]string{{Kind: "package"}: "move on now", {"channel", "alpha"}: "old"},
	}
	from := Catalog{Packages: map[string]Package{
		"same": never, "removed": never, "sound": {Hash: "1", Unsound: "no channel"}, "unsound": looking("1", old, nil), "order": looking("1", old, nil), "all": looking("1", old, nil),
	}}
	to := Catalog{Packages: map[string]Package{
		"same": never, "added": looking("1", now, nil), "sound": looking("2", now, nil), "unsound": {Hash: "2", Unsound: "no head"}, "order": looking("2", old, nil), "all": looking("2", now, nil),
	}}
	got, err := Compare(from, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	nothing := &FromTo{"", "beta"}
	want := []PackageDifference{
		{
			Name: "added", Change: Added, DefaultChannel: nothing,
			Channels: []ChannelDifference{{"alpha", Added, FromTo{"", "a.v10"}}, {"beta", Added, FromTo{"", "a.v10"}}, {"same", Added, FromTo{"", "a.v1"}}},
			Bundles:  []BundleDifference{{"a.v1", "1.0.0", Added}, {"a.v10", "10.0.0", Added}},
			Deprecations: []DeprecationDifference{
				{Reference{"channel", "alpha"}, Added, "old"}, {Reference{Kind: "package"}, Added, "move on now"},
			},
		},
		{
			Name: "all", Change: Changed, DefaultChannel: &FromTo{"alpha", "beta"},
			Channels: []ChannelDifference{{"alpha", Changed, FromTo{"a.v1", "a.v10"}}, {"beta", Added, FromTo{"", "a.v10"}}, {"gone", Removed, FromTo{"a.v1", ""}}},
			Bundles:  []BundleDifference{{"a.v1", "1.0.0", Changed}, {"a.v9", "9.0.0", Removed}, {"a.v10", "10.0.0", Added}},
			Deprecations: []DeprecationDifference{
				{Reference{"channel", "alpha"}, Added, "old"}, {Reference{Kind: "package"}, Changed, "move on now"},
			},
		},
		{Name: "order", Change: Changed, Note: "the same channels, bundles and deprecations; what differs is its icon or description, blobs of other schemas, or the order of its blobs"},
		{Name: "removed", Change: Removed},
		{Name: "sound", Change: Changed, Note: "sound now, which it was not: no channel"},
		{Name: "unsound", Change: Changed, Note: "not sound: no head"},
	}
	if diff := cmp.Diff(want, got.Packages); diff != "" {
		t.Error(diff)
	}
	if got, err := Compare(from, to, []string{"removed", "same"}); err != nil || len(got.Packages) != 1 {
		t.Errorf("of two packages one differs, got %v, %v", got, err)
	}
	failed := errors.New("the service is away")
	to.Packages["all"] = looking("2", nil, failed)
	if _, err := Compare(from, to, nil); !errors.Is(err, failed) {
		t.Errorf("got %v, want %v", err, failed)
	}
}
