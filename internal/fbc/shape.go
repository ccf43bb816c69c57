package fbc

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// shape checks, in one pass over compact, valid JSON, whether encoding/json can decode it into a Go type. It is derived
// from the type, so it follows changes of the type.
type shape struct {
	kind   shapeKind
	typ    reflect.Type
	elem   *shape            // of a list or map
	fields map[string]*shape // of a struct, by quoted key
}

type shapeKind byte

const (
	shapeDecoded shapeKind = iota // none of the others: checked by encoding/json
	shapeAny
	shapeString
	shapeBool
	shapeList
	shapeMap
	shapeStruct
)

func shapeOf[T any]() *shape { return makeShape(reflect.TypeFor[T](), map[reflect.Type]*shape{}) }

// makeShape returns the shape of a type. made holds the shapes that are finished or in progress.
func makeShape(t reflect.Type, made map[reflect.Type]*shape) *shape {
	if s := made[t]; s != nil {
		return s
	}
	s := &shape{typ: t}
	made[t] = s
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		s.kind = shapeAny
	case hasUnmarshaler(t):
	case t.Kind() == reflect.String:
		s.kind = shapeString
	case t.Kind() == reflect.Bool:
		s.kind = shapeBool
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		s.kind, s.elem = shapeList, makeShape(t.Elem(), made)
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String && !hasUnmarshaler(t.Key()):
		s.kind, s.elem = shapeMap, makeShape(t.Elem(), made)
	case t.Kind() == reflect.Struct:
		s.addFields(made)
	}
	return s
}

// hasUnmarshaler reports whether a type has its own method for encoding/json.
func hasUnmarshaler(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		p.Implements(reflect.TypeFor[interface{ UnmarshalText([]byte) error }]())
}

// addFields makes s the shape of a struct, unless its fields are embedded, ambiguous or have the option "string".
func (s *shape) addFields(made map[reflect.Type]*shape) {
	fields := map[string]*shape{}
	for i := range s.typ.NumField() {
		f := s.typ.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		if name == "" {
			name = f.Name
		}
		key := `"` + name + `"`
		if f.Anonymous || fields[key] != nil || strings.Contains(options, "string") {
			return
		}
		fields[key] = makeShape(f.Type, made)
	}
	s.kind, s.fields = shapeStruct, fields
}

// skip returns the position behind the value at i, or -1 if encoding/json might not decode it.
func (s *shape) skip(b []byte, i int) int {
	switch {
	case s.kind == shapeDecoded:
		end := scan.SkipValue(b, i)
		if json.Unmarshal(b[i:end], reflect.New(s.typ).Interface()) != nil {
			return -1
		}
		return end
	case s.kind == shapeAny || b[i] == 'n', // null leaves everything as it is
		s.kind == shapeString && b[i] == '"',
		s.kind == shapeBool && (b[i] == 't' || b[i] == 'f'):
		return scan.SkipValue(b, i)
	case s.kind == shapeList:
		return scan.WalkArray(b, i, func(i int) int { return s.elem.skip(b, i) })
	case s.kind == shapeMap:
		return scan.WalkObject(b, i, func(_ []byte, i int) int { return s.elem.skip(b, i) })
	case s.kind == shapeStruct:
		return scan.WalkObject(b, i, func(key []byte, i int) int {
			if field := s.fields[string(key)]; field != nil {
				return field.skip(b, i)
			}
			return other(s, b, key, i)
		})
	}
	return -1
}

// knows reports whether a struct has a field for a quoted key, ignoring case.
func (s *shape) knows(quoted []byte) bool {
	for name := range s.fields {
		if scan.IsKey(quoted, name[1:len(name)-1]) {
			return true
		}
	}
	return false
}
