package cli

import (
	"cmp"
	"maps"
	"slices"
)

// How something differs.
const (
	added   = "added"
	removed = "removed"
	changed = "changed"
)

// An outline is what is in a catalog, by names and hashes, in as far as it is needed to tell what differs.
type outline struct {
	Name     string `json:"name"`             // as it was given
	Digest   string `json:"digest,omitempty"` // of its image, if it has one
	packages map[string]packageOutline
}

// packageOutline is what is known of a package without looking into it.
type packageOutline struct {
	hash    string
	unsound string // why it is not sound
	look    func() (*packageDetails, error)
}

// packageDetails is what is in a package.
type packageDetails struct {
	defaultChannel string
	channels       map[string]channelDetails
	bundles        map[string]bundleDetails
	deprecations   map[reference]string // messages
}

type channelDetails struct{ hash, head string }

type bundleDetails struct{ hash, version string }

// reference says what is deprecated: the package itself, a channel or a bundle.
type reference struct {
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"`
}

// difference is what differs between two catalogs.
type difference struct {
	From     outline             `json:"from"`
	To       outline             `json:"to"`
	Packages []packageDifference `json:"packages"`
}

type packageDifference struct {
	Name           string              `json:"name"`
	Change         string              `json:"change"`
	Note           string              `json:"note,omitempty"` // what there is to say instead of details
	DefaultChannel *fromTo             `json:"defaultChannel,omitempty"`
	Channels       []channelDifference `json:"channels,omitempty"`
	Bundles        []bundleDifference  `json:"bundles,omitempty"`
	Deprecations   []deprecated        `json:"deprecations,omitempty"`
}

type fromTo struct {
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

type channelDifference struct {
	Name   string `json:"name"`
	Change string `json:"change"`
	Head   fromTo `json:"head"`
}

type bundleDifference struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Change  string `json:"change"`
}

type deprecated struct {
	reference
	Change  string `json:"change"`
	Message string `json:"message,omitempty"`
}

// eachDifferent calls each for what differs between two sets, sorted by name. same tells whether two of the same name are equal.
func eachDifferent[K comparable, V any](from, to map[K]V, compare func(a, b K) int, same func(a, b V) bool, each func(name K, change string) error) error {
	all := maps.Clone(from)
	if all == nil {
		all = map[K]V{}
	}
	maps.Copy(all, to)
	for _, name := range slices.SortedFunc(maps.Keys(all), compare) {
		a, before := from[name]
		b, after := to[name]
		change := changed
		switch {
		case !before:
			change = added
		case !after:
			change = removed
		case same(a, b):
			continue
		}
		if err := each(name, change); err != nil {
			return err
		}
	}
	return nil
}

// differ compares two catalogs, or of these some packages. It looks only into packages whose hashes differ.
func differ(from, to outline, only []string) (*difference, error) {
	d := &difference{From: from, To: to, Packages: []packageDifference{}}
	same := func(a, b packageOutline) bool { return a.hash == b.hash }
	err := eachDifferent(from.packages, to.packages, cmp.Compare[string], same, func(name, change string) error {
		if len(only) > 0 && !slices.Contains(only, name) {
			return nil
		}
		p, err := differInPackage(name, change, from.packages[name], to.packages[name])
		d.Packages = append(d.Packages, p)
		return err
	})
	return d, err
}

func differInPackage(name, change string, from, to packageOutline) (packageDifference, error) {
	p := packageDifference{Name: name, Change: change}
	switch {
	case to.unsound != "":
		p.Note = "not sound: " + to.unsound
	case from.unsound != "" && change == changed:
		p.Note = "sound now, which it was not: " + from.unsound
	}
	if p.Note != "" || change == removed {
		return p, nil
	}
	a := &packageDetails{}
	if change == changed {
		var err error
		if a, err = from.look(); err != nil {
			return p, err
		}
	}
	b, err := to.look()
	if err != nil {
		return p, err
	}
	if a.defaultChannel != b.defaultChannel {
		p.DefaultChannel = &fromTo{a.defaultChannel, b.defaultChannel}
	}
	p.compare(a, b)
	if p.DefaultChannel == nil && p.Channels == nil && p.Bundles == nil && p.Deprecations == nil {
		p.Note = "the same channels, bundles and deprecations; what differs is its icon or description, blobs of other schemas, or the order of its blobs"
	}
	return p, nil
}

func (p *packageDifference) compare(a, b *packageDetails) {
	_ = eachDifferent(a.channels, b.channels, cmp.Compare[string], func(x, y channelDetails) bool { return x.hash == y.hash }, func(name, change string) error {
		p.Channels = append(p.Channels, channelDifference{name, change, fromTo{a.channels[name].head, b.channels[name].head}})
		return nil
	})
	_ = eachDifferent(a.bundles, b.bundles, compareBundles(a, b), func(x, y bundleDetails) bool { return x.hash == y.hash }, func(name, change string) error {
		p.Bundles = append(p.Bundles, bundleDifference{name, cmp.Or(b.bundles[name], a.bundles[name]).version, change})
		return nil
	})
	byName := func(x, y reference) int { return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Name, y.Name)) }
	_ = eachDifferent(a.deprecations, b.deprecations, byName, func(x, y string) bool { return x == y }, func(of reference, change string) error {
		p.Deprecations = append(p.Deprecations, deprecated{of, change, b.deprecations[of]})
		return nil
	})
}

// compareBundles sorts bundles by version.
func compareBundles(a, b *packageDetails) func(x, y string) int {
	version := func(name string) string { return cmp.Or(b.bundles[name], a.bundles[name]).version }
	return func(x, y string) int { return cmp.Or(compareVersions(version(x), version(y)), cmp.Compare(x, y)) }
}
