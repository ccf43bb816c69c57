package serve

import (
	"context"
	"fmt"

	"github.com/operator-catalogs/catalogd/internal/diff"
	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
	"github.com/operator-catalogs/catalogd/internal/store"
)

// Limits of the bytes and the JSON values in the blobs of a package, without its bundles. The largest known package has 1 MB and
// 20,000 values.
const (
	maxDetailBytes  = 16 << 20
	maxDetailValues = 200_000
)

// readDetails returns the channels, bundles and deprecations of a package. The package need not be valid. Bundles come from the
// index, without reading their blobs.
func readDetails(ctx context.Context, c store.Catalog, name string) (*diff.Details, error) {
	blobs := c.Snapshot.Package(name)
	if blobs.Len() == 0 {
		return nil, noPackage(c, name)
	}
	d := diff.NewDetails()
	for i := range blobs.Len() {
		if e := blobs.Entry(i); e.Schema == fbc.SchemaBundle {
			d.Bundles[e.Name] = diff.Bundle{Hash: c.Snapshot.BlobHash(e.Number), Version: e.Version}
		}
	}
	blobs = blobs.Keep(func(e store.Entry) bool { return e.Schema != fbc.SchemaBundle && !fbc.IsCustom(e.Schema) })
	if size := blobs.Size(); size > maxDetailBytes {
		return nil, unprocessable("the channels and deprecations of package %q in catalog %q have %d bytes, which exceeds the limit of %d",
			name, c.Name, size, maxDetailBytes)
	}
	next, values := 0, 0
	for blob, err := range blobs.Verified(ctx) {
		if err != nil {
			return nil, fmt.Errorf("reading package %q of catalog %q: %w", name, c.Name, err)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		e := blobs.Entry(next)
		next++
		if values += scan.CountValues(blob); values > maxDetailValues {
			return nil, unprocessable("the channels and deprecations of package %q in catalog %q exceed the limit of %d JSON values",
				name, c.Name, maxDetailValues)
		}
		if err := d.Add(e.Schema, e.Name, c.Snapshot.BlobHash(e.Number), blob); err != nil {
			return nil, unprocessable("reading %s %q of package %q in catalog %q: %v", e.Schema, e.Name, name, c.Name, err)
		}
	}
	return d, nil
}
