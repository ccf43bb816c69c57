package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

// getOptions say which things to list.
type getOptions struct {
	names    []string
	catalog  string
	pkg      string
	channel  string
	all      bool
	selector string // by the labels of the packages' OperatorPackages
	fields   string // by their fields
	raw      string
	sortBy   string
	watch    bool
	full     bool // whether what is costly is shown, too
}

func (o *getOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVarP(&o.catalog, "catalog", "c", "", "only of this `catalog`")
	flags.StringVarP(&o.pkg, "package", "p", "", "only of this `package`")
	flags.StringVar(&o.channel, "channel", "", "only of this `channel`")
	flags.BoolVarP(&o.all, "all", "A", false, "of all packages")
	flags.StringVarP(&o.selector, "selector", "l", "", "only of packages whose OperatorPackage has these labels: key=value,...")
	flags.StringVar(&o.fields, "field-selector", "", "only of packages whose OperatorPackage has these fields: spec.catalog=value,...")
	flags.BoolVarP(&o.watch, "watch", "w", false, "after the list, a row for each of them that changes, until interrupted")
	flags.StringVar(&o.sortBy, "sort-by", "", "sort by a `field` of what -o json shows, as a JSONPath: .version")
	flags.StringVar(&o.raw, "raw", "", "print what the content service answers at this `path`, which may have parameters")
}

func newGetCmd(e *env) *cobra.Command {
	var opts getOptions
	cmd := &cobra.Command{
		Use:   "get packages|channels|bundles|deprecations [NAME...]",
		Short: "List packages, channels, bundles or deprecations",
		Long: `List what the catalogs hold: packages, channels, bundles (the versions of a package) or deprecations.

Of packages that are in several catalogs all are listed, those of the catalog with the highest priority first. Packages that are not sound are
not listed; kubectl catalog describe CATALOG names them. PACKAGE.CATALOG, as their OperatorPackages are called, is the package of one catalog, here and
wherever a package is named. TYPE/NAME does as well as TYPE NAME.

Packages have the labels of their OperatorPackages, which kubectl get operatorpackages --show-labels shows; -o json here is what the content
service has of them, which has no labels. The name of a provider is one only where
it can be, which "Red Hat, Inc." cannot: -o wide shows all of them.`,
		Example: `  kubectl catalog get packages
  kubectl catalog get package skupper-operator -o yaml
  kubectl catalog get channels --package skupper-operator
  kubectl catalog get channels --all
  kubectl catalog get bundles --package skupper-operator --channel stable-1.6 -o wide
  kubectl catalog get deprecations --catalog sample
  kubectl catalog get packages -l operatorframework.io/arch.arm64=supported --sort-by .version
  kubectl catalog get packages --watch
  kubectl catalog get channels --package skupper-operator --watch
  kubectl catalog get --raw /catalogs
  kubectl catalog get --raw '/catalogs/sample/api/v1/metas?schema=olm.channel&package=skupper-operator'`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: e.completeGet,
	}
	out := newOutput(cmd)
	opts.addFlags(cmd.Flags())
	e.completeFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case opts.raw != "" && len(args) > 0:
			return tooMuch(args, "--raw prints what is at its path")
		case opts.raw != "":
			return e.getRaw(cmd.Context(), opts.raw, opts.catalog)
		case len(args) == 0:
			return usagef("say what to list: kubectl catalog get packages, channels, bundles or deprecations")
		}
		kind, names, err := kindAndNames(args)
		if err != nil {
			return err
		}
		if err := checkSelectors(opts.selector, opts.fields); err != nil {
			return err
		}
		opts.names, opts.full = names, !out.isPlain() || opts.sortBy != ""
		if opts.watch {
			return e.getAndWatch(cmd.Context(), out, kind, opts)
		}
		return e.get(cmd.Context(), out, kind, opts)
	}
	return cmd
}

// kindAndNames reads TYPE NAME... and, as kubectl takes it and -o name prints it, TYPE/NAME...
func kindAndNames(args []string) (kind, []string, error) {
	var names []string
	word, name, isPair := strings.Cut(args[0], "/")
	if isPair {
		names = append(names, name)
	}
	for _, arg := range args[1:] {
		of, name, ok := strings.Cut(arg, "/")
		if ok != isPair || ok && of != word {
			return kind{}, nil, usagef("%s does not go with %s: name things of one kind, as TYPE NAME... or as TYPE/NAME...", arg, args[0])
		}
		if !isPair {
			name = arg
		}
		names = append(names, name)
	}
	k, ok := kinds[strings.TrimSuffix(word, "."+viewGroup)]
	switch {
	case ok:
		return k, names, nil
	case slices.Contains([]string{"catalogs", "catalog", "catalogsources", "catalogsource"}, word):
		return k, nil, usagef("%q is nothing that catalogs hold: kubectl catalog list lists catalogs", word)
	}
	return k, nil, usagef("%q is nothing that catalogs hold: packages, channels, bundles and deprecations are; if it is a package: kubectl catalog get package %s", word, word)
}

// allKinds are what can be listed.
var allKinds = []kind{packageKind, channelKind, bundleKind, deprecationKind}

// kinds are they by the names that they go by.
var kinds = func() map[string]kind {
	named := map[string]kind{}
	for _, k := range allKinds {
		for _, name := range k.names {
			named[name] = k
		}
	}
	return named
}()

// A kind of things that catalogs hold.
type kind struct {
	names      []string // plural, singular, short
	columns    []term.Column
	ofPackages bool // whether these are packages themselves
	narrow     bool // whether what to list has to be said: there are very many
	list       func(context.Context, *content.Service, getOptions) ([]listed, error)

	// complete completes names of its things; nil: it cannot be done.
	complete func(*env, *cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective)
}

// known are columns, with those that say what the options did.
func (o getOptions) known(columns []term.Column) []term.Column {
	columns = slices.Clone(columns)
	for i, c := range columns {
		columns[i].Known = (c.Name == "package" && o.pkg != "") || (c.Name == "catalog" && o.catalog != "")
	}
	return columns
}

// completeGet completes what to list, and then its names.
func (e *env) completeGet(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		var plurals []cobra.Completion
		for _, k := range allKinds {
			plurals = append(plurals, k.names[0])
		}
		return plurals, cobra.ShellCompDirectiveNoFileComp
	}
	k, ok := kinds[args[0]]
	if !ok || k.complete == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return k.complete(e, cmd, args[1:], prefix)
}

// listed is something that a catalog holds.
type listed struct {
	row
	catalog, pkg, name string
	part               string // what it is of the package, where that and its name do not tell
}

func (e *env) get(ctx context.Context, out *output, k kind, opts getOptions) error {
	if err := k.suits(opts); err != nil {
		return err
	}
	opts, err := e.scoped(ctx, opts)
	if err != nil {
		return err
	}
	found, err := e.find(ctx, k, opts)
	if err != nil {
		return err
	}
	var missed []error // of names: those that there are, are listed all the same, as kubectl does
	for _, name := range opts.names {
		if !slices.ContainsFunc(found, func(l listed) bool { return l.is(name) }) {
			missed = append(missed, e.notListed(ctx, k, opts, name))
		}
	}
	if len(found) == 0 && len(missed) > 0 {
		return errors.Join(missed...)
	}
	if len(found) == 0 {
		return e.nothingListed(ctx, out, k, opts)
	}
	rows := make([]row, len(found))
	for i, l := range found {
		rows[i] = l.row
	}
	if err := sortRows(rows, opts.sortBy); err != nil {
		return err
	}
	return errors.Join(append(missed, out.print(e.stdout, opts.known(k.columns), rows, len(opts.names) == 1))...)
}

// scoped has --package PACKAGE.CATALOG mean the package of one catalog.
func (e *env) scoped(ctx context.Context, opts getOptions) (getOptions, error) {
	if !strings.Contains(opts.pkg, ".") {
		return opts, nil
	}
	places, err := e.places(ctx, opts.pkg, opts.catalog)
	if err == nil && len(places) > 0 && places[0].Name != opts.pkg {
		opts.pkg, opts.catalog = places[0].Name, places[0].Catalog.Name
	}
	return opts, err
}

// suits tells whether the options can be said of the kind, and whether it is said which to list, of one of which there are very many.
func (k kind) suits(opts getOptions) error {
	if k.ofPackages && opts.channel != "" {
		return usagef("packages are in no channel: leave --channel out, or say kubectl catalog get channels %s --all, which tells the package of each", opts.channel)
	}
	if k.narrow && !opts.all && opts.areOpen() {
		return usagef("say of which package: kubectl catalog get %s --package NAME, or --all", k.names[0])
	}
	return nil
}

// areOpen tells that nothing is said of which things to list.
func (o getOptions) areOpen() bool {
	return o.pkg == "" && o.catalog == "" && o.selector == "" && o.fields == "" && len(o.names) == 0
}

// is tells whether a name is the thing's. That of a package is the one of its OperatorPackage, too, which says which catalog is meant.
func (l listed) is(name string) bool {
	return l.name == name || (l.name == l.pkg && isMeant(name, l.pkg, l.catalog))
}

// where says which part of the catalogs was searched, behind a noun.
func (o getOptions) where() string {
	var b strings.Builder
	if o.selector != "" {
		fmt.Fprintf(&b, " with the labels %q", o.selector)
	}
	if o.fields != "" {
		fmt.Fprintf(&b, " with the fields %q", o.fields)
	}
	for _, part := range [][2]string{{"channel", o.channel}, {"package", o.pkg}, {"catalog", o.catalog}} {
		if part[1] != "" {
			fmt.Fprintf(&b, " in %s %q", part[0], part[1])
		}
	}
	return b.String()
}

// find asks all content services that may have what is looked for.
func (e *env) find(ctx context.Context, k kind, opts getOptions) ([]listed, error) {
	selected, err := e.selectPackages(ctx, opts)
	if err != nil {
		return nil, err
	}
	found, err := fromEach(ctx, e, opts.catalog, func(service *content.Service) ([]listed, error) { return k.list(ctx, service, opts) })
	if err != nil {
		return nil, err
	}
	return opts.chosen(found, selected), nil
}

// chosen takes what has another name, or is not of the selected packages, out of what was found; nil: all are.
func (o getOptions) chosen(found []listed, selected map[[2]string]bool) []listed {
	return slices.DeleteFunc(found, func(l listed) bool {
		return (len(o.names) > 0 && !slices.ContainsFunc(o.names, l.is)) || (selected != nil && !selected[[2]string{l.catalog, l.pkg}])
	})
}

// selectPackages returns the packages whose OperatorPackages the selectors match, by catalog and name; nil: all.
func (e *env) selectPackages(ctx context.Context, opts getOptions) (map[[2]string]bool, error) {
	if opts.selector == "" && opts.fields == "" {
		return nil, nil
	}
	c, err := e.client()
	if err != nil {
		return nil, err
	}
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("OperatorPackageList"))
	if err := c.List(ctx, &list, &client.ListOptions{Raw: &metav1.ListOptions{LabelSelector: opts.selector, FieldSelector: opts.fields}}); err != nil {
		return nil, selectorError(err, "spec.catalog, spec.packageName, spec.priority or metadata.name, which is PACKAGE.CATALOG")
	}
	selected := map[[2]string]bool{}
	for _, p := range list.Items { // named PACKAGE.CATALOG, and catalogs have no dots in their names
		pkg, catalog, _ := cutLast(p.Name, ".")
		selected[[2]string{catalog, pkg}] = true
	}
	return selected, nil
}

// cutLast is strings.Cut at the last separator.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
