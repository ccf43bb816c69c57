package channel

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
)

// Mode decides where Place puts a bundle. ModeReplaces, ModeSemver and ModeSkipPatch are those of `opm index add` (operator-registry v1.72.0,
// pkg/registry/bundlegraphloader.go and pkg/sqlite/load.go).
type Mode string

const (
	// ModeHead makes the bundle replace the head.
	ModeHead Mode = "head"
	// ModeReplaces takes replaces and skips as the bundle has them, and drops what the head no longer leads to.
	ModeReplaces Mode = "replaces"
	// ModeSemver puts the bundle between the next lower and the next higher version.
	ModeSemver Mode = "semver"
	// ModeSkipPatch is ModeSemver, and the bundle skips all lower versions of its minor version.
	ModeSkipPatch Mode = "semver-skippatch"
	// ModeGiven takes replaces and skips as they are, and changes no other entry. It may leave a second head.
	ModeGiven Mode = "given"
)

// Modes are the modes that a user can choose by name.
var Modes = []string{string(ModeHead), string(ModeReplaces), string(ModeSemver), string(ModeSkipPatch)}

// Place returns the entries of a channel with a new one: added, with its replaces and skips as in its bundle. elsewhere has the
// entries of other channels of the package by name, which ModeReplaces may need. The order of the given entries stays.
func Place(mode Mode, entries []Entry, added Entry, elsewhere map[string]Entry) ([]Entry, error) {
	if _, err := semver.Parse(added.Version); err != nil {
		return nil, fmt.Errorf("version %q of bundle %q is invalid: %w", added.Version, added.Name, err)
	}
	for _, e := range entries {
		if e.Name == added.Name {
			return nil, fmt.Errorf("bundle %q is already in it", e.Name)
		}
		if e.Version == added.Version {
			return nil, fmt.Errorf("bundle %q already has version %s", e.Name, e.Version)
		}
	}
	switch mode {
	case ModeGiven:
		return append(slices.Clone(entries), added), nil
	case ModeReplaces:
		return placeByReplaces(entries, added, elsewhere)
	case ModeSemver, ModeSkipPatch:
		return placeByVersion(entries, added, mode == ModeSkipPatch)
	}
	return placeAsHead(entries, added)
}

func placeAsHead(entries []Entry, added Entry) ([]Entry, error) {
	added.Replaces = ""
	if len(entries) > 0 {
		head, err := onlyHead(entries)
		if err != nil {
			return nil, err
		}
		if compare(added, head) < 0 {
			return nil, fmt.Errorf("version %s is lower than that of the head, %s: use --mode semver, or --replaces", added.Version, head.Version)
		}
		added.Replaces = head.Name
	}
	return append(slices.Clone(entries), added), nil
}

// onlyHead returns the head of a channel that has one.
func onlyHead(entries []Entry) (Entry, error) {
	heads := Heads(entries)
	if len(heads) != 1 {
		return Entry{}, fmt.Errorf("it has %d heads (%s): mend its entries first, or use --replaces", len(heads), strings.Join(heads, ", "))
	}
	return entries[slices.IndexFunc(entries, func(e Entry) bool { return e.Name == heads[0] })], nil
}

// compare orders entries by version, and those of equal precedence by build metadata, as opm does. Invalid versions are lowest.
func compare(a, b Entry) int {
	va, errA := semver.Parse(a.Version)
	vb, errB := semver.Parse(b.Version)
	switch {
	case errA != nil || errB != nil:
		return strings.Compare(fmt.Sprint(errA == nil), fmt.Sprint(errB == nil))
	case !va.EQ(vb):
		return va.Compare(vb)
	}
	return slices.Compare(va.Build, vb.Build)
}

// chain returns the names from an entry along replaces to the first that is absent.
func chain(byName map[string]Entry, name string) (names []string) {
	for e, ok := byName[name]; ok && !slices.Contains(names, e.Name); e, ok = byName[e.Replaces] {
		names = append(names, e.Name)
	}
	return names
}

func byName(entries []Entry) map[string]Entry {
	all := map[string]Entry{}
	for _, e := range entries {
		all[e.Name] = e
	}
	return all
}

func placeByReplaces(entries []Entry, added Entry, elsewhere map[string]Entry) ([]Entry, error) {
	here := append(slices.Clone(entries), added)
	known := byName(here)
	for name, e := range elsewhere {
		if _, ok := known[name]; !ok {
			known[name] = e
		}
	}
	if _, ok := known[added.Replaces]; added.Replaces != "" && !ok {
		return nil, fmt.Errorf("bundle %q replaces %q, which the package does not have: add that one first, or use another --mode", added.Name,
			added.Replaces)
	}
	head := slices.MaxFunc(here, compare)
	linked := chain(known, head.Name)
	result := map[string]Entry{}
	for _, name := range linked {
		e := known[name]
		result[name] = e
		for _, skipped := range e.Skips {
			if s, ok := known[skipped]; ok && !slices.Contains(linked, skipped) {
				result[skipped] = Entry{Name: s.Name, Version: s.Version, SkipRange: s.SkipRange}
			}
		}
	}
	if _, ok := result[added.Name]; !ok {
		return nil, fmt.Errorf("the head, %q, does not lead to bundle %q: its version %s is lower, and nothing replaces it", head.Name, added.Name,
			added.Version)
	}
	return inOrder(result, here), nil
}

// inOrder returns entries in the order of others, and those that are not there by name at the end.
func inOrder(entries map[string]Entry, like []Entry) (sorted []Entry) {
	for _, e := range like {
		if e, ok := entries[e.Name]; ok {
			sorted = append(sorted, e)
			delete(entries, e.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		sorted = append(sorted, entries[name])
	}
	return sorted
}

func placeByVersion(entries []Entry, added Entry, skipPatch bool) ([]Entry, error) {
	added.Replaces, added.Skips = "", nil
	if len(entries) == 0 {
		return []Entry{added}, nil
	}
	head, err := onlyHead(entries)
	if err != nil {
		return nil, err
	}
	result := byName(entries)
	linked := chain(result, head.Name)
	last := result[linked[len(linked)-1]]
	if skipPatch {
		added.Skips = skipLowerPatches(result, entries, added.Version)
	}
	var ahead string // the lowest of those with a higher version
	for _, name := range linked {
		e := result[name]
		switch {
		case compare(e, added) > 0:
			if ahead == "" || compare(e, result[ahead]) < 0 {
				ahead = name
			}
		case slices.Contains(added.Skips, name):
		case added.Replaces == "" || compare(e, result[added.Replaces]) > 0:
			added.Replaces = name
		}
	}
	if _, ok := result[last.Replaces]; added.Replaces == "" && !ok && last.Replaces != added.Name {
		added.Replaces = last.Replaces // of a version that the channel no longer has
	}
	if ahead != "" {
		e := result[ahead]
		e.Replaces = added.Name
		e.Skips = slices.DeleteFunc(slices.Clone(e.Skips), func(name string) bool { return slices.Contains(added.Skips, name) })
		result[ahead] = e
	}
	result[added.Name] = added
	return inOrder(result, append(slices.Clone(entries), added)), nil
}

// skipLowerPatches removes the edges of all lower versions of a minor version, and returns their names, the newest first.
func skipLowerPatches(all map[string]Entry, entries []Entry, version string) (skips []string) {
	v, err := semver.Parse(version)
	if err != nil {
		return nil
	}
	for _, e := range slices.SortedFunc(slices.Values(entries), func(a, b Entry) int { return compare(b, a) }) {
		other, err := semver.Parse(e.Version)
		if err == nil && other.Major == v.Major && other.Minor == v.Minor && other.LT(v) {
			all[e.Name] = Entry{Name: e.Name, Version: e.Version, SkipRange: e.SkipRange}
			skips = append(skips, e.Name)
		}
	}
	return skips
}
