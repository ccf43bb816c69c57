package authoring

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/catalogimage"
	"github.com/operator-catalogs/catalogd/internal/diff"
	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// blob has the position of a blob in its file, and of its compact JSON in the spool.
type blob struct {
	schema, pkg, name string
	version           string
	file              string
	at                scan.Position
	hash              fbc.Hash
	offset            int64
	size              int
}

// catalog is the content of a source. Blobs are in a temporary file, so memory does not depend on their size.
type catalog struct {
	fsys        fs.FS
	spool       *os.File
	size        int64
	all         int // number of files, including ignored ones
	files       int // number of files read
	blobs       []*blob
	faults      []*scan.Error     // unreadable files and invalid blobs
	broken      map[string]bool   // files with faults
	unsupported map[string]string // reasons by name, of neither files nor directories
}

// maxFaults limits the invalid blobs reported for a file, which is then probably not part of a catalog.
const maxFaults = 100

// errTooManyFaults stops the reading of a file.
var errTooManyFaults = errors.New("the file has too many faults")

// read reads the source at the first call.
func (s *Source) read(ctx context.Context) (*catalog, error) {
	if s.catalog != nil {
		return s.catalog, nil
	}
	spool, err := catalogimage.TempFile()
	if err != nil {
		return nil, fmt.Errorf("making a temporary file: %w", err)
	}
	c := &catalog{fsys: s.files, spool: spool, broken: map[string]bool{}, unsupported: map[string]string{}}
	if err := c.readAll(ctx); err != nil {
		return nil, errors.Join(err, c.spool.Close())
	}
	s.catalog = c
	return c, nil
}

func (c *catalog) readAll(ctx context.Context) error {
	if err := c.findUnsupported(); err != nil {
		return err
	}
	// Opening a pipe may block forever.
	files, err := scan.Files(catalogimage.Hide(c.fsys, func(name string) bool { return c.unsupported[name] != "" }))
	if where, ok := errors.AsType[*scan.Error](err); ok {
		c.faults = append(c.faults, where)
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.files++
		if err := c.readFile(name); err != nil {
			return err
		}
	}
	return nil
}

// findUnsupported records unsupported file types, also of ignored files.
func (c *catalog) findUnsupported() error {
	return fs.WalkDir(c.fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		c.all++
		if !entry.Type().IsRegular() {
			c.unsupported[name] = catalogimage.UnsupportedType(entry.Type())
		}
		return nil
	})
}

func (c *catalog) readFile(name string) error {
	faults := 0
	err := scan.VisitFile(c.fsys, name, 0, scan.Visitor{
		Blob: func(b scan.Blob, at scan.Position) error { return c.add(name, b, at) },
		Fault: func(fault *scan.Error) error {
			c.fault(name, fault)
			if faults++; faults == maxFaults {
				return errTooManyFaults
			}
			return nil
		},
	})
	if errors.Is(err, errTooManyFaults) {
		return nil
	}
	if fault, ok := errors.AsType[*scan.Error](err); ok {
		c.fault(name, fault)
		return nil
	}
	return err
}

func (c *catalog) fault(name string, fault *scan.Error) {
	c.broken[name] = true
	c.faults = append(c.faults, fault)
}

func (c *catalog) add(file string, b scan.Blob, at scan.Position) error {
	if _, err := c.spool.Write(b.JSON); err != nil {
		return fmt.Errorf("writing a temporary file: %w", err)
	}
	c.blobs = append(c.blobs, &blob{
		schema: b.Schema, pkg: b.Package, name: b.Name, version: fbc.FactsOf(b).Version,
		file: file, at: at, hash: fbc.HashOf(b.JSON), offset: c.size, size: len(b.JSON),
	})
	c.size += int64(len(b.JSON))
	return nil
}

// text returns the compact JSON of a blob.
func (c *catalog) text(b *blob) ([]byte, error) {
	text := make([]byte, b.size)
	if _, err := c.spool.ReadAt(text, b.offset); err != nil {
		return nil, fmt.Errorf("reading a temporary file: %w", err)
	}
	return text, nil
}

func (c *catalog) texts(blobs []*blob) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, b := range blobs {
			if text, err := c.text(b); !yield(text, err) || err != nil {
				return
			}
		}
	}
}

// Blobs returns the blobs of a catalog as compact JSON, with their packages, in the order of the catalog. It returns an error for a
// catalog with a file that cannot be read.
func (s *Source) Blobs(ctx context.Context) (iter.Seq2[scan.Blob, error], error) {
	if s.refused != nil {
		return nil, s.refused
	}
	c, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	if len(c.faults) > 0 {
		return nil, fmt.Errorf("reading the catalog: %w", c.faults[0])
	}
	return func(yield func(scan.Blob, error) bool) {
		for _, b := range c.blobs {
			text, err := c.text(b)
			pkg, _ := fbc.PackageOf(b.schema, b.pkg, b.name)
			if !yield(scan.Blob{Schema: b.schema, Package: pkg, Name: b.name, JSON: text}, err) || err != nil {
				return
			}
		}
	}, nil
}

// group has the blobs of a package in the order of the catalog.
type group struct {
	blobs    []*blob
	required bool // a blob needs a package; otherwise all are custom
}

// groups returns the blobs by package name, "" for those without a package.
func (c *catalog) groups() map[string]group {
	groups := map[string]group{}
	for _, b := range c.blobs {
		name, required := fbc.PackageOf(b.schema, b.pkg, b.name)
		g := groups[name]
		groups[name] = group{append(g.blobs, b), g.required || required}
	}
	return groups
}

// Outline reads a catalog for a comparison. The hashes are catalogd's: fbc.Hash of each blob, and of the blobs of each
// package. It returns an error for a catalog that catalogd would reject. Details can be loaded until the source is closed.
func Outline(ctx context.Context, s *Source) (diff.Catalog, error) {
	if s.refused != nil {
		return diff.Catalog{}, s.refused
	}
	c, err := s.read(ctx)
	if err != nil {
		return diff.Catalog{}, err
	}
	if len(c.faults) > 0 {
		return diff.Catalog{}, fmt.Errorf("reading the catalog: %w", c.faults[0])
	}
	_, digest, _ := strings.Cut(s.Image, "@")
	o := diff.Catalog{Digest: digest, Packages: map[string]diff.Package{}}
	for name, g := range c.groups() {
		if g.required {
			load := func(context.Context) (*diff.Details, error) { return c.details(name, g.blobs) }
			o.Packages[name] = diff.Package{Hash: hashOf(g.blobs), Load: load}
		}
	}
	return o, nil
}

func hashOf(blobs []*blob) string {
	return fbc.HashOfBlobs(func(yield func(fbc.Hash) bool) {
		for _, b := range blobs {
			if !yield(b.hash) {
				return
			}
		}
	}).String()
}

// details returns the content of a valid package, or why catalogd would reject it.
func (c *catalog) details(name string, blobs []*blob) (*diff.Details, error) {
	_, invalid, err := c.load(name, blobs)
	if err != nil {
		return nil, err
	}
	if invalid != nil {
		return &diff.Details{Invalid: invalid.Reason}, nil
	}
	d := diff.NewDetails()
	for _, b := range blobs {
		if b.schema == fbc.SchemaBundle {
			d.Bundles[b.name] = diff.Bundle{Hash: b.hash.String(), Version: b.version}
			continue
		}
		text, err := c.text(b)
		if err != nil {
			return nil, err
		}
		if err := d.Add(b.schema, b.name, b.hash.String(), text); err != nil {
			return nil, fmt.Errorf("package %q: reading its %s: %w", name, b.describe(), err)
		}
	}
	return d, nil
}
