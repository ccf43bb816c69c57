package diff

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// looking is a package whose details are d, or cannot be had.
func looking(hash string, d *Details, err error) Package {
	return Package{Hash: hash, Look: func(context.Context) (*Details, error) { return d, err }}
}

func TestCompare(t *testing.T) {
	never := Package{Hash: "same", Look: func(context.Context) (*Details, error) { panic("nobody needs to look into it") }}
	old := &Details{
		DefaultChannel: "alpha",
		Channels:       map[string]Channel{"alpha": {Hash: "1", Head: "a.v1"}, "gone": {Hash: "2", Head: "a.v1"}, "same": {Hash: "3", Head: "a.v1"}},
		Bundles:        map[string]Bundle{"a.v1": {"1", "1.0.0"}, "a.v9": {"2", "9.0.0"}},
		Deprecations:   map[Reference]string{{Kind: "package"}: "move on"},
	}
	now := &Details{
		DefaultChannel: "beta",
		Channels:       map[string]Channel{"alpha": {Hash: "4", Head: "a.v10"}, "beta": {Hash: "5", Head: "a.v10"}, "same": {Hash: "3", Head: "a.v1"}},
		Bundles:        map[string]Bundle{"a.v1": {"3", "1.0.0"}, "a.v10": {"4", "10.0.0"}},
		Deprecations:   map[Reference]string{{Kind: "package"}: "move on now", {"channel", "alpha"}: "old"},
	}
	from := Catalog{Packages: map[string]Package{
		"same": never, "removed": never, "sound": looking("1", &Details{Unsound: "no channel"}, nil), "unsound": looking("1", old, nil), "order": looking("1", old, nil), "all": looking("1", old, nil),
	}}
	to := Catalog{Packages: map[string]Package{
		"same": never, "added": looking("1", now, nil), "sound": looking("2", now, nil), "unsound": looking("2", &Details{Unsound: "no head"}, nil), "order": looking("2", old, nil), "all": looking("2", now, nil),
	}}
	got, err := Compare(t.Context(), from, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	nothing := &FromTo{"", "beta"}
	want := []PackageDifference{
		{
			Name: "added", Change: Added, DefaultChannel: nothing,
			Channels: []ChannelDifference{{Name: "alpha", Change: Added, Head: FromTo{"", "a.v10"}}, {Name: "beta", Change: Added, Head: FromTo{"", "a.v10"}}, {Name: "same", Change: Added, Head: FromTo{"", "a.v1"}}},
			Bundles:  []BundleDifference{{"a.v1", "1.0.0", Added}, {"a.v10", "10.0.0", Added}},
			Deprecations: []DeprecationDifference{
				{Reference{"channel", "alpha"}, Added, "old"}, {Reference{Kind: "package"}, Added, "move on now"},
			},
		},
		{
			Name: "all", Change: Changed, DefaultChannel: &FromTo{"alpha", "beta"},
			Channels: []ChannelDifference{{Name: "alpha", Change: Changed, Head: FromTo{"a.v1", "a.v10"}}, {Name: "beta", Change: Added, Head: FromTo{"", "a.v10"}}, {Name: "gone", Change: Removed, Head: FromTo{"a.v1", ""}}},
			Bundles:  []BundleDifference{{"a.v1", "1.0.0", Changed}, {"a.v9", "9.0.0", Removed}, {"a.v10", "10.0.0", Added}},
			Deprecations: []DeprecationDifference{
				{Reference{"channel", "alpha"}, Added, "old"}, {Reference{Kind: "package"}, Changed, "move on now"},
			},
		},
		{Name: "order", Change: Changed, Note: "the same channels, bundles and deprecations; what differs is its icon or description, blobs of other schemas, or the order of its blobs"},
		{Name: "removed", Change: Removed},
		{Name: "sound", Change: Changed, Note: "sound now, which it was not: no channel"},
		{Name: "unsound", Change: Changed, Unsound: true, Note: "not sound: no head"},
	}
	if diff := cmp.Diff(want, got.Packages); diff != "" {
		t.Error(diff)
	}
	if got, err := Compare(t.Context(), from, to, []string{"removed", "same"}); err != nil || len(got.Packages) != 1 {
		t.Errorf("of two packages one differs, got %v, %v", got, err)
	}
	failed := errors.New("the service is away")
	to.Packages["all"] = looking("2", nil, failed)
	if _, err := Compare(t.Context(), from, to, nil); !errors.Is(err, failed) {
		t.Errorf("got %v, want %v", err, failed)
	}
}

// What an admin asks of a channel is what upgrades what now.
func TestCompareEntries(t *testing.T) {
	a := &Details{
		Channels: map[string]Channel{"stable": {Hash: "1", Head: "a.v2", Entries: map[string]Entry{
			"a.v1": {Replaces: "a.v0"}, "a.v2": {Replaces: "a.v1", Skips: []string{"x", "y"}, SkipRange: "<2.0.0"}, "a.v10": {Skips: []string{"x", "y"}}, "a.v9": {},
		}}},
		Bundles: map[string]Bundle{"a.v1": {"1", "1.0.0"}, "a.v2": {"2", "2.0.0"}, "a.v9": {"9", "9.0.0"}, "a.v10": {"10", "10.0.0"}},
	}
	b := &Details{
		Channels: map[string]Channel{"stable": {Hash: "2", Head: "a.v2", Entries: map[string]Entry{
			"a.v1": {Replaces: "a.v9"}, "a.v2": {Replaces: "a.v1", Skips: []string{"z", "y"}}, "a.v10": {Skips: []string{"y", "x"}}, "a.v3": {Replaces: "a.v2"},
		}}},
		Bundles: map[string]Bundle{"a.v1": {"1", "1.0.0"}, "a.v2": {"2", "2.0.0"}, "a.v3": {"3", "3.0.0"}, "a.v10": {"10", "10.0.0"}},
	}
	var p PackageDifference
	p.compare(a, b)
	want := []EntryDifference{
		{Name: "a.v1", Change: Changed, Replaces: &FromTo{"a.v0", "a.v9"}},
		{Name: "a.v2", Change: Changed, Skips: &SkipsDifference{[]string{"z"}, []string{"x"}}, SkipRange: &FromTo{"<2.0.0", ""}},
		{Name: "a.v3", Change: Added, Replaces: &FromTo{"", "a.v2"}},
		{Name: "a.v9", Change: Removed},
	}
	if diff := cmp.Diff(want, p.Channels[0].Entries); diff != "" {
		t.Error(diff)
	}
}

// TestCompareLooksAtOnce has each of as many looks as there may be at a time wait for the others.
func TestCompareLooksAtOnce(t *testing.T) {
	var others sync.WaitGroup
	others.Add(atOnce)
	look := func(context.Context) (*Details, error) {
		others.Done()
		others.Wait()
		return &Details{}, nil
	}
	to := Catalog{Packages: map[string]Package{}}
	for i := range atOnce {
		to.Packages[fmt.Sprint(i)] = Package{Look: look}
	}
	if _, err := Compare(t.Context(), Catalog{}, to, nil); err != nil {
		t.Error(err)
	}
}
