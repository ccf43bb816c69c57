package fbc

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// shape tells, in one pass over compact, valid JSON, whether encoding/json can decode that into a type of Go, and decodes what is
// wanted of it. It is made of the type, so it stays right when the type changes.
type shape struct {
	kind   shapeKind
	typ    reflect.Type
	elem   *shape                // of a list or map
	fields map[string]shapeField // of a struct, by quoted key
}

type shapeField struct {
	*shape
	index    int
	isDetail bool // it is not decoded
}

// details are what is said of an API to those who draw forms for it. That is most of what a ClusterServiceVersion says, and nobody here asks.
var details = map[reflect.Type]bool{
	reflect.TypeFor[[]v1alpha1.APIResourceReference](): true,
	reflect.TypeFor[[]v1alpha1.SpecDescriptor]():       true,
	reflect.TypeFor[[]v1alpha1.StatusDescriptor]():     true,
	reflect.TypeFor[[]v1alpha1.ActionDescriptor]():     true,
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
	fields := map[string]shapeField{}
	if s.typ.NumField() > mostFields {
		return
	}
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
		if f.Anonymous || fields[key].shape != nil || strings.Contains(options, "string") {
			return
		}
		fields[key] = shapeField{makeShape(f.Type, made), i, details[f.Type]}
	}
	s.kind, s.fields = shapeStruct, fields
}

// valueOf decodes a value that fits.
func valueOf[T any](s *shape, value []byte) (out T) {
	s.read(value, 0, reflect.ValueOf(&out).Elem())
	return out
}

// skip returns the index behind the value at i, or -1 if it cannot be decoded, or only perhaps.
func (s *shape) skip(b []byte, i int) int { return s.read(b, i, reflect.Value{}) }

// read is skip that decodes the value into one of the type that is zero, as encoding/json does; into none it decodes nothing.
func (s *shape) read(b []byte, i int, into reflect.Value) int {
	switch {
	case s.kind == shapeDecoded || s.kind == shapeAny && into.IsValid():
		return s.decode(b, i, into)
	case s.kind == shapeAny || b[i] == 'n': // null leaves everything as it is
		return scan.SkipValue(b, i)
	case s.kind == shapeString && b[i] == '"', s.kind == shapeBool && (b[i] == 't' || b[i] == 'f'):
		return readScalar(b, i, into)
	case s.kind == shapeList:
		return s.readList(b, i, into)
	case s.kind == shapeMap:
		return s.readMap(b, i, into)
	case s.kind == shapeStruct:
		return s.readStruct(b, i, into)
	}
	return -1
}

// readScalar reads a string, true or false.
func readScalar(b []byte, i int, into reflect.Value) int {
	end := scan.SkipValue(b, i)
	switch {
	case !into.IsValid():
	case b[i] == '"':
		into.SetString(scan.Unquote(b[i:end]))
	default:
		into.SetBool(b[i] == 't')
	}
	return end
}

func (s *shape) decode(b []byte, i int, into reflect.Value) int {
	if !into.IsValid() {
		into = reflect.New(s.typ).Elem()
	}
	end := scan.SkipValue(b, i)
	if json.Unmarshal(b[i:end], into.Addr().Interface()) != nil {
		return -1
	}
	return end
}

func (s *shape) readList(b []byte, i int, into reflect.Value) int {
	if !into.IsValid() {
		return scan.WalkArray(b, i, func(i int) int { return s.elem.skip(b, i) })
	}
	into.Set(reflect.MakeSlice(s.typ, 0, 0))
	return scan.WalkArray(b, i, func(i int) int {
		n := into.Len()
		into.Grow(1)
		into.SetLen(n + 1)
		return s.elem.read(b, i, into.Index(n))
	})
}

func (s *shape) readMap(b []byte, i int, into reflect.Value) int {
	if into.IsValid() {
		into.Set(reflect.MakeMap(s.typ))
	}
	return scan.WalkObject(b, i, func(key []byte, i int) int {
		if !into.IsValid() {
			return s.elem.skip(b, i)
		}
		value := reflect.New(s.typ.Elem()).Elem()
		end := s.elem.read(b, i, value)
		into.SetMapIndex(reflect.ValueOf(scan.Unquote(key)).Convert(s.typ.Key()), value)
		return end
	})
}

// mostFields is as many as the bits by which readStruct knows those that it met.
const mostFields = 64

// readStruct gives up at a field that is there twice: encoding/json decodes the second into what the first left.
func (s *shape) readStruct(b []byte, i int, into reflect.Value) int {
	met := uint64(0)
	return scan.WalkObject(b, i, func(key []byte, i int) int {
		field, ok := s.fields[string(key)]
		if !ok {
			return other(s, b, key, i)
		}
		if bit := uint64(1) << field.index; met&bit == 0 {
			met |= bit
		} else {
			return -1
		}
		if !into.IsValid() || field.isDetail {
			return field.skip(b, i)
		}
		return field.read(b, i, into.Field(field.index))
	})
}

// knows tells whether a struct has a field for a quoted key, in any case.
func (s *shape) knows(quoted []byte) bool {
	for name := range s.fields {
		if scan.IsKey(quoted, name[1:len(name)-1]) {
			return true
		}
	}
	return false
}
