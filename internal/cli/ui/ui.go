// Package ui has the command ui, which serves the web page to browsers on this machine.
//
// The plugin renders the page. It reads the content with the credentials of the user, like the other commands, or from a directory.
package ui

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/internal/authoring"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/page"
)

// uiRequest has the arguments of the command.
type uiRequest struct {
	arg       string // PACKAGE, DIR or empty
	catalog   string
	address   string
	port      uint16
	noBrowser bool
}

// NewCommand returns the command ui.
func NewCommand(s *session.Session) *cobra.Command {
	var req uiRequest
	cmd := &cobra.Command{
		Use:        "ui [PACKAGE|DIR]",
		SuggestFor: []string{"web", "dashboard", "browse", "serve", "open"},
		Short:      "Show catalogs in a web browser",
		Long: `Show catalogs in a web browser. The command serves a page on a loopback address, prints its URL and
opens it in the browser. It runs until you press Ctrl-C.

Without an argument, the page lists the packages of all catalogs, or of --catalog. With PACKAGE, it
shows that package. If several catalogs have the package, the highest priority wins unless --catalog
selects a catalog.

DIR is a directory or file with a file-based catalog. The page shows it as a cluster would, without a
cluster, and follows changes of the files. If a directory has the name of a package, write ./NAME.

The page reads the content through the API server with your credentials. You need the ClusterRole
catalogd-packages-viewer and the Role catalogd-cli-user. The URL contains a secret. Everybody with
the URL can read with your credentials, so do not share it.`,
		Example: `  kubectl catalog ui
  kubectl catalog ui skupper-operator
  kubectl catalog ui --catalog community --no-browser --port 8080
  kubectl catalog ui config/samples/catalog/configs`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exit.Usagef("unexpected argument %s: specify one package or one directory", strings.Join(args[1:], " "))
			}
			return nil
		},
		ValidArgsFunction: lookup.FirstArgument(completeTarget(s)),
	}
	flags := cmd.Flags()
	flags.StringVarP(&req.catalog, "catalog", "c", "", "show this `catalog`, or its package")
	flags.StringVar(&req.address, "address", "127.0.0.1", "loopback `address` to listen on")
	flags.Uint16Var(&req.port, "port", 0, "`port` to listen on; 0 selects a free port")
	flags.BoolVar(&req.noBrowser, "no-browser", false, "only print the URL")
	lookup.CompleteFlags(s, cmd)
	lookup.CompleteValues(cmd, "address", "127.0.0.1", "::1")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			req.arg = args[0]
		}
		return run(cmd.Context(), s, req)
	}
	return cmd
}

// completeTarget completes packages, and paths where no package has the prefix.
func completeTarget(s *session.Session) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if strings.ContainsAny(prefix, `./\`) {
			return nil, cobra.ShellCompDirectiveDefault
		}
		names, directive := lookup.CompletePackages(s)(cmd, args, prefix)
		if len(names) == 0 {
			directive = cobra.ShellCompDirectiveDefault
		}
		return names, directive
	}
}

func run(ctx context.Context, s *session.Session, req uiRequest) (err error) {
	server, err := listenOn(req.address, req.port)
	if err != nil {
		return err
	}
	defer server.close()
	cfg := page.Config{Private: true, Version: s.Version, Logger: logger(s)}
	start := ""
	if req.arg != "" && isPath(req.arg) {
		if req.catalog != "" {
			return exit.Usagef("--catalog: %s is a directory, not a package", req.arg)
		}
		dir, err := openDirectory(ctx, s, req.arg)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, dir.close()) }()
		go dir.follow(ctx)
		cfg.Source = func(r *http.Request) page.Source { return page.Inside(dir.api, r) }
		cfg.Preview = &page.Preview{Dir: req.arg, Problem: dir.problem}
	} else {
		var service *content.Service
		if start, service, err = resolve(ctx, s, req); err != nil {
			return err
		}
		service = service.Untimed()
		cfg.Source = func(*http.Request) page.Source { return service }
	}
	if _, err := fmt.Fprintln(s.Stdout, server.url(start)); err != nil {
		return err
	}
	if !req.noBrowser && hasBrowser(os.Getenv) {
		if err := openBrowser(ctx, server.openOnce(start)); err != nil {
			s.Stderr.Warnf("opening the browser: %v; open the URL above", err)
		}
	}
	fmt.Fprintln(s.Stderr, "Serving until you press Ctrl-C. The URL contains a secret; do not share it.")
	return server.serve(ctx, page.New(cfg))
}

// isPath reports whether an argument is a path. Names of packages have no slashes and do not begin with a dot.
func isPath(arg string) bool {
	return authoring.IsPath(arg) || strings.ContainsAny(arg, `/\`) || strings.HasPrefix(arg, ".")
}

func logger(s *session.Session) *slog.Logger {
	return slog.New(slog.NewTextHandler(s.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// resolve returns the path of the first page and its content service. It sends a query, so that the command reports a missing role.
func resolve(ctx context.Context, s *session.Session, req uiRequest) (start string, service *content.Service, err error) {
	if req.arg != "" {
		found, err := lookup.ExistingPackages(ctx, s, req.arg, req.catalog)
		if err != nil {
			return "", nil, err
		}
		p := found[0]
		return "catalogs/" + url.PathEscape(p.Catalog.Name) + "/packages/" + url.PathEscape(p.Name), p.Service, nil
	}
	if service, err = lookup.OnlyService(ctx, s, req.catalog); err != nil {
		return "", nil, err
	}
	var out any
	if err := service.Query(ctx, req.catalog, "", "{ __typename }", nil, &out); err != nil {
		return "", nil, session.CatalogError(err, req.catalog)
	}
	if req.catalog != "" {
		start = "?" + url.Values{"catalog": {req.catalog}}.Encode()
	}
	return start, service, nil
}
