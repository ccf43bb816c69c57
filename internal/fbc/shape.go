package fbc

import (
	"encoding/json"
	"reflect"
	"strings"
)

// shape tells, in one pass over compact, valid JSON, whether encoding/json can decode that into a type of Go, without decoding
// it. It is made of the type, so it stays right when the type changes.
type shape struct {
	kind   shapeKind
	typ    reflect.Type      // of a decoded one
	elem   *shape            // of a list or map
	fields map[string]*shape // of a struct, by quoted key
}

type shapeKind byte

const (
	shapeDecoded shapeKind = iota // nothing simpler: encoding/json is asked
	shapeAny
	shapeString
	shapeBool
	shapeList
	shapeMap
	shapeStruct
)

func shapeOf[T any]() *shape { return makeShape(reflect.TypeFor[T](), map[reflect.Type]*shape{}) }

// makeShape makes the shape of a type; those in made are made, or being made.
func makeShape(t reflect.Type, made map[reflect.Type]*shape) *shape {
	if s := made[t]; s != nil {
		return s
	}
	s := &shape{typ: t}
	made[t] = s
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		s.kind = shapeAny
	case readsItself(t):
	case t.Kind() == reflect.String:
		s.kind = shapeString
	case t.Kind() == reflect.Bool:
		s.kind = shapeBool
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		s.kind, s.elem = shapeList, makeShape(t.Elem(), made)
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String && !readsItself(t.Key()):
		s.kind, s.elem = shapeMap, makeShape(t.Elem(), made)
	case t.Kind() == reflect.Struct:
		s.addFields(made)
	}
	return s
}

// readsItself tells whether a type has a method by which encoding/json reads it.
func readsItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[interface{ UnmarshalText([]byte) error }]())
}

// addFields makes s the shape of a struct, if its fields are named in the usual way.
func (s *shape) addFields(made map[reflect.Type]*shape) {
	fields := map[string]*shape{}
	for f := range s.typ.Fields() {
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

// fits tells whether a value can be decoded.
func (s *shape) fits(value []byte) bool { return len(value) > 0 && s.skip(value, 0) == len(value) }

// skip returns the index behind the value at i, or -1 if it cannot be decoded, or only perhaps.
func (s *shape) skip(b []byte, i int) int {
	switch {
	case s.kind == shapeDecoded:
		end := skipValue(b, i)
		if json.Unmarshal(b[i:end], reflect.New(s.typ).Interface()) != nil {
			return -1
		}
		return end
	case s.kind == shapeAny || b[i] == 'n': // null leaves everything as it is
		return skipValue(b, i)
	case s.kind == shapeString && b[i] == '"':
		return skipString(b, i)
	case s.kind == shapeBool && (b[i] == 't' || b[i] == 'f'):
		return skipValue(b, i)
	case s.kind == shapeList:
		return skipArray(b, i, s.elem.skip)
	case s.kind == shapeMap:
		return skipObject(b, i, s.skipEntry)
	case s.kind == shapeStruct:
		return skipObject(b, i, s.skipField)
	}
	return -1
}

func (s *shape) skipEntry(b []byte, _, i int) int { return s.elem.skip(b, i) }

func (s *shape) skipField(b []byte, key, i int) int {
	quoted := b[key : i-len(":")]
	if field := s.fields[string(quoted)]; field != nil {
		return field.skip(b, i)
	}
	if s.knows(quoted) {
		return -1
	}
	return skipValue(b, i)
}

// knows tells whether a struct has a field for a quoted key, in any case.
func (s *shape) knows(quoted []byte) bool {
	for name := range s.fields {
		if isKey(quoted, name[1:len(name)-1]) {
			return true
		}
	}
	return false
}

// skipObject returns the index behind the object that begins at i in compact, valid JSON, or -1 if there is none. The function
// is given where a key begins and where its value does, and returns the index behind that; -1 ends the walk.
func skipObject(b []byte, i int, value func(b []byte, key, i int) int) int {
	if b[i] != '{' {
		return -1
	}
	for i++; b[i] != '}'; i = skipComma(b, i) {
		key := i
		if i = value(b, key, skipString(b, key)+len(":")); i < 0 {
			return -1
		}
	}
	return i + 1
}

// skipArray is skipObject of an array.
func skipArray(b []byte, i int, element func(b []byte, i int) int) int {
	if b[i] != '[' {
		return -1
	}
	for i++; b[i] != ']'; i = skipComma(b, i) {
		if i = element(b, i); i < 0 {
			return -1
		}
	}
	return i + 1
}
