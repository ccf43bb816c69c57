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

// A catalog is what an SQLite index becomes, by package.
type catalog = map[string]declcfg.DeclarativeConfig

// toCatalog reads a migrated database as `opm migrate` does, without a migration of the catalog (its default level): with
// operator-registry's packages, but for the little that it does in alpha/action, which brings libraries for containers.
func toCatalog(ctx context.Context, reader *reader) (c catalog, err error) {
	defer func() {
		// operator-registry trusts databases.
		if fault := recover(); fault != nil {
			err = invalidf("operator-registry cannot make a catalog of it: %v", fault)
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

// checkDefaultChannels tells a fault that would make operator-registry panic.
func checkDefaultChannels(ctx context.Context, reader *reader) error {
	rows, err := reader.QueryContext(ctx, `SELECT name FROM package WHERE NOT EXISTS
		(SELECT * FROM channel WHERE channel.package_name = package.name AND channel.name = package.default_channel)`)
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		return nil
	}
	var name sql.NullString
	if err := rows.Scan(&name); err != nil {
		return err
	}
	return invalidf("package %q has no channel that is its default", name.String)
}

// addRelatedImages adds the images of the table related_image that a bundle's CSV does not name.
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

// arrange puts related images in order, and the properties that hold manifests last. The order of one image's names is
// what the sort, which opm has too, leaves it.
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

// writeCatalog writes one directory for each package, as declcfg.WriteFS does, within the limits for files.
func writeCatalog(c catalog, files *tree) error {
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if clean, err := cleanName(name); err != nil || clean != name || strings.Contains(name, "/") || strings.HasPrefix(name, ".") {
			return invalidf("the SQLite index has a package named %q, which can be no directory", name)
		}
		var content bytes.Buffer
		if err := declcfg.WriteJSON(c[name], &content); err != nil {
			return invalidf("writing package %q as a file: %w", name, err)
		}
		delete(c, name) // its memory is free for the next
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

// A reader hands rows of the database to operator-registry, bounds how much that is in all, and keeps the error that ended
// one of its queries.
type reader struct {
	db    *sql.DB
	limit int64 // of the database's bytes
	read  int64
	err   error
}

// rowBytes is what a row counts besides its text: about what it takes in memory.
const rowBytes = 256

// QueryContext implements sqlite.Querier.
func (r *reader) QueryContext(ctx context.Context, query string, args ...any) (sqlite.RowScanner, error) {
	rows, err := r.db.QueryContext(ctx, query, args...)
	r.note(err)
	if err != nil {
		return nil, err
	}
	return &boundedRows{rows, r}, nil
}

func (r *reader) note(err error) {
	if r.err == nil {
		r.err = err
	}
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
	r.reader.note(r.Err())
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
	if most := 2 * r.reader.limit; err == nil && r.reader.read > most {
		err = exceeded(LimitDatabaseBytes, r.reader.limit, "it has content of at least %d bytes, counting bundles once for each of their channels; that is more than twice as much as may be read", r.reader.read)
	}
	r.reader.note(err)
	return err
}
