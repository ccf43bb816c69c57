// Package fbc reads a file-based catalog (FBC) as data: a tree of JSON and YAML files in, a stream of blobs in
// stable order out; and, of the blobs of one package, whether they are sound and what they say.
//
// It knows no Kubernetes, no image and no disk layout. The format is described at
// https://olm.operatorframework.io/docs/reference/file-based-catalogs/; where that page is silent, the readers of
// operator-registry (declcfg, model) decide what is accepted.
package fbc

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/joelanford/ignore"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
)

// The schemas that OLM defines. A blob of any other schema is custom: kept and served, never interpreted.
const (
	SchemaPackage      = declcfg.SchemaPackage
	SchemaChannel      = declcfg.SchemaChannel
	SchemaBundle       = declcfg.SchemaBundle
	SchemaDeprecations = declcfg.SchemaDeprecation
)

// DefaultMaxBlobBytes bounds one blob where a caller states no bound. Blobs are held in memory one at a time; the
// largest known real one has 2.4 MB.
const DefaultMaxBlobBytes = 64 << 20

// indexIgnore names the files whose patterns (in the syntax of .gitignore) say which files are no part of the catalog.
const indexIgnore = ".indexignore"

// Blob is one object of a catalog, in FBC's own words a "meta".
type Blob struct {
	// Schema is never empty. Package and Name are empty where the blob has none.
	Schema, Package, Name string

	// JSON is the object on one line, without insignificant white space and without a newline. Key order, the
	// spelling of numbers and unknown fields are those of the source. It is valid UTF-8: bytes that are not become
	// U+FFFD, as every JSON decoder in Go reads them.
	JSON []byte

	// Bundle are the facts of an olm.bundle blob; of any other they are zero.
	Bundle BundleFacts
}

// IsCustom tells whether a schema is none that OLM defines.
func IsCustom(schema string) bool {
	switch schema {
	case SchemaPackage, SchemaChannel, SchemaBundle, SchemaDeprecations:
		return false
	}
	return true
}

// ErrBlobTooLarge is in the chain of the error about a blob that is larger than the caller accepts.
var ErrBlobTooLarge = errors.New("the blob is too large")

// Error says where in a catalog something cannot be read. The same bytes always give the same error, so trying
// again does not help.
type Error struct {
	Path string // slash-separated, relative to the root of the catalog
	Line int    // 1 is the first; 0 where Err says it or it is unknown
	Err  error
}

func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Err)
	}
	return fmt.Sprintf("%s: %v", e.Path, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Files lists the files of the catalog in fsys in the order in which their blobs are streamed: lexical, directories
// where their name stands. Files that match a pattern of an .indexignore, and the .indexignore files, are left out.
//
// Patterns beyond all reason are an *Error, as each of them is held against each file.
func Files(fsys fs.FS) ([]string, error) {
	if err := checkIgnores(fsys); err != nil {
		return nil, err
	}
	ignored, err := ignore.NewMatcher(fsys, indexIgnore)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", indexIgnore, err)
	}
	var files []string
	err = fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() || d.Name() == indexIgnore || ignored.Match(path, false) {
			return nil
		}
		files = append(files, path)
		return nil
	})
	return files, err
}

// maxIgnoreBytes bounds all .indexignore files of a catalog together. Known ones have a few lines.
const maxIgnoreBytes = 16 << 10

func checkIgnores(fsys fs.FS) error {
	total := int64(0)
	return fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() != indexIgnore {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if total += info.Size(); total > maxIgnoreBytes {
			return &Error{Path: path, Err: fmt.Errorf("the %s files have more than %d bytes together, the most that is accepted", indexIgnore, maxIgnoreBytes)}
		}
		return nil
	})
}
