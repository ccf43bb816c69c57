package lookup

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// completionTime limits a completion.
const completionTime = 2 * time.Second

// A Source returns names with descriptions, as far as it could read them.
type Source func(context.Context, *session.Session, Scope) ([]cobra.Completion, error)

// scopeOf reads the flags of a command. Without the flag --package, the first argument is the package.
func scopeOf(cmd *cobra.Command, args []string) Scope {
	value := func(name string) string {
		if flag := cmd.Flags().Lookup(name); flag != nil && flag.Value.Type() == "string" {
			return flag.Value.String()
		}
		return ""
	}
	s := Scope{Catalog: value("catalog"), Package: value("package"), Channel: value("channel")}
	if cmd.Flags().Lookup("package") == nil && len(args) > 0 {
		s.Package = args[0]
	}
	return s
}

// Complete returns a completion function for the names of a source.
func Complete(s *session.Session, names Source) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return CompleteIn(cmd, s, scopeOf(cmd, args), names, args, prefix)
	}
}

// CompleteIn completes the names of a source in a scope, except those that are arguments already. Errors go to cobra's debug log only.
func CompleteIn(cmd *cobra.Command, s *session.Session, scope Scope, names Source, args []string, prefix string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	var err error
	if scope.Catalog, err = s.Name(scope.Catalog); err != nil {
		cobra.CompDebugln(err.Error(), true)
	}
	all, err := names(ctx, s, scope)
	if err != nil {
		cobra.CompDebugln(err.Error(), true)
	}
	var found []cobra.Completion
	seen := map[string]bool{}
	for _, c := range all {
		name, _, _ := strings.Cut(c, "\t")
		if strings.HasPrefix(name, prefix) && !seen[name] && !slices.Contains(args, name) {
			seen[name] = true
			found = append(found, c)
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// Completion returns a completion with a description, both on one line.
func Completion(name, description string) cobra.Completion {
	name, description = output.Line(name), output.Line(description)
	if description == "" || description == name {
		return name
	}
	return cobra.CompletionWithDesc(name, description)
}

// namesOf returns the names of completions.
func namesOf(completions []cobra.Completion) []string {
	names := make([]string, len(completions))
	for i, c := range completions {
		names[i], _, _ = strings.Cut(c, "\t")
	}
	return names
}

// CompleteCatalogs completes catalogs.
func CompleteCatalogs(s *session.Session) cobra.CompletionFunc { return Complete(s, catalogNames) }

// CompletePackages completes packages.
func CompletePackages(s *session.Session) cobra.CompletionFunc { return Complete(s, packageNames) }

// CompleteChannels completes channels.
func CompleteChannels(s *session.Session) cobra.CompletionFunc { return Complete(s, channelNames) }

// CompleteBundles completes bundles.
func CompleteBundles(s *session.Session) cobra.CompletionFunc { return Complete(s, bundleNames) }

// CompletePackagesOf completes the packages of a catalog, whatever the flags.
func CompletePackagesOf(cmd *cobra.Command, s *session.Session, catalog string, args []string, prefix string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	return CompleteIn(cmd, s, Scope{Catalog: catalog}, packageNames, args, prefix)
}

// CompleteFlags completes the flags that mean the same in every command.
func CompleteFlags(s *session.Session, cmd *cobra.Command) {
	for name, source := range map[string]Source{
		"catalog": catalogNames, "package": packageNames, "channel": channelNames,
		"bundle": bundleNames, "version": versionNames, "from": versionNames, "to": versionNames,
	} {
		if cmd.Flags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, Complete(s, source))
		}
	}
}

// CompleteValues completes a flag with fixed values.
func CompleteValues(cmd *cobra.Command, flag string, values ...cobra.Completion) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// CompleteNoFiles disables the completion of file names for arguments and flags that are no files.
func CompleteNoFiles(cmd *cobra.Command) {
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, name := range []string{
		"interval", "schedule", "timeout", "priority", "pull-secret", "proxy-secret", "client-certificate-secret", "selector",
		"field-selector", "sort-by",
	} {
		if _, known := cmd.GetFlagCompletionFunc(name); !known && cmd.Flags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
		}
	}
}

// CompleteKubeconfig completes the flags of all commands with the names in the kubeconfig.
func CompleteKubeconfig(s *session.Session, root *cobra.Command) {
	_ = root.RegisterFlagCompletionFunc("namespace", cobra.NoFileCompletions)
	for flag, names := range map[string]func(clientcmdapi.Config) []string{
		"context": func(c clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.Contexts)) },
		"cluster": func(c clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.Clusters)) },
		"user":    func(c clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.AuthInfos)) },
	} {
		complete := func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			config, err := s.Kubeconfig()
			if err != nil {
				cobra.CompDebugln(err.Error(), true)
			}
			return names(config), cobra.ShellCompDirectiveNoFileComp
		}
		_ = root.RegisterFlagCompletionFunc(flag, complete)
	}
}

// FirstArgument restricts a completion to the first argument.
func FirstArgument(function cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return function(cmd, args, prefix)
	}
}

func catalogNames(ctx context.Context, s *session.Session, _ Scope) ([]cobra.Completion, error) {
	catalogs, err := s.Catalogs(ctx)
	var names []cobra.Completion
	for i := range catalogs {
		c := &catalogs[i]
		names = append(names, Completion(c.Arg(), cmp.Or(c.Spec.DisplayName, status.Image(c))))
	}
	return names, err
}

func packageNames(ctx context.Context, s *session.Session, in Scope) ([]cobra.Completion, error) {
	const query = `query($catalog: String, $after: String) { packages(filter: { catalog: $catalog }, first: 100, after: $after) {
		nodes { name displayName } pageInfo { hasNextPage endCursor } } }`
	type pkg struct{ Name, DisplayName string }
	return named(ctx, s, Scope{Catalog: in.Catalog}, query, func(p pkg) cobra.Completion { return Completion(p.Name, p.DisplayName) })
}

// PackageNames returns the names of the packages of a catalog or, without a name, of all catalogs.
func PackageNames(ctx context.Context, s *session.Session, catalog string) ([]string, error) {
	completions, err := packageNames(ctx, s, Scope{Catalog: catalog})
	return namesOf(completions), err
}

func channelNames(ctx context.Context, s *session.Session, in Scope) ([]cobra.Completion, error) {
	const query = `query($catalog: String, $package: String, $after: String) {
		channels(filter: { catalog: $catalog, package: $package }, first: 100, after: $after) {
			nodes { name head { name } } pageInfo { hasNextPage endCursor } } }`
	type channel struct {
		Name string
		Head content.Named
	}
	in.Channel = ""
	return named(ctx, s, in, query, func(c channel) cobra.Completion { return Completion(c.Name, c.Head.Name) })
}

// A Bundle is a bundle with its version.
type Bundle struct{ Name, Version string }

const bundlesQuery = `query($catalog: String, $package: String, $channel: String, $after: String) {
	bundles(filter: { catalog: $catalog, package: $package, channel: $channel }, first: 100, after: $after) {
		nodes { name version } pageInfo { hasNextPage endCursor } } }`

// Bundles returns the bundles of a scope that a service serves.
func Bundles(ctx context.Context, service *content.Service, in Scope) ([]Bundle, error) {
	return content.All[Bundle](ctx, service, "", "", bundlesQuery, in.variables())
}

func (s Scope) variables() map[string]any {
	return content.Variables("catalog", s.Catalog, "package", s.Package, "channel", s.Channel)
}

func bundleNames(ctx context.Context, s *session.Session, in Scope) ([]cobra.Completion, error) {
	return named(ctx, s, in, bundlesQuery, func(b Bundle) cobra.Completion { return Completion(b.Name, b.Version) })
}

// versionNames returns the versions of a package, newest first.
func versionNames(ctx context.Context, s *session.Session, in Scope) ([]cobra.Completion, error) {
	if in.Package == "" {
		return nil, nil
	}
	names, err := named(ctx, s, in, bundlesQuery, func(b Bundle) cobra.Completion { return Completion(b.Version, b.Name) })
	slices.SortStableFunc(names, func(a, b cobra.Completion) int {
		va, _, _ := strings.Cut(a, "\t")
		vb, _, _ := strings.Cut(b, "\t")
		return fbc.CompareVersions(vb, va)
	})
	return names, err
}

// named returns the names of the objects that the content services return. If one fails, the names from the others remain.
func named[T any](ctx context.Context, s *session.Session, in Scope, query string, name func(T) cobra.Completion,
) ([]cobra.Completion, error) {
	return NamesFrom(ctx, s, in.Catalog, func(service *content.Service) ([]cobra.Completion, error) {
		found, err := content.All[T](ctx, service, "", "", query, in.variables())
		names := make([]cobra.Completion, len(found))
		for i, f := range found {
			names[i] = name(f)
		}
		return names, err
	})
}

// NamesFrom concatenates what content services return, and returns the first error besides.
func NamesFrom(ctx context.Context, s *session.Session, catalog string,
	read func(*content.Service) ([]cobra.Completion, error),
) ([]cobra.Completion, error) {
	services, err := Services(ctx, s, catalog)
	if err != nil {
		return nil, err
	}
	var names []cobra.Completion
	for _, service := range services {
		found, failed := read(service)
		err = cmp.Or(err, failed)
		names = append(names, found...)
	}
	return names, err
}
