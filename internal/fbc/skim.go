package fbc

import (
	"bytes"
	"encoding/base64"
	"reflect"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// skimmer reads a bundle in one pass over its compact, valid JSON. It makes what decodeBundle and checkAndSlim make, but decodes
// next to nothing, as it gives up (-1) at whatever may be a fault, or is written in an unusual way.
type skimmer struct {
	bundle     declcfg.Bundle
	valid      *images
	forCSV     bool // whether what CSV looks at is kept too, and images are not checked
	properties bool // whether they were there; a decoder makes one of two lists
	related    bool
}

// What a bundle is made of, and the values of its properties. Those of other types are left to property.Parse.
var (
	bundleShape       = shapeOf[declcfg.Bundle]()
	propertyShape     = shapeOf[property.Property]()
	textShape         = shapeOf[string]()
	relatedImageShape = shapeOf[declcfg.RelatedImage]()
	imagesShape       = shapeOf[[]declcfg.RelatedImage]()
	bundleObjectShape = shapeOf[property.BundleObject]()
	packageShape      = shapeOf[property.Package]()
	metadataShape     = shapeOf[property.CSVMetadata]()
	valueShapes       = map[string]*shape{
		property.TypePackage:         packageShape,
		property.TypePackageRequired: shapeOf[property.PackageRequired](),
		property.TypeGVK:             shapeOf[property.GVK](),
		property.TypeGVKRequired:     shapeOf[property.GVKRequired](),
		property.TypeCSVMetadata:     metadataShape,
	}
)

// skimBundle reads a bundle if it is sound beyond doubt.
func skimBundle(blob []byte, valid *images) (declcfg.Bundle, bool) {
	s := skimmer{valid: valid}
	ok := s.reads(blob)
	for i, p := range s.bundle.Properties {
		s.bundle.Properties[i].Value = bytes.Clone(p.Value) // the blob is not ours to keep
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
			return s.relatedImages(b, i)
		}
		return -1
	}
	return other(bundleShape, b, key, i)
}

// image checks the image of the bundle.
func (s *skimmer) image(b []byte, i int) int {
	if s.forCSV {
		return text(b, i, &s.bundle.Image)
	}
	end, empty := s.valid.skip(b, i)
	if s.bundle.Image = validImage; empty {
		s.bundle.Image = ""
	}
	return end
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

// first tells whether it is the first to ask.
func first(seen *bool) bool {
	before := *seen
	*seen = true
	return !before
}

// other skips the value of a key that is none of those that are expected: it is no field, then.
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
	if isKept(p) || s.forCSV && (p.Type == property.TypeCSVMetadata || p.Type == property.TypeBundleObject) {
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

// isObjectInBase64 tells whether a text is the base64 of something that begins as an object does, without holding that.
func isObjectInBase64(text []byte) bool {
	var decoded [3 << 10]byte
	const most = len(decoded) / 3 * 4
	for at := 0; at < len(text); at += most {
		chunk := text[at:min(at+most, len(text))]
		n, err := base64.StdEncoding.Decode(decoded[:], chunk)
		if err != nil || at+most < len(text) && n < len(decoded) || at == 0 && !beginsObject(decoded[:n]) {
			return false
		}
	}
	return len(text) > 0
}

func (s *skimmer) relatedImages(b []byte, i int) int {
	if s.forCSV {
		return imagesShape.read(b, i, reflect.ValueOf(&s.bundle.RelatedImages).Elem())
	}
	return scan.WalkArray(b, i, func(i int) int { return s.relatedImage(b, i) })
}

// relatedImage skips a related image, and checks its name.
func (s *skimmer) relatedImage(b []byte, i int) int {
	return scan.WalkObject(b, i, func(key []byte, i int) int {
		switch string(key) {
		case `"name"`:
			return textShape.skip(b, i)
		case `"image"`:
			end, _ := s.valid.skip(b, i)
			return end
		}
		return other(relatedImageShape, b, key, i)
	})
}
