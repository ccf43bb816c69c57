package template

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/template/basic"
	"github.com/operator-framework/operator-registry/alpha/template/substitutes"

	"github.com/operator-catalogs/catalogd/internal/catalogimage"
	"github.com/operator-catalogs/catalogd/internal/fbc"
	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// Convert makes a template of a catalog: a directory or a file. schema is Basic or Substitutes. The result is JSON, indented as by
// opm.
func Convert(ctx context.Context, ref, schema string) (text []byte, err error) {
	root, fsys, err := catalogimage.Open(ref)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	entries, err := entriesOf(ctx, fsys, schema)
	if err != nil {
		return nil, err
	}
	var template any = basic.BasicTemplateData{Schema: schema, Entries: entries}
	if schema == Substitutes {
		template = substitutes.SubstitutesTemplateData{Schema: schema, Entries: entries, Substitutions: []substitutes.Substitute{}}
	}
	return json.MarshalIndent(template, "", "    ")
}

func entriesOf(ctx context.Context, fsys fs.FS, schema string) (entries []*declcfg.Meta, err error) {
	files, err := scan.Files(fsys)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := scan.ReadFile(fsys, file, 0, func(b scan.Blob) error {
			entry, err := metaOf(b.JSON)
			if err == nil && schema == Basic && b.Schema == fbc.SchemaBundle {
				err = shorten(entry)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			entries = append(entries, entry)
			return nil
		}); err != nil {
			return nil, err
		}
	}
	if len(entries) == 0 {
		return nil, errors.New("the catalog has no blobs")
	}
	return entries, nil
}

// shorten makes a bundle an entry of a basic template, which has only its image.
func shorten(entry *declcfg.Meta) error {
	var b declcfg.Bundle
	if err := json.Unmarshal(entry.Blob, &b); err != nil {
		return fmt.Errorf("bundle %q: %w", entry.Name, err)
	}
	if b.Image == "" {
		return fmt.Errorf("bundle %q has no image, by which a basic template could name it: convert to a substitutes template instead", entry.Name)
	}
	blob, err := json.Marshal(declcfg.Bundle{Schema: b.Schema, Image: b.Image})
	entry.Blob = blob
	return err
}
