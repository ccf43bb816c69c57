package cli

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
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// completionTime is how long somebody who pressed the tab key is kept waiting.
const completionTime = 2 * time.Second

// completionSource asks the cluster for the names that there are, with a word on each for the shells that show one.
type completionSource func(context.Context, completionScope) ([]cobra.Completion, error)

// completionScope is what the command line says already.
type completionScope struct{ catalog, pkg, channel string }

// completionScopeOf reads the flags of a command. One without --package names the package first.
func completionScopeOf(cmd *cobra.Command, args []string) completionScope {
	value := func(name string) string {
		if flag := cmd.Flags().Lookup(name); flag != nil && flag.Value.Type() == "string" {
			return flag.Value.String()
		}
		return ""
	}
	s := completionScope{catalog: value("catalog"), pkg: value("package"), channel: value("channel")}
	if cmd.Flags().Lookup("package") == nil && len(args) > 0 {
		s.pkg = args[0]
	}
	return s
}

// complete makes of a source what cobra calls. Who completes sees no errors: cobra's debug log has them.
func complete(cmd *cobra.Command, args []string, prefix string, names completionSource) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	all, err := names(ctx, completionScopeOf(cmd, args))
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

// completion is a name with a word on it. Names are lines of their own, which a tab parts from the description.
func completion(name, description string) cobra.Completion {
	name, description = term.Line(name), term.Line(description)
	if description == "" || description == name {
		return name
	}
	return cobra.CompletionWithDesc(name, description)
}

// completeCatalogs completes the names of catalogs.
func (e *env) completeCatalogs(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return complete(cmd, args, prefix, e.catalogNames)
}

// completePackages completes the names of packages: of the catalog that --catalog names, or of all.
func (e *env) completePackages(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return complete(cmd, args, prefix, e.packageNames)
}

// completeChannels completes the names of channels: of the package that --package or the first argument names, if any.
func (e *env) completeChannels(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return complete(cmd, args, prefix, e.channelNames)
}

// completeBundles completes the names of bundles: of the package, and of the channel that --channel names.
func (e *env) completeBundles(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return complete(cmd, args, prefix, e.bundleNames)
}

// completeVersions completes the versions of a package's bundles, newest first.
func (e *env) completeVersions(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return complete(cmd, args, prefix, e.versionNames)
}

// completeFlags has those flags of a command completed that mean the same wherever they are.
func (e *env) completeFlags(cmd *cobra.Command) {
	for name, function := range map[string]cobra.CompletionFunc{
		"catalog": e.completeCatalogs, "package": e.completePackages, "channel": e.completeChannels,
		"bundle": e.completeBundles, "version": e.completeVersions, "from": e.completeVersions, "to": e.completeVersions,
	} {
		if cmd.Flags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, function)
		}
	}
}

// completeNoFiles keeps shells from naming files where none is meant: they do that for all that nothing else is said of.
func completeNoFiles(cmd *cobra.Command) {
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, name := range []string{"interval", "schedule", "timeout", "priority", "pull-secret", "proxy-secret", "client-certificate-secret", "selector", "field-selector", "sort-by"} {
		if _, known := cmd.GetFlagCompletionFunc(name); !known && cmd.Flags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
		}
	}
}

// completeKubeconfig has those flags that all commands have completed whose values the kubeconfig tells.
func (e *env) completeKubeconfig(root *cobra.Command) {
	_ = root.RegisterFlagCompletionFunc("namespace", cobra.NoFileCompletions)
	for flag, names := range map[string]func(clientcmdapi.Config) []string{
		"context": func(c clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.Contexts)) },
		"cluster": func(c clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.Clusters)) },
		"user":    func(c clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.AuthInfos)) },
	} {
		_ = root.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			config, err := e.kube.ToRawKubeConfigLoader().RawConfig()
			if err != nil {
				cobra.CompDebugln(err.Error(), true)
			}
			return names(config), cobra.ShellCompDirectiveNoFileComp
		})
	}
}

// firstArgument completes the first argument only.
func firstArgument(function cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return function(cmd, args, prefix)
	}
}

func (e *env) catalogNames(ctx context.Context, _ completionScope) ([]cobra.Completion, error) {
	catalogs, err := e.catalogs(ctx)
	var names []cobra.Completion
	for i := range catalogs {
		names = append(names, completion(catalogs[i].Name, cmp.Or(catalogs[i].Spec.DisplayName, imageOf(&catalogs[i]))))
	}
	return names, err
}

func (e *env) packageNames(ctx context.Context, in completionScope) ([]cobra.Completion, error) {
	const query = `query($catalog: String, $after: String) { packages(filter: { catalog: $catalog }, first: 100, after: $after) {
		nodes { name displayName } pageInfo { hasNextPage endCursor } } }`
	type pkg struct{ Name, DisplayName string }
	return completionsOf(ctx, e, in.catalog, query, given("catalog", in.catalog), func(p pkg) cobra.Completion { return completion(p.Name, p.DisplayName) })
}

func (e *env) channelNames(ctx context.Context, in completionScope) ([]cobra.Completion, error) {
	const query = `query($catalog: String, $package: String, $after: String) { channels(filter: { catalog: $catalog, package: $package }, first: 100, after: $after) {
		nodes { name head { name } } pageInfo { hasNextPage endCursor } } }`
	type channel struct {
		Name string
		Head named
	}
	return completionsOf(ctx, e, in.catalog, query, given("catalog", in.catalog, "package", in.pkg), func(c channel) cobra.Completion {
		return completion(c.Name, c.Head.Name)
	})
}

// completedBundle is what completions of bundles and of versions are made from.
type completedBundle struct{ Name, Version string }

const completedBundles = `query($catalog: String, $package: String, $channel: String, $after: String) {
	bundles(filter: { catalog: $catalog, package: $package, channel: $channel }, first: 100, after: $after) {
		nodes { name version } pageInfo { hasNextPage endCursor } } }`

func (e *env) bundleNames(ctx context.Context, in completionScope) ([]cobra.Completion, error) {
	return completionsOf(ctx, e, in.catalog, completedBundles, given("catalog", in.catalog, "package", in.pkg, "channel", in.channel),
		func(b completedBundle) cobra.Completion { return completion(b.Name, b.Version) })
}

func (e *env) versionNames(ctx context.Context, in completionScope) ([]cobra.Completion, error) {
	if in.pkg == "" {
		return nil, nil // versions of what?
	}
	names, err := completionsOf(ctx, e, in.catalog, completedBundles, given("catalog", in.catalog, "package", in.pkg, "channel", in.channel),
		func(b completedBundle) cobra.Completion { return completion(b.Version, b.Name) })
	slices.SortStableFunc(names, func(a, b cobra.Completion) int {
		va, _, _ := strings.Cut(a, "\t")
		vb, _, _ := strings.Cut(b, "\t")
		return fbc.CompareVersions(vb, va)
	})
	return names, err
}

// given are the variables of a query that have a value.
func given(namesAndValues ...string) map[string]any {
	values := map[string]any{}
	for pair := range slices.Chunk(namesAndValues, 2) {
		if pair[1] != "" {
			values[pair[0]] = pair[1]
		}
	}
	return values
}

// completionsOf makes completions of what the content services answer. Where one fails those of the others remain.
func completionsOf[T any](ctx context.Context, e *env, catalog, query string, variables map[string]any, name func(T) cobra.Completion) ([]cobra.Completion, error) {
	services, err := e.servicesFor(ctx, catalog)
	if err != nil {
		return nil, err
	}
	var names []cobra.Completion
	for _, service := range services {
		found, failed := content.All[T](ctx, service, "", "", query, variables)
		err = cmp.Or(err, failed)
		for _, f := range found {
			names = append(names, name(f))
		}
	}
	return names, err
}
