// Package scan reads the files of a file-based catalog (FBC): a tree of JSON and YAML files in, a stream of blobs in
// a stable order out.
//
// The format is described at https://olm.operatorframework.io/docs/reference/file-based-catalogs/. Where that page is
// silent, the reader of operator-registry (declcfg) is authoritative.
package scan

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// DefaultMaxBlobBytes is the default limit of one blob. Blobs are held in memory one at a time; the largest known
	// real one has 2.4 MB.
	DefaultMaxBlobBytes = 64 << 20

	// MaxKeyBytes is the limit of a schema, package or name: an index holds all of them in memory.
	MaxKeyBytes = 4096
)

// Blob is one object of a catalog, a "meta" in FBC's terms.
type Blob struct {
	// Schema is never empty. Package and Name are empty if the blob has none.
	Schema, Package, Name string

	// JSON is the object in compact form: one line without insignificant white space and without a newline. Key order,
	// number spelling and unknown fields are those of the source. It is valid UTF-8: other bytes are replaced by U+FFFD,
	// as encoding/json does.
	JSON []byte

	// Properties is the part of JSON that is the value of the key "properties"; nil without that key.
	Properties []byte
}

var (
	// ErrBlobTooLarge is wrapped by the error about a blob that exceeds the limit.
	ErrBlobTooLarge = errors.New("the blob is too large")

	// ErrNoSchema is wrapped by the error about a blob without a schema.
	ErrNoSchema = errors.New("no schema")
)

// Error is a fault in the content of a catalog file. The same bytes always cause the same error, so a retry does not
// help.
type Error struct {
	Path string // slash-separated, relative to the root of the catalog
	Line int    // starts at 1; 0 if unknown, or if Err has it
	Err  error
}

func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Err)
	}
	return fmt.Sprintf("%s: %v", e.Path, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// ParseBlob returns the blob of a compact JSON object, which it does not copy. It is an error if the object has no
// schema, or if its schema, package or name is not a string or occurs twice.
func ParseBlob(object []byte) (Blob, error) {
	b := Blob{JSON: object}
	if len(object) == 0 || object[0] != '{' {
		return Blob{}, fmt.Errorf("the top level is %s; a catalog file is a stream of objects", kindOf(object))
	}
	seen := map[*string]bool{}
	for key, value := range Members(object) {
		field := b.field(key)
		if field == nil {
			if IsKey(key, "properties") {
				b.Properties = value
			}
			continue
		}
		if seen[field] {
			return Blob{}, fmt.Errorf("duplicate key %s in the blob %s", key, excerpt(object))
		}
		seen[field] = true
		if value[0] != '"' {
			return Blob{}, fmt.Errorf("the value of %s is %s, not a string", key, kindOf(value))
		}
		if len(value) > MaxKeyBytes {
			return Blob{}, fmt.Errorf("the value of %s exceeds the limit of %d bytes", key, MaxKeyBytes)
		}
		*field = Unquote(value)
	}
	if b.Schema == "" {
		return Blob{}, fmt.Errorf("the blob %s has %w", excerpt(object), ErrNoSchema)
	}
	return b, nil
}

// field returns the field for a quoted key, nil for all but three keys. Like operator-registry it ignores case:
// "Schema", of old FBC templates, is "schema".
func (b *Blob) field(quoted []byte) *string {
	switch {
	case IsKey(quoted, "schema"):
		return &b.Schema
	case IsKey(quoted, "package"):
		return &b.Package
	case IsKey(quoted, "name"):
		return &b.Name
	}
	return nil
}

// toValidUTF8 replaces each byte that is not UTF-8 by U+FFFD, as encoding/json does when it decodes a string.
func toValidUTF8(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	out := make([]byte, 0, len(b)+64)
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		out = utf8.AppendRune(out, r)
		b = b[size:]
	}
	return out
}

// excerpt returns the beginning of a blob, short enough for a message.
func excerpt(b []byte) string {
	const limit = 60
	return Shorten(string(b[:min(len(b), limit+1)]), limit)
}

// Shorten cuts a text after limit bytes and marks the cut with an ellipsis.
func Shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
