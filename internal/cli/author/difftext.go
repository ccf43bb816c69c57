package author

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/diff"
)

func printDifference(to *output.Terminal, d *diff.Difference) error {
	p := diffPrinter{output.Lines{Terminal: to}}
	if len(d.Packages) == 0 {
		p.Printf("%s and %s have the same packages.\n", catalogTitle(d.From), catalogTitle(d.To))
		return p.Err
	}
	counts, invalid := map[diff.Change]int{}, 0
	for _, pkg := range d.Packages {
		counts[pkg.Change]++
		if pkg.Invalid {
			invalid++
		}
	}
	p.Printf("%s -> %s: packages: %d added, %d changed, %d removed",
		catalogTitle(d.From), catalogTitle(d.To), counts[diff.Added], counts[diff.Changed], counts[diff.Removed])
	if invalid > 0 {
		p.Printf("; %d invalid", invalid)
	}
	p.Printf("\n")
	afterDetails := true // packages with details are separated by empty lines
	for _, pkg := range d.Packages {
		detailed := pkg.Change != diff.Removed || pkg.Note != ""
		if afterDetails || detailed {
			p.Printf("\n")
		}
		afterDetails = detailed
		p.pkg(pkg)
	}
	return p.Err
}

// catalogTitle returns the name of a catalog with its digest.
func catalogTitle(o diff.Catalog) string {
	name, _, _ := strings.Cut(output.Line(o.Name), "@")
	if o.Digest == "" {
		return name
	}
	return name + "@" + output.ShortDigest(o.Digest)
}

type diffPrinter struct{ output.Lines }

// line prints a difference with its sign.
func (p *diffPrinter) line(indent string, change diff.Change, text string) {
	sign, style := "~", output.Yellow
	switch change {
	case diff.Added:
		sign, style = "+", output.Green
	case diff.Removed:
		sign, style = "-", output.Red
	}
	p.Printf("%s%s\n", indent, p.Paint(style, sign+" "+output.Line(text)))
}

func (p *diffPrinter) pkg(d diff.PackageDifference) {
	if d.Invalid {
		p.Printf("%s\n", p.Paint(output.Red, "! "+output.Line(d.Name)))
	} else {
		p.line("", d.Change, d.Name)
	}
	const indent = "    "
	if d.Note != "" {
		p.Printf("%s%s\n", indent, output.Line(d.Note))
	}
	if d.Change == diff.Added {
		p.addition(indent, d)
		return
	}
	if c := d.DefaultChannel; c != nil {
		p.line(indent, diff.Changed, fmt.Sprintf("default channel: %s -> %s", orNone(c.From), orNone(c.To)))
	}
	for _, c := range d.Channels {
		p.line(indent, c.Change, "channel "+channelText(c))
		p.entries(indent+indent, c.Entries)
	}
	for _, b := range d.Bundles {
		text := "bundle " + b.Name
		if b.Version != "" {
			text += " (" + b.Version + ")"
		}
		p.line(indent, b.Change, text)
	}
	for _, by := range d.Deprecations {
		p.line(indent, by.Change, deprecationText(by))
	}
}

func orNone(name string) string { return cmp.Or(name, "none") }

// addition summarizes a new package.
func (p *diffPrinter) addition(indent string, d diff.PackageDifference) {
	if len(d.Channels) == 0 && len(d.Bundles) == 0 {
		return
	}
	text := fmt.Sprintf("channels: %d, bundles: %d", len(d.Channels), len(d.Bundles))
	if d.DefaultChannel != nil {
		i := slices.IndexFunc(d.Channels, func(c diff.ChannelDifference) bool { return c.Name == d.DefaultChannel.To })
		if i >= 0 {
			text += fmt.Sprintf("; %s in the default channel %s", cmp.Or(d.Channels[i].Head.To, "no head"), d.DefaultChannel.To)
		}
	}
	p.Printf("%s%s\n", indent, output.Line(text))
}

func channelText(c diff.ChannelDifference) string {
	from, to := orNone(c.Head.From), orNone(c.Head.To)
	switch {
	case c.Change == diff.Added:
		return fmt.Sprintf("%s: head %s", c.Name, to)
	case c.Change == diff.Removed:
		return fmt.Sprintf("%s: head was %s", c.Name, from)
	case from == to && len(c.Entries) == 0:
		return fmt.Sprintf("%s: same head %s and entries; properties or order differ", c.Name, to)
	case from == to:
		return fmt.Sprintf("%s: same head %s", c.Name, to)
	}
	return fmt.Sprintf("%s: head %s -> %s", c.Name, from, to)
}

// Limits of the listed entries of a channel, and of the listed skips of an entry.
const (
	maxEntries = 5
	maxSkips   = 3
)

// entries prints the changed entries of a channel. New ones come last, because their bundles are listed below.
func (p *diffPrinter) entries(indent string, all []diff.EntryDifference) {
	order := []diff.Change{diff.Changed, diff.Removed, diff.Added}
	all = slices.SortedStableFunc(slices.Values(all), func(a, b diff.EntryDifference) int {
		return cmp.Compare(slices.Index(order, a.Change), slices.Index(order, b.Change))
	})
	for i, e := range all {
		if i == maxEntries {
			p.Printf("%sand %d more; -o json lists all\n", indent, len(all)-i)
			return
		}
		text := e.Name
		if words := entryText(e); words != "" && e.Change != diff.Removed {
			text += ": " + words
		}
		p.line(indent, e.Change, text)
	}
}

// entryText returns the changed upgrade edges of an entry.
func entryText(e diff.EntryDifference) string {
	var words []string
	edge := func(field string, is *diff.FromTo) {
		switch {
		case is == nil:
		case is.To == "":
			words = append(words, fmt.Sprintf("no %s, was %s", field, is.From))
		case is.From == "":
			words = append(words, field+" "+is.To)
		default:
			words = append(words, fmt.Sprintf("%s %s, was %s", field, is.To, is.From))
		}
	}
	edge("replaces", e.Replaces)
	if s := e.Skips; s != nil && len(s.Added) > 0 {
		words = append(words, "skips "+output.First(s.Added, maxSkips))
	}
	if s := e.Skips; s != nil && len(s.Removed) > 0 {
		words = append(words, "no longer skips "+output.First(s.Removed, maxSkips))
	}
	edge("skipRange", e.SkipRange)
	return strings.Join(words, "; ")
}

func deprecationText(d diff.DeprecationDifference) string {
	text := "deprecation of " + d.Kind
	if d.Name != "" {
		text += " " + d.Name
	}
	if d.Message != "" {
		text += ": " + d.Message
	}
	return text
}
