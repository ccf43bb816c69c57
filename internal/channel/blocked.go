package channel

import (
	"fmt"
	"slices"
	"strings"
)

// Block is the cause of a missing path.
type Block string

// The blocks.
const (
	UnknownFrom Block = "UnknownFrom" // the start is not in the graph
	UnknownTo   Block = "UnknownTo"   // the target is not an entry
	Already     Block = "Already"     // the target is the start
	Newer       Block = "Newer"       // the start has a higher version than the target
	DeadEnd     Block = "DeadEnd"     // upgrades end before the target
	PassedOver  Block = "PassedOver"  // upgrades go past the target
)

// BlockedError is the error of a missing path. Its message names the nearest entries.
type BlockedError struct {
	Block   Block  `json:"reason"`
	Message string `json:"message"`
}

func (e *BlockedError) Error() string { return e.Message }

func blockedf(kind Block, format string, args ...any) *BlockedError {
	return &BlockedError{kind, fmt.Sprintf(format, args...)}
}

// title names the channel.
func (g *Graph) title() string {
	return fmt.Sprintf("channel %q of package %q", Clean(g.Channel.Name), Clean(g.Channel.Package))
}

func (g *Graph) alreadyThere(i int) error {
	if g.nodes[i].Name == g.Channel.Head {
		return blockedf(Already, "%s is already the head of %s", g.Label(g.nodes[i].Name), g.title())
	}
	return blockedf(Already, "%s is both the start and the target of the upgrade", g.Label(g.nodes[i].Name))
}

func (g *Graph) unknownTarget(text string) error {
	if len(g.nodes) == 0 {
		return blockedf(UnknownTo, "%s has no entries", g.title())
	}
	if text == "" {
		return blockedf(UnknownTo, "%s has no head: every entry is replaced or skipped by another", g.title())
	}
	return blockedf(UnknownTo, "%s has no entry with name or version %q; %s", g.title(), text, g.nearest(text))
}

func (g *Graph) unknownStart(text string) error {
	return blockedf(UnknownFrom,
		"%q not found in %s: no entry has this name or version, replaces or skips it, or has a skipRange that covers it; %s",
		text, g.title(), g.nearest(text))
}

// nearest names the entries with the closest versions, or the newest if the text has no version.
func (g *Graph) nearest(text string) string {
	v := parseVersion(strings.TrimPrefix(text, "v"))
	if v == nil {
		v = versionIn(text)
	}
	if v == nil {
		newest := []int{0, 1, 2}
		return g.list("newest", newest[:min(3, len(g.nodes))])
	}
	at := slices.IndexFunc(g.byVersion, func(i int) bool { return compareVersions(g.nodes[i].version, v) > 0 })
	if at < 0 {
		at = len(g.byVersion)
	}
	return g.list("nearest", g.byVersion[max(0, at-1):min(len(g.byVersion), at+1)])
}

// list returns a clause such as "the nearest are 1.0.0, 1.1.0".
func (g *Graph) list(which string, entries []int) string {
	verb := "are"
	if len(entries) == 1 {
		verb = "is"
	}
	return fmt.Sprintf("the %s %s %s", which, verb, g.labels(entries, 3))
}

// labels is Labels for indexes of nodes.
func (g *Graph) labels(entries []int, limit int) string {
	names := make([]string, len(entries))
	for k, i := range entries {
		names[k] = g.nodes[i].Name
	}
	return g.Labels(names, limit)
}

// blocked returns the error of a target that is not among the reached entries.
func (w *walk) blocked(reached []int) error {
	from, to := w.label(w.from), w.label(w.to)
	version := w.node(w.from).version
	if target := w.g.nodes[w.to].version; version != nil && target != nil && version.Compare(*target) > 0 {
		return blockedf(Newer, "%s is newer than %s, and no upgrade leads back", from, to)
	}
	last, prefix := w.from, ""
	i := slices.IndexFunc(reached, func(i int) bool { return i > w.to })
	if i >= 0 && reached[i] <= w.from {
		last = reached[i]
		prefix = fmt.Sprintf("upgrades from %s end at %s: ", from, w.label(last))
	}
	if next := w.next(last); len(next) > 0 {
		return blockedf(PassedOver, "%sno upgrade from %s leads to %s: %[2]s upgrades to %[4]s, and %[3]s %[5]s",
			prefix, w.label(last), to, w.g.labels(next, 3), w.g.waysIn(w.to))
	}
	return blockedf(DeadEnd, "%sno entry of %s replaces or skips %s or has a skipRange that covers it; %s",
		prefix, w.g.title(), w.label(last), w.after(last))
}

// after names the next entries and what each can be installed over.
func (w *walk) after(i int) string {
	var after []string
	for k := i - 1; k >= 0 && len(after) < 3; k-- {
		after = append(after, fmt.Sprintf("%s (%s)", w.g.Label(w.g.nodes[k].Name), w.g.waysIn(k)))
	}
	if len(after) == 0 {
		return "there is no later entry"
	}
	return "the next entries: " + strings.Join(after, ", ")
}

// waysIn states what an entry can be installed over.
func (g *Graph) waysIn(i int) string {
	n := g.nodes[i]
	var ways []string
	if n.Replaces != "" {
		ways = append(ways, "replaces "+g.Label(n.Replaces))
	}
	if len(n.Entry.Skips) > 0 {
		ways = append(ways, "skips "+g.Labels(n.Entry.Skips, 3))
	}
	if n.SkipRange != "" {
		ways = append(ways, fmt.Sprintf("skipRange %q", n.SkipRange))
	}
	if len(ways) == 0 {
		return "replaces nothing"
	}
	return strings.Join(ways, ", ")
}

// explain returns a reason as a clause.
func (w *walk) explain(from, to int, r Reason) string {
	if r.Kind == SkipRange {
		return fmt.Sprintf("the skipRange of %s, %q, covers %s", w.label(to), r.Range, w.label(from))
	}
	return fmt.Sprintf("%s %s %s", w.label(to), r.Kind, w.label(from))
}

func (w *walk) label(i int) string {
	n := w.node(i)
	if n.Name == "" {
		return n.Version
	}
	return w.g.Label(n.Name)
}

// route returns a path in one line.
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

// notes states the assumptions about a start that is not an entry. It does not name the channel, because callers group equal channels.
func (w *walk) notes(text string) []string {
	if !w.isOutside() {
		return nil
	}
	no := Clean(text) + " is not an entry of the channel"
	switch {
	case w.outside.Name == "":
		return []string{no + "; skipRanges cover it."}
	case w.outside.Name != text:
		return []string{fmt.Sprintf("%s; assuming %s, which entries replace or skip.", no, Clean(w.outside.Name))}
	case w.outside.version == nil:
		return []string{no + "; its version is unknown, so skipRanges are ignored."}
	}
	return []string{fmt.Sprintf("%s; assuming version %s, as in its name.", no, w.outside.version)}
}
