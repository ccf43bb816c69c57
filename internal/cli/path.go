package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	upgrade "github.com/operator-catalogs/catalogd/internal/channel"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

// pathOptions say which way to look for.
type pathOptions struct {
	pkg, catalog, channel string
	from, to              string // versions or names of bundles
}

func newPathCmd(e *env) *cobra.Command {
	var opts pathOptions
	cmd := &cobra.Command{
		Use:   "path PACKAGE --from VERSION",
		Short: "Tell how to upgrade from one version of a package to another",
		Long: `Tell how to upgrade from one version of a package to another, step by step, and which entry of the channel allows each step: by replaces, skips or
skipRange. The path that OLM takes by itself comes first, then the shortest if that is another.

Without --channel all channels are tried: the default one is told of first, then those others that have a path, the shortest first. If there is
no path at all the error says what is in the way, and the exit code is 1. Where one is there already, there is nothing to do.`,
		Example: `  kubectl catalog path skupper-operator --from 1.8.0
  kubectl catalog path skupper-operator --from 1.5.3 --to 1.6.0 --channel stable-1.6
  kubectl catalog path skupper-operator --from skupper-operator.v1.8.0 -o yaml`,
		Args:              onePackage("path PACKAGE --from VERSION", "from", "to"),
		ValidArgsFunction: firstArgument(e.completePackages),
	}
	out := newOutput(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&opts.catalog, "catalog", "c", "", "the package of this `catalog`")
	flags.StringVar(&opts.channel, "channel", "", "in this `channel` only")
	flags.StringVar(&opts.from, "from", "", "the `version` or bundle that is installed")
	flags.StringVar(&opts.to, "to", "", "the `version` or bundle to get to (default: the head of the channel)")
	e.completeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		opts.pkg = args[0]
		if opts.from == "" {
			return usagef("say which version is installed: kubectl catalog path %s --from VERSION", opts.pkg)
		}
		return e.path(cmd.Context(), out, opts)
	}
	return cmd
}

// A way is what a channel has of paths, or what is in the way.
type way struct {
	*channelUpgrades
	paths   *upgrade.Paths
	blocked *upgrade.BlockedError // if paths is nil
}

func (e *env) path(ctx context.Context, out *output, opts pathOptions) error {
	channels, err := e.upgrades(ctx, upgradesOptions{pkg: opts.pkg, catalog: opts.catalog, channel: opts.channel, all: true})
	if err != nil {
		return err
	}
	ways := make([]way, len(channels))
	for i := range channels {
		ways[i].channelUpgrades = &channels[i]
		ways[i].paths, err = channels[i].graph().Paths(opts.from, opts.to)
		if err != nil && !errors.As(err, &ways[i].blocked) {
			return err
		}
	}
	sortWays(ways, opts.channel)
	shown := shownWays(ways, opts.channel)
	if !slices.ContainsFunc(shown, way.isOpen) && !ways[0].isDone() {
		return blockedWays(ways)
	}
	if !out.isTable() {
		return e.printWays(out, shown, opts.channel != "")
	}
	return e.tellWays(shown)
}

// tellWays tells people of paths. Many packages have channels that lead the same way, which are told of together.
func (e *env) tellWays(ways []way) error {
	var texts []string
	channels := map[string][]way{} // by what is told of them
	for _, w := range ways {
		text := e.wayText(w)
		if channels[text] == nil {
			texts = append(texts, text)
		}
		channels[text] = append(channels[text], w)
	}
	p := printer{Terminal: e.stdout}
	for i, text := range texts {
		if i > 0 {
			p.printf("\n")
		}
		same := channels[text]
		title := same[0].where()
		p.printf("%s\n%s", p.Paint(term.Bold, strings.ToUpper(title[:1])+title[1:]), text)
		if len(same) == 1 {
			continue
		}
		var names []string
		for _, w := range same[1:] {
			names = append(names, w.title())
		}
		p.printf("The same way in: %s\n", strings.Join(names, ", "))
	}
	return p.err
}

func (w way) isOpen() bool { return w.paths != nil }

// isDone tells whether the upgrade starts where it is to end.
func (w way) isDone() bool { return w.blocked != nil && w.blocked.Block == upgrade.Already }

// shortest is a shortest path.
func (w way) shortest() []upgrade.Step {
	if w.paths.Shortest != nil {
		return w.paths.Shortest
	}
	return w.paths.OLM
}

// sortWays puts the channel that was asked for first, else the default one; then the others, those with the shortest paths first.
func sortWays(ways []way, channel string) {
	order := func(w way) int {
		switch {
		case w.Name == channel || (channel == "" && w.IsDefault):
			return -1
		case w.isOpen():
			return len(w.shortest())
		}
		return len(w.Entries) + 1
	}
	slices.SortStableFunc(ways, func(a, b way) int {
		return cmp.Or(order(a)-order(b), cmp.Compare(a.Name, b.Name))
	})
}

// shownWays are those to tell of: of a channel that was asked for, else of the default one and of those that have a path.
func shownWays(ways []way, channel string) []way {
	if channel != "" {
		return ways[:1]
	}
	shown := ways[:1:1]
	for _, w := range ways[1:] {
		if w.isOpen() {
			shown = append(shown, w)
		}
	}
	return shown
}

// maxBlocked is how many other channels an error tells of.
const maxBlocked = 3

// blockedWays is the error where the first channel has no path, which was the only one asked for or where none has. Of others it tells what else
// they know of the bundles.
func blockedWays(ways []way) error {
	first := ways[0].blocked
	text := "there is no path: " + first.Words
	var open []string
	told := 0
	for _, w := range ways[1:] {
		switch {
		case w.isOpen():
			open = append(open, term.Line(w.Name))
		case w.blocked.Block != first.Block && w.blocked.Block != upgrade.UnknownFrom && w.blocked.Block != upgrade.UnknownTo && told < maxBlocked:
			told++
			text += fmt.Sprintf("\nchannel %s: %s", term.Line(w.Name), w.blocked.Words)
		}
	}
	if len(open) > 0 {
		text += "\nthere is one in " + strings.Join(open, ", ") + ": see --channel"
	}
	return errors.New(text)
}

// wayText tells people of a channel's paths.
func (e *env) wayText(w way) string {
	if w.isDone() {
		return fmt.Sprintf("Nothing to do: %s.\n", w.blocked.Words)
	}
	if !w.isOpen() {
		return fmt.Sprintf("There is no path: %s.\n", w.blocked.Words)
	}
	var b strings.Builder
	for _, note := range w.paths.Notes {
		fmt.Fprintf(&b, "Note: %s\n", note)
	}
	if w.paths.OLM == nil {
		fmt.Fprintf(&b, "%s.\n", w.paths.OLMNote)
	} else {
		b.WriteString(e.stepsText("OLM takes", w.paths.OLM))
	}
	if w.paths.Shortest != nil {
		b.WriteString(e.stepsText("The shortest path takes", w.paths.Shortest))
	}
	if others := othersOf(w.paths); others != "" {
		fmt.Fprintf(&b, "There %s.\n", others)
	}
	return b.String()
}

// othersOf says how many paths there are beside those told; empty if there are none.
func othersOf(paths *upgrade.Paths) string {
	n := counted(paths.Others, "other path", "other paths")
	switch {
	case paths.Uncounted && paths.Others > 0:
		return "are at least " + n
	case paths.Uncounted:
		return "may be other paths"
	case paths.Others == 0:
		return ""
	case paths.Others == 1:
		return "is " + n
	}
	return "are " + n
}

func (e *env) stepsText(who string, steps []upgrade.Step) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s from %s to %s:\n", who, counted(len(steps), "step", "steps"), bundleLabel(steps[0].From), bundleLabel(steps[len(steps)-1].To))
	digits := len(fmt.Sprint(len(steps)))
	indent := strings.Repeat(" ", digits+4)
	for i, s := range steps {
		to := bundleLabel(s.To)
		fmt.Fprintf(&b, "  %*d. %s -> %s\n", digits, i+1, bundleLabel(s.From), e.stdout.Paint(term.Bold, to))
		for _, why := range s.Words {
			fmt.Fprintf(&b, "%s%s\n", indent, e.stdout.Paint(term.Faint, why))
		}
		if s.IsDown {
			fmt.Fprintf(&b, "%s%s\n", indent, e.stdout.Paint(term.Yellow, "this is a downgrade: "+to+" is lower than "+bundleLabel(s.From)))
		}
		if s.To.Deprecated != "" {
			fmt.Fprintf(&b, "%s%s\n", indent, e.stdout.Paint(term.Yellow, to+" is deprecated: "+term.Line(s.To.Deprecated)))
		}
	}
	return b.String()
}

// bundleLabel is what a bundle is called where its package is known.
func bundleLabel(b upgrade.Bundle) string { return term.Line(cmp.Or(b.Version, b.Name)) }

// pathView is what -o json prints of a channel's paths.
type pathView struct {
	Name      string       `json:"name"` // of the channel
	Package   named        `json:"package"`
	Catalog   named        `json:"catalog"`
	IsDefault bool         `json:"isDefault"`
	OLM       []stepView   `json:"olm,omitzero"` // nothing if OLM does not go there by itself; olmNote says why. No steps: there is nothing to do
	OLMNote   string       `json:"olmNote,omitempty"`
	Shortest  []stepView   `json:"shortest,omitempty"`
	Others    int          `json:"otherPaths"`
	More      bool         `json:"mayBeMore,omitempty"` // than otherPaths
	Notes     []string     `json:"notes,omitempty"`
	Blocked   *blockedView `json:"blocked,omitempty"` // if there is no path
}

type blockedView struct {
	Reason  upgrade.Block `json:"reason"`
	Message string        `json:"message"`
}

type stepView struct {
	From    pathBundle   `json:"from"`
	To      pathBundle   `json:"to"`
	Reasons []reasonView `json:"reasons"`
	IsDown  bool         `json:"isDowngrade,omitempty"`
}

type pathBundle struct {
	Name        string       `json:"name,omitempty"`
	Version     string       `json:"version,omitempty"`
	Deprecation *deprecation `json:"deprecation,omitempty"`
}

func stepViews(steps []upgrade.Step) []stepView {
	bundle := func(b upgrade.Bundle) pathBundle {
		v := pathBundle{Name: b.Name, Version: b.Version}
		if b.Deprecated != "" {
			v.Deprecation = &deprecation{Message: b.Deprecated}
		}
		return v
	}
	var views []stepView
	for _, s := range steps {
		views = append(views, stepView{bundle(s.From), bundle(s.To), reasonViews(s.Reasons), s.IsDown})
	}
	return views
}

func (e *env) printWays(out *output, ways []way, single bool) error {
	var rows []row
	for _, w := range ways {
		v := pathView{Name: w.Name, Package: w.Package, Catalog: w.Catalog, IsDefault: w.IsDefault}
		switch {
		case w.isDone():
			v.OLM, v.Notes = []stepView{}, []string{"nothing to do: " + w.blocked.Words}
		case w.isOpen():
			v.OLM, v.OLMNote, v.Shortest = stepViews(w.paths.OLM), w.paths.OLMNote, stepViews(w.shortest())
			v.Others, v.More, v.Notes = w.paths.Others, w.paths.Uncounted, w.paths.Notes
		default:
			v.Blocked = &blockedView{w.blocked.Block, w.blocked.Words}
		}
		object, err := view("UpgradePath", w.Name, v)
		if err != nil {
			return err
		}
		rows = append(rows, row{object: object})
	}
	return out.print(e.stdout, nil, rows, single)
}
