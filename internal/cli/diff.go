package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	local "github.com/operator-catalogs/catalogd/internal/authoring"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/diff"
)

// diffOptions say what to compare of two catalogs.
type diffOptions struct {
	packages []string
	insecure bool
	exitCode bool
}

func newDiffCmd(e *env) *cobra.Command {
	var opts diffOptions
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Tell what differs between two catalogs",
		Long: `Tell what differs between two catalogs: the packages, channels (their heads, and the entries that upgrade otherwise), bundles and
deprecations that were added (+), changed (~) and removed (-) on the way from A to B. Packages that are not sound in B, which catalogd leaves out, are marked (!).

Each is a catalog of the cluster (NAME), one of its versions (NAME@DIGEST, of what is served 8 digits are enough; as long as catalogd keeps it: while it is served and 15 minutes
longer), an image in a registry (REGISTRY/NAME:TAG), or a directory or a file (./DIR).

With --exit-code, exit codes are 0 for no differences, 1 for differences, and more than 1 where that cannot be told: 2 the command line is
wrong, 3 one of them does not exist, 4 any other failure.`,
		Example: `  kubectl catalog diff sample ./config/samples/catalog/configs
  kubectl catalog diff sample registry.example.com/catalogs/sample:next
  kubectl catalog diff sample ./my-catalog --package skupper-operator --exit-code`,
		ValidArgsFunction: e.completeDiff,
	}
	out := newNamelessOutput(cmd)
	flags := cmd.Flags()
	flags.StringSliceVarP(&opts.packages, "package", "p", nil, "compare only these `packages`")
	flags.BoolVar(&opts.insecure, "insecure", false, "allow registries without TLS, or with certificates that nobody vouches for")
	flags.BoolVar(&opts.exitCode, "exit-code", false, "exit with 1 if there are differences, 0 if there are none; a failure is 4 then")
	e.completeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 2 {
			return tooMuch(args[2:], "two catalogs are compared; packages are named by --package")
		}
		if len(args) < 2 {
			return usagef("say which two catalogs to compare: kubectl catalog diff A B, each a catalog of the cluster, an image, a directory or a file")
		}
		for _, ref := range args {
			if strings.Contains(ref, "://") {
				_, err := local.ParseImage(ref, local.Options{})
				return badReference(err)
			}
		}
		err := e.diff(cmd.Context(), out, args[0], args[1], opts)
		if opts.exitCode {
			err = inTrouble(err)
		}
		return err
	}
	return cmd
}

// completeDiff completes catalogs, and paths where they are begun as such.
func (e *env) completeDiff(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch {
	case len(args) > 1:
		return nil, cobra.ShellCompDirectiveNoFileComp
	case strings.ContainsAny(prefix, "./"):
		return nil, cobra.ShellCompDirectiveDefault
	}
	found, directive := e.completeCatalogs(cmd, nil, prefix)
	if len(found) == 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return found, directive
}

func (e *env) diff(ctx context.Context, out *output, from, to string, opts diffOptions) (err error) {
	a, closeA, err := e.outlineOf(ctx, from, opts.insecure)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeA()) }()
	b, closeB, err := e.outlineOf(ctx, to, opts.insecure)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeB()) }()
	for i, name := range opts.packages {
		known := slices.IndexFunc(namesMeant(name), func(pkg string) bool { return has(a, name, pkg) || has(b, name, pkg) })
		if known < 0 {
			return notFoundf("neither %s nor %s has a package %q", from, to, name)
		}
		opts.packages[i] = namesMeant(name)[known]
	}
	found, err := diff.Compare(ctx, a, b, opts.packages)
	if err != nil {
		return err
	}
	if err := e.printDifference(out, found); err != nil {
		return err
	}
	if opts.exitCode && len(found.Packages) > 0 {
		return errDiffer
	}
	return nil
}

// has tells whether a catalog has a package of a name, which may be PACKAGE.CATALOG.
func has(c diff.Catalog, name, pkg string) bool {
	catalog, _ := cutVersion(c.Name)
	_, ok := c.Packages[pkg]
	return ok && isMeant(name, pkg, catalog)
}

// errDiffer is how --exit-code ends where catalogs differ. What differs is told already.
var errDiffer = silentError{errors.New("the catalogs differ")}

func (e *env) printDifference(out *output, d *diff.Difference) error {
	if !out.isTable() {
		object, err := view("CatalogDifference", "", d)
		if err != nil {
			return err
		}
		return out.print(e.stdout, nil, []row{{object: object}}, true)
	}
	counts, unsound := map[diff.Change]int{}, 0
	for _, p := range d.Packages {
		counts[p.Change]++
		if p.Unsound {
			unsound++
		}
	}
	p := printer{Terminal: e.stdout}
	if len(d.Packages) == 0 {
		p.printf("%s and %s have the same packages.\n", titleOf(d.From), titleOf(d.To))
		return p.err
	}
	p.printf("%s -> %s: packages: %d added, %d changed, %d removed", titleOf(d.From), titleOf(d.To), counts[diff.Added], counts[diff.Changed], counts[diff.Removed])
	if unsound > 0 {
		p.printf("; %d not sound", unsound)
	}
	p.printf("\n")
	afterDetails := true // what has details is set apart
	for _, pkg := range d.Packages {
		detailed := pkg.Change != diff.Removed || pkg.Note != ""
		if afterDetails || detailed {
			p.printf("\n")
		}
		afterDetails = detailed
		p.pkg(pkg)
	}
	return p.err
}

// titleOf names a catalog, and which version of it there was.
func titleOf(o diff.Catalog) string {
	name, _ := cutVersion(term.Line(o.Name))
	if o.Digest == "" {
		return name
	}
	return name + "@" + shortDigest(o.Digest)
}

// printer writes lines until one fails.
type printer struct {
	*term.Terminal
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.Terminal, format, args...)
	}
}

// line is one of what differs, with its sign.
func (p *printer) line(indent string, change diff.Change, text string) {
	sign, style := "~", term.Yellow
	switch change {
	case diff.Added:
		sign, style = "+", term.Green
	case diff.Removed:
		sign, style = "-", term.Red
	}
	p.printf("%s%s\n", indent, p.Paint(style, sign+" "+term.Line(text)))
}

func (p *printer) pkg(d diff.PackageDifference) {
	if d.Unsound {
		p.printf("%s\n", p.Paint(term.Red, "! "+term.Line(d.Name)))
	} else {
		p.line("", d.Change, d.Name)
	}
	const indent = "    "
	if d.Note != "" {
		p.printf("%s%s\n", indent, term.Line(d.Note))
	}
	if d.Change == diff.Added {
		p.addition(indent, d)
		return
	}
	if c := d.DefaultChannel; c != nil {
		p.line(indent, diff.Changed, fmt.Sprintf("default channel: %s -> %s", orNothing(c.From), orNothing(c.To)))
	}
	for _, c := range d.Channels {
		p.line(indent, c.Change, "channel "+channelWords(c))
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
		p.line(indent, by.Change, deprecationWords(by))
	}
}

// addition tells in short what a new package brings.
func (p *printer) addition(indent string, d diff.PackageDifference) {
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
	p.printf("%s%s\n", indent, term.Line(text))
}

func channelWords(c diff.ChannelDifference) string {
	switch {
	case c.Change == diff.Added:
		return fmt.Sprintf("%s: head %s", c.Name, orNothing(c.Head.To))
	case c.Change == diff.Removed:
		return fmt.Sprintf("%s: head was %s", c.Name, orNothing(c.Head.From))
	case c.Head.From == c.Head.To && len(c.Entries) == 0:
		return fmt.Sprintf("%s: the same head %s, the same entries; other properties, or another order", c.Name, orNothing(c.Head.To))
	case c.Head.From == c.Head.To:
		return fmt.Sprintf("%s: the same head %s", c.Name, orNothing(c.Head.To))
	}
	return fmt.Sprintf("%s: head %s -> %s", c.Name, orNothing(c.Head.From), orNothing(c.Head.To))
}

// fewEntries is how many entries of a channel are told of in words, and fewSkips how many skips of an entry.
const (
	fewEntries = 5
	fewSkips   = 3
)

// entries tells of those of a channel that differ. First of those that were there before: what is new may be a bundle that is told of below.
func (p *printer) entries(indent string, all []diff.EntryDifference) {
	order := []diff.Change{diff.Changed, diff.Removed, diff.Added}
	all = slices.SortedStableFunc(slices.Values(all), func(a, b diff.EntryDifference) int {
		return cmp.Compare(slices.Index(order, a.Change), slices.Index(order, b.Change))
	})
	for i, e := range all {
		if i == fewEntries {
			p.printf("%sand %d more; -o json has all\n", indent, len(all)-i)
			return
		}
		text := e.Name
		if words := entryWords(e); words != "" && e.Change != diff.Removed {
			text += ": " + words
		}
		p.line(indent, e.Change, text)
	}
}

// entryWords says what an entry upgrades now, as far as that differs.
func entryWords(e diff.EntryDifference) string {
	var words []string
	edge := func(kind string, is *diff.FromTo) {
		switch {
		case is == nil:
		case is.To == "":
			words = append(words, fmt.Sprintf("no %s, was %s", kind, is.From))
		case is.From == "":
			words = append(words, kind+" "+is.To)
		default:
			words = append(words, fmt.Sprintf("%s %s, was %s", kind, is.To, is.From))
		}
	}
	edge("replaces", e.Replaces)
	if s := e.Skips; s != nil && len(s.Added) > 0 {
		words = append(words, "skips "+few(s.Added, fewSkips))
	}
	if s := e.Skips; s != nil && len(s.Removed) > 0 {
		words = append(words, "skips no longer "+few(s.Removed, fewSkips))
	}
	edge("skipRange", e.SkipRange)
	return strings.Join(words, "; ")
}

// few names the first of some, and how many more there are.
func few(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func deprecationWords(d diff.DeprecationDifference) string {
	text := "deprecation of " + d.Kind
	if d.Name != "" {
		text += " " + d.Name
	}
	if d.Message != "" {
		text += ": " + d.Message
	}
	return text
}
