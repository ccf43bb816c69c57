// Package bundles has the command bundle: what a version of an operator would do to a cluster.
package bundles

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/operator-catalogs/catalogd/internal/bundle"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// NewCommand returns the command bundle, with more commands below it.
func NewCommand(s *session.Session, more ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bundle COMMAND",
		Short: "Show what a version of an operator would do to the cluster",
		Long: `Show what a version of an operator would do to the cluster: its manifests and the permissions
that it requests.

The manifests are in the catalog or in the bundle image. catalogd pulls the image only if an
administrator set --bundle-content. Without a version, the command uses the head of the default
channel. If several catalogs have the package, the catalog with the highest priority is
used, unless --catalog selects another.`,
	}
	for _, c := range append([]*cobra.Command{
		newShowCommand(s), newPermissionsCommand(s), newManifestsCommand(s), newGetCommand(s), newDiffCommand(s),
	}, more...) {
		lookup.CompleteNoFiles(c)
		cmd.AddCommand(c)
	}
	return cmd
}

// oneBundle checks that a command has one argument.
func oneBundle(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	return exit.Usagef("specify one bundle: kubectl catalog bundle %s PACKAGE[@VERSION]", cmd.Name())
}

// addCatalogFlag adds --catalog and the completion of a command.
func addCatalogFlag(s *session.Session, cmd *cobra.Command, catalog *string) {
	cmd.Flags().StringVarP(catalog, "catalog", "c", "", "the package of this `catalog`")
	cmd.ValidArgsFunction = lookup.CompletePackages(s)
	lookup.CompleteFlags(s, cmd)
}

// found is a bundle in a catalog.
type found struct {
	service *content.Service
	lookup.Bundle
	lookup.Scope
}

// find finds PACKAGE[@VERSION]. The version may be the name of the bundle.
func find(ctx context.Context, s *session.Session, arg, catalog string) (*found, error) {
	name, version, hasVersion := strings.Cut(arg, "@")
	if name == "" || (hasVersion && version == "") {
		return nil, exit.Usagef("invalid bundle %q: specify PACKAGE or PACKAGE@VERSION", arg)
	}
	packages, err := lookup.ExistingPackages(ctx, s, name, catalog)
	if err != nil {
		return nil, err
	}
	first := packages[0]
	f := &found{service: first.Service, Scope: lookup.Scope{Catalog: first.Catalog.Name, Package: first.Name}}
	if version == "" {
		version = first.Version
		f.Channel = first.DefaultChannel.Name
	}
	bundles, err := lookup.Bundles(ctx, f.service, f.Scope)
	if err != nil {
		return nil, err
	}
	var versions []string
	for _, b := range bundles {
		if b.Version == strings.TrimPrefix(version, "v") || b.Name == version {
			f.Bundle, f.Channel = b, ""
			return f, nil
		}
		versions = append(versions, b.Version)
	}
	slices.SortStableFunc(versions, func(a, b string) int { return fbc.CompareVersions(b, a) })
	return nil, exit.NotFoundf("version %q not found%s%s", version, f.Scope, lookup.OrListed(version, versions))
}

// path returns the path of a view of the bundle.
func (f *found) path(view string) string {
	return content.Path(f.Catalog, "", "packages/"+url.PathEscape(f.Package)+"/bundles/"+url.PathEscape(f.Name)+"/"+view)
}

// read reads a view in JSON.
func (f *found) read(ctx context.Context, view string, out any) error {
	return f.service.JSON(ctx, f.path(view), nil, out)
}

// objects reads the objects of the manifests that match. warn gets the manifests that could not be read.
func (f *found) objects(ctx context.Context, kind, name string, warn func(format string, args ...any)) (objects [][]byte, err error) {
	query := url.Values{}
	for key, value := range map[string]string{"kind": kind, "name": name} {
		if value != "" {
			query.Set(key, value)
		}
	}
	resp, err := f.service.Get(ctx, f.path("manifests"), query, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if faults := resp.Header.Get("Catalogd-Faults"); faults != "" {
		warn("some objects in %s of bundle %s cannot be read and are missing here; to get the files: kubectl catalog bundle get %s@%s", faults, f.Name,
			f.Package, f.Version)
	}
	decoder := json.NewDecoder(resp.Body)
	for {
		var object json.RawMessage
		switch err := decoder.Decode(&object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("reading the manifests of %s from %s: %w", f.Name, f.service, err)
		}
		objects = append(objects, object)
	}
}

// details are the result of show.
type details struct {
	Package     string             `json:"package"`
	Catalog     string             `json:"catalog"`
	Version     string             `json:"version"`
	Content     bundle.Content     `json:"content"`
	Permissions bundle.Permissions `json:"permissions"`
}

// describe reads the details of a bundle.
func describe(ctx context.Context, f *found) (d details, err error) {
	d = details{Package: f.Package, Catalog: f.Catalog, Version: f.Version}
	if err := f.read(ctx, "content", &d.Content); err != nil {
		return d, err
	}
	return d, f.read(ctx, "permissions", &d.Permissions)
}
