package author

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/authoring"
	"github.com/operator-catalogs/catalogd/internal/channel"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/session"
	"github.com/operator-catalogs/catalogd/internal/diff"
)

// catalogRef matches catalogs of the cluster, as opposed to images and paths.
var catalogRef = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(@(sha256:)?[0-9a-f]+(-[0-9a-f]+)?)?$`)

// outlineOf reads the outline of a catalog of the cluster, an image, a directory or a file. free releases its resources.
func outlineOf(ctx context.Context, s *session.Session, ref string, insecure bool) (o diff.Catalog, free func() error, err error) {
	if catalogRef.MatchString(ref) {
		o, err = servedOutline(ctx, s, ref)
		if _, statErr := os.Stat(ref); err != nil && statErr == nil {
			err = fmt.Errorf("%w; for the local file or directory, use ./%s", err, ref)
		}
		return o, func() error { return nil }, err
	}
	source, err := openSource(ctx, s, ref, insecure)
	if err != nil {
		return diff.Catalog{}, nil, err
	}
	o, err = authoring.Outline(ctx, source)
	o.Name = ref
	if err != nil {
		return diff.Catalog{}, nil, fmt.Errorf("%s: %w", ref, errors.Join(err, source.Close()))
	}
	return o, source.Close, nil
}

// servedOutline reads the hashes of all packages from the content service.
func servedOutline(ctx context.Context, s *session.Session, ref string) (diff.Catalog, error) {
	catalog, version := lookup.CutVersion(ref)
	service, err := lookup.Service(ctx, s, catalog)
	if err != nil {
		return diff.Catalog{}, err
	}
	o := diff.Catalog{Name: ref, Packages: map[string]diff.Package{}}
	if version == "" {
		version, err = service.Version(ctx, catalog)
	} else {
		version, err = wholeVersion(ctx, service, catalog, version)
	}
	if err != nil {
		return o, session.CatalogError(err, catalog)
	}
	const known = `{ catalogs { digest invalidPackages { name reason hash } } }`
	var info struct {
		Catalogs []struct {
			Digest          string
			InvalidPackages []struct{ Name, Reason, Hash string }
		}
	}
	if err := service.Query(ctx, catalog, version, known, nil, &info); err != nil {
		return o, session.CatalogError(versionError(diffError(err), catalog, version), catalog)
	}
	for _, c := range info.Catalogs {
		o.Digest = c.Digest
		for _, p := range c.InvalidPackages {
			load := func(context.Context) (*diff.Details, error) { return &diff.Details{Invalid: p.Reason}, nil }
			o.Packages[p.Name] = diff.Package{Hash: p.Hash, Load: load}
		}
	}
	const query = `query($after: String) { packages(first: 100, after: $after) { nodes { name hash } pageInfo { hasNextPage endCursor } } }`
	packages, err := content.All[struct{ Name, Hash string }](ctx, service, catalog, version, query, nil)
	for _, p := range packages {
		load := func(ctx context.Context) (*diff.Details, error) {
			return servedDetails(ctx, service, catalog, version, p.Name)
		}
		o.Packages[p.Name] = diff.Package{Hash: p.Hash, Load: load}
	}
	return o, err
}

// diffError explains the error of a content service that does not know hashes.
func diffError(err error) error {
	if strings.Contains(err.Error(), `Cannot query field "hash"`) {
		return fmt.Errorf("the server does not support diff (needs v0.2 or later); "+
			"use kubectl catalog export and diff the directories (%w)", err)
	}
	return err
}

func servedDetails(ctx context.Context, s *content.Service, catalog, version, pkg string) (*diff.Details, error) {
	const inPackage = `query($p: String!) { package(name: $p) { defaultChannel { name } deprecation { message }
		channels { name hash entries { name replaces skips skipRange } deprecation { message } } } }`
	var is struct {
		Package struct {
			DefaultChannel content.Named
			Deprecation    *content.Deprecation
			Channels       []struct {
				Name, Hash  string
				Entries     []channel.Entry
				Deprecation *content.Deprecation
			}
		}
	}
	if err := s.Query(ctx, catalog, version, inPackage, map[string]any{"p": pkg}, &is); err != nil {
		return nil, err
	}
	d := diff.NewDetails()
	d.DefaultChannel = is.Package.DefaultChannel.Name
	deprecate(d, diff.Reference{Kind: "package"}, is.Package.Deprecation)
	for _, c := range is.Package.Channels {
		d.Channels[c.Name] = diff.NewChannel(c.Hash, c.Entries)
		deprecate(d, diff.Reference{Kind: "channel", Name: c.Name}, c.Deprecation)
	}
	const ofBundles = `query($p: String!, $after: String) { bundles(filter: { package: $p }, first: 100, after: $after) {
		nodes { name hash version deprecation { message } } pageInfo { hasNextPage endCursor } } }`
	type bundle struct {
		Name, Hash, Version string
		Deprecation         *content.Deprecation
	}
	bundles, err := content.All[bundle](ctx, s, catalog, version, ofBundles, map[string]any{"p": pkg})
	for _, b := range bundles {
		d.Bundles[b.Name] = diff.Bundle{Hash: b.Hash, Version: b.Version}
		deprecate(d, diff.Reference{Kind: "bundle", Name: b.Name}, b.Deprecation)
	}
	return d, err
}

func deprecate(d *diff.Details, of diff.Reference, by *content.Deprecation) {
	if by != nil {
		d.Deprecations[of] = by.Message
	}
}
