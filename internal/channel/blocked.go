package upgrade

import (
	"fmt"
	"slices"
	"strings"
)

// Block is what stands in the way.
type Block string

// The blocks.
const (
	UnknownFrom Block = "UnknownFrom" // the channel knows nothing of the bundle to start from
	UnknownTo   Block = "UnknownTo"   // the target is no entry
	Already     Block = "Already"     // the target is where it starts
	Newer       Block = "Newer"       // it starts from a higher version than the target's
	DeadEnd     Block = "DeadEnd"     // upgrades end before the target
	PassedOver  Block = "PassedOver"  // upgrades go on, but past the target
)

// BlockedError says why there is no path, and what is nearest.
type BlockedError struct {
	Block Block
	Words string
}

func (e *BlockedError) Error() string { return e.Words }

func (g *Graph) block(kind Block, format string, args ...any) *BlockedError {
	return &BlockedError{kind, fmt.Sprintf(format, args...)}
}

// where names the channel.
func (g *Graph) where() string {
	return fmt.Sprintf("channel %q of package %q", clean(g.Channel.Name), clean(g.Channel.Package))
}

func (g *Graph) already(i int) error {
	if g.nodes[i].Name == g.Channel.Head {
		return g.block(Already, "%s is the newest of %s already", g.label(g.nodes[i].Name), g.where())
	}
	return g.block(Already, "%s is where the upgrade starts and where it is to end", g.label(g.nodes[i].Name))
}

func (g *Graph) unknownTarget(text string) error {
	if len(g.nodes) == 0 {
		return g.block(UnknownTo, "%s has no entries", g.where())
	}
	if text == "" {
		return g.block(UnknownTo, "%s has no head: every entry is replaced or skipped by another", g.where())
	}
	return g.block(UnknownTo, "%s has no entry of the name or version %q; %s", g.where(), text, g.nearest(text))
}

func (g *Graph) unknown(text string) error {
	return g.block(UnknownFrom, "%q is unknown to %s: no entry has this name or version, replaces or skips it, or has a skipRange that covers it; %s",
		text, g.where(), g.nearest(text))
}

// nearest names the entries whose versions are next to that of a text, else the newest ones.
func (g *Graph) nearest(text string) string {
	v := parseVersion(strings.TrimPrefix(text, "v"))
	if v == nil {
		v = versionIn(text)
	}
	if v == nil {
		return g.named("newest", g.nodes[:min(3, len(g.nodes))])
	}
	byVersion := slices.Clone(g.nodes)
	slices.SortStableFunc(byVersion, func(a, b node) int { return compareVersions(a.version, b.version) })
	at := slices.IndexFunc(byVersion, func(n node) bool { return compareVersions(n.version, v) > 0 })
	if at < 0 {
		at = len(byVersion)
	}
	return g.named("nearest", byVersion[max(0, at-1):min(len(byVersion), at+1)])
}

// named is "the nearest are 1.0.0, 1.1.0".
func (g *Graph) named(which string, nodes []node) string {
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	verb := "are"
	if len(names) == 1 {
		verb = "is"
	}
	return fmt.Sprintf("the %s %s %s", which, verb, g.labels(names, 3))
}

// blocked says why none of the bundles reached is the target.
func (w *walk) blocked(reached []int) error {
	from, to := w.label(w.from), w.label(w.to)
	_, version := w.identity(w.from)
	if target := w.g.nodes[w.to].version; version != nil && target != nil && version.Compare(*target) > 0 {
		return w.g.block(Newer, "%s is newer than %s, and no upgrade leads back", from, to)
	}
	last, lead := w.from, ""
	if i := slices.IndexFunc(reached, func(i int) bool { return i > w.to }); i >= 0 && !(w.from != outside && reached[i] > w.from) {
		last = reached[i]
		lead = fmt.Sprintf("from %s upgrades lead only as far as %s: ", from, w.label(last))
	}
	if len(w.next(last)) > 0 {
		return w.g.block(PassedOver, "%sno upgrade from %s leads to %s: it goes to %s, while %s %s", lead, w.label(last), to, w.labels(w.next(last), 3), to, w.g.waysIn(w.to))
	}
	return w.g.block(DeadEnd, "%snothing in %s replaces or skips %s or has a skipRange that covers it; %s", lead, w.g.where(), w.label(last), w.after(last))
}

// after names the nearest entries above one, and what each of them may be installed over.
func (w *walk) after(i int) string {
	var after []string
	for k := i - 1; k >= 0 && len(after) < 3; k-- {
		after = append(after, fmt.Sprintf("%s (%s)", w.g.label(w.g.nodes[k].Name), w.g.waysIn(k)))
	}
	if len(after) == 0 {
		return "there is no entry after it"
	}
	return "the nearest after it: " + strings.Join(after, ", ")
}

// waysIn says what an entry may be installed over.
func (g *Graph) waysIn(i int) string {
	n := g.nodes[i]
	var ways []string
	if n.Replaces != "" {
		ways = append(ways, "replaces "+g.label(n.Replaces))
	}
	if len(n.Entry.Skips) > 0 {
		ways = append(ways, "skips "+g.labels(n.Entry.Skips, 3))
	}
	if n.SkipRange != "" {
		ways = append(ways, fmt.Sprintf("skipRange %q", n.SkipRange))
	}
	if len(ways) == 0 {
		return "replaces nothing"
	}
	return strings.Join(ways, ", ")
}

// words gives a reason as a sentence.
func (w *walk) words(from, to int, r Reason) string {
	switch r.Kind {
	case SkipRange:
		return fmt.Sprintf("the skipRange of %s, %q, covers %s", w.label(to), r.Range, w.label(from))
	default:
		return fmt.Sprintf("%s %s %s", w.label(to), r.Kind, w.label(from))
	}
}

func (w *walk) label(i int) string {
	switch {
	case i != outside:
		return w.g.label(w.g.nodes[i].Name)
	case w.fromName != "":
		return w.g.label(w.fromName)
	}
	return w.fromVersion.String()
}

func (w *walk) labels(is []int, most int) string {
	var names []string
	for _, i := range is {
		names = append(names, w.g.nodes[i].Name)
	}
	return w.g.labels(names, most)
}

// route draws a path in one line.
func (w *walk) route(path []int) string {
	labels := make([]string, len(path))
	for k, i := range path {
		labels[k] = w.label(i)
	}
	if len(labels) > 6 {
		labels = append(append(labels[:3:3], "…"), labels[len(labels)-2:]...)
	}
	return strings.Join(labels, " → ")
}

// notes says what was taken for granted of a bundle that is no entry.
func (w *walk) notes(text string) []string {
	if w.from != outside {
		return nil
	}
	no := clean(text) + " is no entry of the channel" // which is not named: equal ways of several channels are told of together
	switch {
	case w.fromName == "":
		return []string{no + "; skipRanges cover it."}
	case w.fromName != text:
		return []string{fmt.Sprintf("%s; it is taken to be %s, which entries of it name.", no, clean(w.fromName))}
	case w.fromVersion == nil:
		return []string{no + "; its version is not known, so that no skipRange can be said to cover it."}
	}
	return []string{fmt.Sprintf("%s; its version is taken from its name: %s.", no, w.fromVersion)}
}
