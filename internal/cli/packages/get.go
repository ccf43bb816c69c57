package packages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
)

// A getRequest selects things of one kind.
type getRequest struct {
	lookup.Scope
	kind     kind
	names    []string
	all      bool
	selector string // labels of OperatorPackages
	fields   string // fields of OperatorPackages
	full     bool   // whether expensive fields are needed
}

// getFlags are the flags of get that are not part of the request.
type getFlags struct {
	raw    string
	sortBy string
	watch  bool
}

func (r *getRequest) addFlags(flags *pflag.FlagSet) {
	flags.StringVarP(&r.Catalog, "catalog", "c", "", "only of this `catalog`")
	flags.StringVarP(&r.Package, "package", "p", "", "only of this `package`")
	flags.StringVar(&r.Channel, "channel", "", "only of this `channel`")
	flags.BoolVarP(&r.all, "all", "A", false, "of all packages")
	flags.StringVarP(&r.selector, "selector", "l", "", "only of packages whose OperatorPackage has these labels: key=value,...")
	flags.StringVar(&r.fields, "field-selector", "", "only of packages whose OperatorPackage has these fields: spec.catalog=value,...")
}

func newGetCommand(s *session.Session) *cobra.Command {
	var req getRequest
	var flags getFlags
	cmd := &cobra.Command{
		Use:   "get packages|channels|bundles|deprecations [NAME...]",
		Short: "List packages, channels, bundles or deprecations",
		Long: `List the content of catalogs: packages, channels, bundles (the versions of a package) or
deprecations.

A package that is in several catalogs is listed once for each, by the priority of the catalogs.
Invalid packages are not listed; kubectl catalog describe CATALOG names them. PACKAGE.CATALOG, the
name of an OperatorPackage, is the package of one catalog, in every command. TYPE/NAME is the same
as TYPE NAME.

The labels for --selector are those of OperatorPackages, which kubectl get operatorpackages
--show-labels shows. -o json prints packages as the content service has them, without labels. A
provider whose name is no valid label value, such as "Red Hat, Inc.", has no label; -o wide shows
all providers.`,
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
		ValidArgsFunction: completeGet(s),
	}
	format := output.NewFormat(cmd)
	req.addFlags(cmd.Flags())
	cmd.Flags().BoolVarP(&flags.watch, "watch", "w", false, "after the list, print a row for each change, until interrupted")
	cmd.Flags().StringVar(&flags.sortBy, "sort-by", "", "sort by a `field` of the objects of -o json, as a JSONPath: .version")
	cmd.Flags().StringVar(&flags.raw, "raw", "", "print the content service's response for this `path`, which may have parameters")
	lookup.CompleteFlags(s, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if flags.raw != "" {
			if len(args) > 0 {
				return tooMany(args, "--raw takes a path only")
			}
			return getRaw(cmd.Context(), s, flags.raw, req.Catalog)
		}
		if err := req.parse(args); err != nil {
			return err
		}
		req.full = !format.IsPlain() || flags.sortBy != ""
		var err error
		if req.Scope, err = resolvePackage(cmd.Context(), s, req.Scope); err != nil {
			return err
		}
		if flags.watch {
			return getAndWatch(cmd.Context(), s, req, format, flags.sortBy)
		}
		return getAndPrint(cmd.Context(), s, req, format, flags.sortBy)
	}
	return cmd
}

func getAndPrint(ctx context.Context, s *session.Session, req getRequest, format *output.Format, sortBy string) error {
	found, missing, err := get(ctx, s, req)
	switch {
	case err != nil:
		return err
	case len(found) == 0 && missing != nil:
		return missing
	case len(found) == 0:
		return printNothing(ctx, s, req, format)
	}
	rows := rowsOf(found)
	if err := output.Sort(rows, sortBy); err != nil {
		return err
	}
	return errors.Join(missing, format.Print(s.Stdout, known(req.kind.columns, req.Scope), rows, len(req.names) == 1))
}

// parse reads the arguments and validates the request.
func (r *getRequest) parse(args []string) (err error) {
	if len(args) == 0 {
		return exit.Usagef("specify a type: kubectl catalog get packages, channels, bundles or deprecations")
	}
	if r.kind, r.names, err = kindAndNames(args); err != nil {
		return err
	}
	if err := lookup.ValidateSelectors(r.selector, r.fields); err != nil {
		return err
	}
	if r.kind.arePackages && r.Channel != "" {
		return exit.Usagef("--channel does not apply to packages; kubectl catalog get channels %s --all lists the packages with this channel",
			r.Channel)
	}
	isOpen := r.Package == "" && r.Catalog == "" && r.selector == "" && r.fields == "" && len(r.names) == 0
	if r.kind.isLarge && !r.all && isOpen {
		return exit.Usagef("specify a package: kubectl catalog get %s --package NAME, or --all", r.kind.names[0])
	}
	return nil
}

// kindAndNames parses TYPE NAME... and TYPE/NAME..., the format of -o name.
func kindAndNames(args []string) (kind, []string, error) {
	var names []string
	word, name, isPair := strings.Cut(args[0], "/")
	if isPair {
		names = append(names, name)
	}
	for _, arg := range args[1:] {
		of, name, ok := strings.Cut(arg, "/")
		if ok != isPair || ok && of != word {
			return kind{}, nil, exit.Usagef("cannot combine %s with %s: use TYPE NAME... or TYPE/NAME... with one type", arg, args[0])
		}
		if !isPair {
			name = arg
		}
		names = append(names, name)
	}
	k, ok := kinds[strings.TrimSuffix(word, "."+output.Group)]
	hint := "if it is a package: kubectl catalog get package " + word
	if slices.Contains([]string{"catalogs", "catalog", "catalogsources", "catalogsource"}, word) {
		hint = "kubectl catalog list lists catalogs"
	}
	if !ok {
		return k, nil, exit.Usagef("unknown type %q; valid types are packages, channels, bundles, deprecations; %s", word, hint)
	}
	return k, names, nil
}

// completeGet completes the type, and then its names.
func completeGet(s *session.Session) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
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
		return k.complete(s)(cmd, args[1:], prefix)
	}
}

// resolvePackage resolves --package PACKAGE.CATALOG to the package of one catalog.
func resolvePackage(ctx context.Context, s *session.Session, scope lookup.Scope) (lookup.Scope, error) {
	if !strings.Contains(scope.Package, ".") {
		return scope, nil
	}
	found, err := lookup.Packages(ctx, s, scope.Package, scope.Catalog)
	if err == nil && len(found) > 0 && found[0].Name != scope.Package {
		scope.Package, scope.Catalog = found[0].Name, found[0].Catalog.Name
	}
	return scope, err
}

// get returns the things of a request, and the error of names that do not exist.
func get(ctx context.Context, s *session.Session, req getRequest) (found []item, missing, err error) {
	found, err = find(ctx, s, req)
	if err != nil {
		return nil, nil, err
	}
	var errs []error
	for _, name := range req.names {
		if !slices.ContainsFunc(found, func(i item) bool { return i.matches(name) }) {
			errs = append(errs, notFound(ctx, s, req, name))
		}
	}
	return found, errors.Join(errs...), nil
}

// where returns the searched part of the catalogs for a sentence.
func (r getRequest) where() string { return lookup.Selected(r.selector, r.fields) + r.Scope.String() }

// find asks all content services that may have the wanted things.
func find(ctx context.Context, s *session.Session, req getRequest) ([]item, error) {
	selected, err := selectPackages(ctx, s, req)
	if err != nil {
		return nil, err
	}
	found, err := lookup.FromEach(ctx, s, req.Catalog, func(service *content.Service) ([]item, error) {
		return req.kind.list(ctx, service, req)
	})
	if err != nil {
		return nil, err
	}
	return req.filter(found, selected), nil
}

// filter drops items with other names or of packages that are not selected. A nil selection has all packages.
func (r getRequest) filter(found []item, selected map[[2]string]bool) []item {
	return slices.DeleteFunc(found, func(i item) bool {
		return (len(r.names) > 0 && !slices.ContainsFunc(r.names, i.matches)) ||
			(selected != nil && !selected[[2]string{i.catalog, i.pkg}])
	})
}

// selectPackages returns the packages whose OperatorPackages match the selectors, by catalog and name. It returns nil without selectors.
func selectPackages(ctx context.Context, s *session.Session, req getRequest) (map[[2]string]bool, error) {
	if req.selector == "" && req.fields == "" {
		return nil, nil
	}
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("OperatorPackageList"))
	if err := s.List(ctx, "", &list, metav1.ListOptions{LabelSelector: req.selector, FieldSelector: req.fields}); err != nil {
		return nil, session.SelectorError(err, "spec.catalog, spec.packageName, spec.priority, metadata.name (PACKAGE.CATALOG)")
	}
	selected := map[[2]string]bool{}
	for _, p := range list.Items { // named PACKAGE.CATALOG; names of packages have no dots
		pkg, catalog, _ := strings.Cut(p.Name, ".")
		selected[[2]string{catalog, pkg}] = true
	}
	return selected, nil
}

// notFound returns the error of a name that is not in the list.
func notFound(ctx context.Context, s *session.Session, req getRequest, name string) error {
	req.names = nil
	k := req.kind
	if k.arePackages {
		if err := lookup.IfInvalid(ctx, s, name, req.Catalog); err != nil {
			return err
		}
	}
	var names []string
	if !k.isLarge || req.Package != "" {
		all, err := find(ctx, s, req)
		if err != nil {
			return err
		}
		if len(all) == 0 && req.Package != "" {
			if err := requirePackage(ctx, s, req.Scope); err != nil {
				return err
			}
		}
		for _, i := range all {
			names = append(names, i.name)
		}
	}
	hint := ""
	if k.arePackages {
		hint = lookup.PackageHint(ctx, s, name, names)
	} else {
		suggest := lookup.DidYouMean
		if req.Package != "" {
			suggest = lookup.OrListed
		}
		instead := "kubectl catalog get " + k.names[0]
		hint = cmp.Or(lookup.IfPackage(ctx, s, name, instead+" -p "+name), lookup.IfCatalog(ctx, s, name, instead+" -c "+name),
			suggest(name, names))
	}
	return exit.NotFoundf("%s %q not found%s%s", k.names[1], name, req.where(), hint)
}

// printNothing prints an empty list. It returns an error if the package or channel to search does not exist.
func printNothing(ctx context.Context, s *session.Session, req getRequest, format *output.Format) error {
	if err := requirePackage(ctx, s, req.Scope); err != nil {
		return err
	}
	if req.Channel != "" && req.Package != "" {
		channels := req
		channels.kind, channels.names = channelKind, []string{req.Channel}
		found, err := find(ctx, s, channels)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			channels.Channel = ""
			return notFound(ctx, s, channels, req.Channel)
		}
	}
	if !format.IsTable() {
		return format.Print(s.Stdout, req.kind.columns, nil, false)
	}
	text := fmt.Sprintf("No %s found%s.", req.kind.names[0], req.where())
	if strings.Contains(req.selector, v1beta1.ProviderLabel) {
		text += " Only providers with a valid label value have a label; kubectl catalog get packages -o wide shows all providers."
	}
	if strings.Contains(req.fields, "metadata.name") {
		text += " metadata.name is PACKAGE.CATALOG; spec.packageName is the name of the package."
	}
	return lookup.Nothing(ctx, s, text)
}

// requirePackage returns an error if the package of --package does not exist.
func requirePackage(ctx context.Context, s *session.Session, scope lookup.Scope) error {
	if scope.Package == "" {
		return nil
	}
	req := getRequest{kind: packageKind, Scope: lookup.Scope{Catalog: scope.Catalog}, names: []string{scope.Package}}
	found, err := find(ctx, s, req)
	if err != nil || len(found) > 0 {
		return err
	}
	return lookup.NoPackage(ctx, s, scope.Package, scope.Catalog)
}
