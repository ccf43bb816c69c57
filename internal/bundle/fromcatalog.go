package bundle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/property"
)

// Blob is the part of an olm.bundle blob that locates the content.
type Blob struct {
	Package, Name string
	Image         string
	Objects       [][]byte // of olm.bundle.object, JSON or YAML
}

// ReadBlob reads a blob of schema olm.bundle.
func ReadBlob(blob []byte) (Blob, error) {
	var bundle struct {
		Package, Name string
		Image         string
		Properties    []struct {
			Type  string
			Value json.RawMessage
		}
	}
	if err := json.Unmarshal(blob, &bundle); err != nil {
		return Blob{}, err
	}
	out := Blob{Package: bundle.Package, Name: bundle.Name, Image: bundle.Image}
	for i, p := range bundle.Properties {
		if p.Type != property.TypeBundleObject {
			continue
		}
		var object property.BundleObject
		if err := json.Unmarshal(p.Value, &object); err != nil {
			return Blob{}, fmt.Errorf("reading property %d (olm.bundle.object): %w", i, err)
		}
		out.Objects = append(out.Objects, object.Data)
	}
	return out, nil
}

// HasContent reports whether the catalog has the objects of the bundle.
func (b Blob) HasContent() bool { return len(b.Objects) > 0 }

// Limits of the objects of a catalog, as by default those of images. A real bundle has 48 of them and 0.6 MB.
const (
	maxCatalogObjects = 500
	maxCatalogBytes   = 8 << 20
)

// Archive returns the objects of the catalog. Their files are named after them.
func (b Blob) Archive() (*Archive, error) {
	bytes := 0
	for _, object := range b.Objects {
		bytes += len(object)
	}
	if len(b.Objects) > maxCatalogObjects || bytes > maxCatalogBytes {
		return nil, &Error{Reason: Invalid, Text: fmt.Sprintf("bundle %q has %d objects with %d bytes in the catalog, which exceeds the limit of "+
			"%d objects and %d bytes", b.Name, len(b.Objects), bytes, maxCatalogObjects, maxCatalogBytes)}
	}
	return b.archive()
}

func (b Blob) archive() (*Archive, error) {
	var files []Source
	used := map[string]bool{}
	for i, object := range b.Objects {
		name := fileName(object, i)
		for used[name] {
			name = fmt.Sprintf("manifests/%04d-%s", i, strings.TrimPrefix(name, "manifests/"))
		}
		used[name] = true
		files = append(files, Source{Path: name, Manifest: true, Read: func() ([]byte, error) { return object, nil }})
	}
	slices.SortFunc(files, func(a, b Source) int { return strings.Compare(a.Path, b.Path) })
	var out bytes.Buffer
	if err := Write(&out, Content{Image: b.Image, Pinned: b.Image == "" || IsPinned(b.Image), FromCatalog: true}, files); err != nil {
		return nil, err
	}
	from := bytes.NewReader(out.Bytes())
	x, err := ReadIndex(from, from.Size())
	if err != nil {
		return nil, err
	}
	return x.Open(from), nil
}

// fileName returns a name for the file of an object: manifests/foo.clusterserviceversion.yaml.
func fileName(object []byte, number int) string {
	one := &builder{}
	one.add("x.yaml", object, true)
	if objects := one.content.Files[0].Objects; len(objects) > 0 && isPlain(objects[0].Name) && isPlain(objects[0].Kind) {
		extension := ".yaml"
		if bytes.HasPrefix(bytes.TrimSpace(object), []byte("{")) {
			extension = ".json"
		}
		return "manifests/" + objects[0].Name + "." + strings.ToLower(objects[0].Kind) + extension
	}
	return fmt.Sprintf("manifests/%04d.yaml", number)
}

// isPlain reports whether a name can be a part of a file's name.
func isPlain(name string) bool {
	return name != "" && len(name) <= 100 && strings.IndexFunc(name, func(r rune) bool {
		return !strings.ContainsRune("-_.:", r) && (r < '0' || r > 'z' || (r > '9' && r < 'A') || (r > 'Z' && r < 'a'))
	}) < 0
}
