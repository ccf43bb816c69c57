package fbc

import (
	"bytes"
	"encoding/base64"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"go.podman.io/image/v5/docker/reference"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// skimmer reads a bundle in one pass over its compact, valid JSON. Its result is that of decodeBundle and checkAndSlim,
// at a fraction of the time: it decodes next to nothing, and gives up (-1) at a possible fault or unusual spelling.
type skimmer struct {
	bundle     declcfg.Bundle
	properties bool // whether they occurred; a decoder merges two lists
	related    bool
}

// The shapes of a bundle's parts and of property values. property.Parse checks properties of other types.
var (
	bundleShape       = shapeOf[declcfg.Bundle]()
	propertyShape     = shapeOf[property.Property]()
	textShape         = shapeOf[string]()
	relatedImageShape = shapeOf[declcfg.RelatedImage]()
	bundleObjectShape = shapeOf[property.BundleObject]()
	valueShapes       = map[string]*shape{
		property.TypePackage:         shapeOf[property.Package](),
		property.TypePackageRequired: shapeOf[property.PackageRequired](),
		property.TypeGVK:             shapeOf[property.GVK](),
		property.TypeGVKRequired:     shapeOf[property.GVKRequired](),
		property.TypeCSVMetadata:     shapeOf[property.CSVMetadata](),
	}
)

// validImage replaces a valid image reference: the model only checks it.
const validImage = "image"

// skimBundle returns a bundle if it is valid beyond doubt.
func skimBundle(blob []byte) (declcfg.Bundle, bool) {
	var s skimmer
	ok := s.reads(blob)
	for i, p := range s.bundle.Properties {
		s.bundle.Properties[i].Value = bytes.Clone(p.Value) // the caller reuses the blob
	}
	return s.bundle, ok
}

func (s *skimmer) reads(blob []byte) bool {
	return scan.WalkObject(blob, 0, func(key []byte, i int) int { return s.member(blob, key, i) }) == len(blob)
}

func (s *skimmer) member(b, key []byte, i int) int {
	switch string(key) {
	case `"schema"`:
		return text(b, i, &s.bundle.Schema)
	case `"name"`:
		return text(b, i, &s.bundle.Name)
	case `"package"`:
		return text(b, i, &s.bundle.Package)
	case `"image"`:
		return s.image(b, i)
	case `"properties"`:
		if first(&s.properties) {
			return scan.WalkArray(b, i, func(i int) int { return s.property(b, i) })
		}
		return -1
	case `"relatedImages"`:
		if first(&s.related) {
			return scan.WalkArray(b, i, func(i int) int { return relatedImage(b, i) })
		}
		return -1
	}
	return other(bundleShape, b, key, i)
}

// image checks the image of the bundle.
func (s *skimmer) image(b []byte, i int) int {
	end, empty := skipImage(b, i)
	if s.bundle.Image = validImage; empty {
		s.bundle.Image = ""
	}
	return end
}

// skipImage returns the position behind the image reference at i, -1 if that is invalid, and whether it is empty: real
// catalogs have empty ones, and the model accepts them.
func skipImage(b []byte, i int) (end int, empty bool) {
	var image string
	if end = text(b, i, &image); end < 0 || image == "" {
		return end, true
	}
	if _, err := reference.ParseNormalizedNamed(image); err != nil {
		return -1, false
	}
	return end, false
}

// text reads the string at i.
func text(b []byte, i int, into *string) int {
	if b[i] != '"' {
		return -1
	}
	end := scan.SkipString(b, i)
	*into = scan.Unquote(b[i:end])
	return end
}

// first reports whether it is called for the first time.
func first(seen *bool) bool {
	before := *seen
	*seen = true
	return !before
}

// other skips the value of an unexpected key, unless that is a field in another spelling.
func other(known *shape, b, quoted []byte, i int) int {
	if known.knows(quoted) {
		return -1
	}
	return scan.SkipValue(b, i)
}

// property reads a property and keeps it if the model looks at it.
func (s *skimmer) property(b []byte, i int) int {
	var p property.Property
	end := scan.WalkObject(b, i, func(key []byte, i int) int {
		switch {
		case string(key) == `"type"` && p.Type == "":
			return text(b, i, &p.Type)
		case string(key) == `"value"` && p.Type != "" && p.Value == nil:
			end := s.value(b, i, p.Type)
			p.Value = b[i:max(i, end)]
			return end
		}
		return other(propertyShape, b, key, i)
	})
	if end < 0 || p.Value == nil {
		return -1
	}
	if isKept(p) {
		s.bundle.Properties = append(s.bundle.Properties, p)
	}
	return end
}

// value skips the value of a property.
func (s *skimmer) value(b []byte, i int, typ string) int {
	if typ == property.TypeBundleObject {
		s.bundle.Objects = oneObject
		return bundleObject(b, i)
	}
	if known := valueShapes[typ]; known != nil {
		end := known.skip(b, i)
		if typ == property.TypePackage && end-i > scan.MaxKeyBytes {
			return -1 // perhaps its version is too long
		}
		return end
	}
	end := scan.SkipValue(b, i)
	if _, err := property.Parse([]property.Property{{Type: typ, Value: b[i:end]}}); err != nil {
		return -1
	}
	return end
}

// bundleObject skips the value of an olm.bundle.object with a manifest in JSON, which is taken as it is.
func bundleObject(b []byte, i int) int {
	isJSON := false
	end := scan.WalkObject(b, i, func(key []byte, i int) int {
		if string(key) != `"data"` {
			return other(bundleObjectShape, b, key, i)
		}
		end := scan.SkipString(b, i)
		if b[i] != '"' || isJSON || !isObjectInBase64(b[i+1:end-1]) {
			return -1
		}
		isJSON = true
		return end
	})
	if !isJSON {
		return -1
	}
	return end
}

// isObjectInBase64 reports whether a text is base64 of something that begins as a JSON object. It does not hold
// the decoded text.
func isObjectInBase64(text []byte) bool {
	var decoded [3 << 10]byte
	const limit = len(decoded) / 3 * 4
	for at := 0; at < len(text); at += limit {
		chunk := text[at:min(at+limit, len(text))]
		n, err := base64.StdEncoding.Decode(decoded[:], chunk)
		if err != nil || at+limit < len(text) && n < len(decoded) || at == 0 && !beginsObject(decoded[:n]) {
			return false
		}
	}
	return len(text) > 0
}

// relatedImage skips a related image, and checks its name.
func relatedImage(b []byte, i int) int {
	return scan.WalkObject(b, i, func(key []byte, i int) int {
		switch string(key) {
		case `"name"`:
			return textShape.skip(b, i)
		case `"image"`:
			end, _ := skipImage(b, i)
			return end
		}
		return other(relatedImageShape, b, key, i)
	})
}
