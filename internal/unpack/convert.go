package unpack

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/operator-framework/operator-registry/pkg/sqlite"
)

// catalog is the content of an SQLite index, by package.
type catalog = map[string]declcfg.DeclarativeConfig

// toCatalog reads a migrated database as `opm migrate` does at its default level. It uses operator-registry's
// packages, except for the few steps in alpha/action, which depends on container libraries.
func toCatalog(ctx context.Context, reader *reader) (c catalog, err error) {
	defer func() {
		// operator-registry panics on some databases.
		if fault := recover(); fault != nil {
			err = invalidf("operator-registry cannot convert it: %v", fault)
		}
	}()
	if err := checkDefaultChannels(ctx, reader); err != nil {
		return nil, err
	}
	model, err := sqlite.ToModel(ctx, sqlite.NewSQLLiteQuerierFromDBQuerier(reader))
	if err != nil {
		return nil, err
	}
	config := declcfg.ConvertFromModel(model)
	if err := addRelatedImages(ctx, reader, config.Bundles); err != nil {
		return nil, err
	}
	byPackage := catalog{}
	for _, p := range config.Packages {
		byPackage[p.Name] = declcfg.DeclarativeConfig{Packages: []declcfg.Package{p}}
	}
	for _, channel := range config.Channels {
		c := byPackage[channel.Package]
		c.Channels = append(c.Channels, channel)
		byPackage[channel.Package] = c
	}
	for _, bundle := range config.Bundles {
		arrange(&bundle)
		c := byPackage[bundle.Package]
		c.Bundles = append(c.Bundles, bundle)
		byPackage[bundle.Package] = c
	}
	if len(byPackage) == 0 {
		return nil, invalidf("it has no package")
	}
	return byPackage, nil
}

// checkDefaultChannels returns an error for a missing default channel, on which operator-registry panics.
func checkDefaultChannels(ctx context.Context, reader *reader) error {
	rows, err := reader.QueryContext(ctx, `SELECT name, default_channel FROM package WHERE NOT EXISTS
		(SELECT * FROM channel WHERE channel.package_name = package.name AND channel.name = package.default_channel)`)
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		return nil
	}
	var name, channel sql.NullString
	if err := rows.Scan(&name, &channel); err != nil {
		return err
	}
	return invalidf("package %q: default channel %q not found", name.String, channel.String)
}

// addRelatedImages adds the images of the table related_image that the CSV of a bundle does not name.
func addRelatedImages(ctx context.Context, reader *reader, bundles []declcfg.Bundle) error {
	rows, err := reader.QueryContext(ctx, "SELECT image, operatorbundle_name FROM related_image")
	if err != nil {
		return err
	}
	defer rows.Close()
	images := map[string]map[string]bool{}
	for rows.Next() {
		var image, bundle sql.NullString
		if err := rows.Scan(&image, &bundle); err != nil {
			return err
		}
		if !image.Valid || !bundle.Valid {
			continue
		}
		if images[bundle.String] == nil {
			images[bundle.String] = map[string]bool{}
		}
		images[bundle.String][image.String] = true
	}
	for i := range bundles {
		bundle := &bundles[i]
		missing := images[bundle.Name]
		for _, related := range bundle.RelatedImages {
			delete(missing, related.Image)
		}
		for _, image := range slices.Sorted(maps.Keys(missing)) {
			bundle.RelatedImages = append(bundle.RelatedImages, declcfg.RelatedImage{Image: image})
		}
	}
	return nil
}

// arrange sorts related images, and puts properties with manifests last, as opm does.
func arrange(bundle *declcfg.Bundle) {
	slices.SortFunc(bundle.RelatedImages, func(a, b declcfg.RelatedImage) int { return cmp.Compare(a.Image, b.Image) })
	rank := func(p property.Property) int {
		if p.Type == property.TypeBundleObject || p.Type == property.TypeCSVMetadata {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(bundle.Properties, func(a, b property.Property) int { return cmp.Compare(rank(a), rank(b)) })
}

// writeCatalog writes a directory for each package, as declcfg.WriteFS does, within the file limits.
func writeCatalog(c catalog, files *tree) error {
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if clean, err := cleanName(name); err != nil || clean != name || strings.Contains(name, "/") || strings.HasPrefix(name, ".") {
			return invalidf("the SQLite index has a package named %q, which is not a valid directory name", name)
		}
		var content bytes.Buffer
		if err := declcfg.WriteJSON(c[name], &content); err != nil {
			return invalidf("writing package %q as a file: %w", name, err)
		}
		delete(c, name) // frees its memory
		file := path.Join(name, "catalog.json")
		if err := files.makeRoom(file); err != nil {
			return err
		}
		if err := files.writeFile(file, int64(content.Len()), &content); err != nil {
			return err
		}
	}
	return nil
}

// reader passes rows of the database to operator-registry, limits their total size, and keeps the first query
// error.
type reader struct {
	db    *sql.DB
	limit int64 // of the database's bytes
	read  int64
	err   error
}

// rowBytes is the approximate memory of a row besides its text.
const rowBytes = 256

// QueryContext implements sqlite.Querier.
func (r *reader) QueryContext(ctx context.Context, query string, args ...any) (sqlite.RowScanner, error) {
	rows, err := r.db.QueryContext(ctx, query, args...)
	r.err = cmp.Or(r.err, err)
	if err != nil {
		return nil, err
	}
	return &boundedRows{rows, r}, nil
}

type boundedRows struct {
	*sql.Rows
	reader *reader
}

// Next implements sqlite.RowScanner.
func (r *boundedRows) Next() bool {
	if r.reader.err == nil && r.Rows.Next() {
		return true
	}
	r.reader.err = cmp.Or(r.reader.err, r.Err())
	return false
}

// Scan implements sqlite.RowScanner.
func (r *boundedRows) Scan(dest ...any) error {
	err := r.Rows.Scan(dest...)
	r.reader.read += rowBytes
	for _, value := range dest {
		if text, ok := value.(*sql.NullString); ok {
			r.reader.read += int64(len(text.String))
		}
	}
	if limit := 2 * r.reader.limit; err == nil && r.reader.read > limit {
		err = exceeded(LimitDatabaseBytes, r.reader.limit,
			"its content has at least %d bytes (bundles count once for each channel; twice the limit is allowed)", r.reader.read)
	}
	r.reader.err = cmp.Or(r.reader.err, err)
	return err
}
