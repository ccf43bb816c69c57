package diff

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/channel"
)

// loading returns a package that loads d or fails.
func loading(hash string, d *Details, err error) Package {
	return Package{Hash: hash, Load: func(context.Context) (*Details, error) { return d, err }}
}

func TestCompare(t *testing.T) {
	never := Package{Hash: "same", Load: func(context.Context) (*Details, error) { panic("an equal package must not be loaded") }}
	old := &Details{
		DefaultChannel: "alpha",
		Channels: map[string]Channel{
			"alpha": {Hash: "1", Head: "a.v1"}, "gone": {Hash: "2", Head: "a.v1"}, "same": {Hash: "3", Head: "a.v1"},
		},
		Bundles:      map[string]Bundle{"a.v1": {"1", "1.0.0"}, "a.v9": {"2", "9.0.0"}},
		Deprecations: map[Reference]string{{Kind: "package"}: "move on"},
	}
	now := &Details{
		DefaultChannel: "beta",
		Channels: map[string]Channel{
			"alpha": {Hash: "4", Head: "a.v10"}, "beta": {Hash: "5", Head: "a.v10"}, "same": {Hash: "3", Head: "a.v1"},
		},
		Bundles:      map[string]Bundle{"a.v1": {"3", "1.0.0"}, "a.v10": {"4", "10.0.0"}},
		Deprecations: map[Reference]string{{Kind: "package"}: "move on now", {"channel", "alpha"}: "old"},
	}
	from := Catalog{Packages: map[string]Package{
		"same": never, "removed": never, "valid": loading("1", &Details{Invalid: "no channel"},
			nil), "invalid": loading("1", old, nil), "order": loading("1", old, nil), "all": loading("1", old, nil),
	}}
	to := Catalog{Packages: map[string]Package{
		"same": never, "added": loading("1", now, nil), "valid": loading("2", now, nil),
		"invalid": loading("2", &Details{Invalid: "no head"}, nil), "order": loading("2", old, nil), "all": loading("2", now, nil),
	}}
	got, err := Compare(t.Context(), from, to, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	nothing := &FromTo{"", "beta"}
	want := []PackageDifference{
		{
			Name: "added", Change: Added, DefaultChannel: nothing,
			Channels: []ChannelDifference{
				{Name: "alpha", Change: Added, Head: FromTo{"", "a.v10"}},
				{Name: "beta", Change: Added, Head: FromTo{"", "a.v10"}},
				{Name: "same", Change: Added, Head: FromTo{"", "a.v1"}},
			},
			Bundles: []BundleDifference{{"a.v1", "1.0.0", Added}, {"a.v10", "10.0.0", Added}},
			Deprecations: []DeprecationDifference{
				{Reference{"channel", "alpha"}, Added, "old"}, {Reference{Kind: "package"}, Added, "move on now"},
			},
		},
		{
			Name: "all", Change: Changed, DefaultChannel: &FromTo{"alpha", "beta"},
			Channels: []ChannelDifference{
				{Name: "alpha", Change: Changed, Head: FromTo{"a.v1", "a.v10"}},
				{Name: "beta", Change: Added, Head: FromTo{"", "a.v10"}},
				{Name: "gone", Change: Removed, Head: FromTo{"a.v1", ""}},
			},
			Bundles: []BundleDifference{{"a.v1", "1.0.0", Changed}, {"a.v9", "9.0.0", Removed}, {"a.v10", "10.0.0", Added}},
			Deprecations: []DeprecationDifference{
				{Reference{"channel", "alpha"}, Added, "old"}, {Reference{Kind: "package"}, Changed, "move on now"},
			},
		},
		{Name: "invalid", Change: Changed, Invalid: true, Note: "invalid: no head"},
		{Name: "order", Change: Changed, Note: "channels, bundles and deprecations are equal; its icon, its description, blobs of other " +
			"schemas or the order of blobs differ"},
		{Name: "removed", Change: Removed},
		{Name: "valid", Change: Changed, Note: "valid now; it was invalid before: no channel"},
	}
	if diff := cmp.Diff(want, got.Packages); diff != "" {
		t.Error(diff)
	}
	if got, err := Compare(t.Context(), from, to, []string{"removed", "same"}, 1); err != nil || len(got.Packages) != 1 {
		t.Errorf("got %v, %v; want one difference", got, err)
	}
	failed := errors.New("the service is away")
	to.Packages["all"] = loading("2", nil, failed)
	if _, err := Compare(t.Context(), from, to, nil, 1); !errors.Is(err, failed) {
		t.Errorf("got %v, want %v", err, failed)
	}
}

func TestCompareEntries(t *testing.T) {
	a := &Details{
		Channels: map[string]Channel{"stable": {Hash: "1", Head: "a.v2", Entries: map[string]channel.Entry{
			"a.v1": {Replaces: "a.v0"}, "a.v2": {
				Replaces: "a.v1", Skips: []string{"x", "y"}, SkipRange: "<2.0.0",
			}, "a.v10": {Skips: []string{"x", "y"}}, "a.v9": {},
		}}},
		Bundles: map[string]Bundle{"a.v1": {"1", "1.0.0"}, "a.v2": {"2", "2.0.0"}, "a.v9": {"9", "9.0.0"}, "a.v10": {"10", "10.0.0"}},
	}
	b := &Details{
		Channels: map[string]Channel{"stable": {Hash: "2", Head: "a.v2", Entries: map[string]channel.Entry{
			"a.v1": {Replaces: "a.v9"}, "a.v2": {
				Replaces: "a.v1", Skips: []string{"z", "y"},
			}, "a.v10": {Skips: []string{"y", "x"}}, "a.v3": {Replaces: "a.v2"},
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

// TestCompareLoadsConcurrently lets each of the maximum number of loads wait for the others.
func TestCompareLoadsConcurrently(t *testing.T) {
	const loads = 8
	var others sync.WaitGroup
	others.Add(loads)
	load := func(context.Context) (*Details, error) {
		others.Done()
		others.Wait()
		return &Details{}, nil
	}
	to := Catalog{Packages: map[string]Package{}}
	for i := range loads {
		to.Packages[fmt.Sprint(i)] = Package{Load: load}
	}
	if _, err := Compare(t.Context(), Catalog{}, to, nil, loads); err != nil {
		t.Error(err)
	}
}
