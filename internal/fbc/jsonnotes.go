package fbc

// notes say where in the compact JSON of an object the values of its keys lie, and gather the facts of its properties,
// so that nobody has to walk the object again.
type notes struct {
	schema, pkg, name note
	twice             bool          // whether one of them stands there twice
	properties        note          // only tells that the value being read is the properties
	facts             factCollector // of the last list of properties

	// The container that is watched is the object itself or an element of its list of properties.
	watching     bool
	inProperties bool
	typ, value   note  // of the property that is watched
	current      *note // where the value that is being read belongs, nil where nowhere
	from         int   // where that value begins
}

// note is where a value lies: from its first byte to behind its last one. Of a key that is not there it is zero.
type note struct{ from, to int }

func (n note) in(object []byte) []byte { return object[n.from:n.to] }

func (n *notes) reset() {
	n.facts.reset()
	*n = notes{facts: n.facts}
}

// enter says that a container begins, the first of which has the depth 1.
func (n *notes) enter(depth int, isObject bool) {
	n.watching = depth == 1
	switch depth {
	case 2:
		n.inProperties = n.current == &n.properties && !isObject
	case 3:
		if n.inProperties {
			n.watching, n.current, n.typ, n.value = true, nil, note{}, note{}
		}
	}
}

// leave says that we are back in the container of a depth.
func (n *notes) leave(depth int) {
	n.watching = depth == 1 || depth == 3 && n.inProperties
	if depth == 1 {
		n.inProperties = false
	}
}

// find tells where the value of a quoted key of the watched container belongs.
func (n *notes) find(quoted []byte) *note {
	switch {
	case n.inProperties && isKey(quoted, "type"):
		return &n.typ
	case n.inProperties && isKey(quoted, "value"):
		return &n.value
	case n.inProperties:
		return nil
	case isKey(quoted, "schema"):
		return &n.schema
	case isKey(quoted, "package"):
		return &n.pkg
	case isKey(quoted, "name"):
		return &n.name
	case isKey(quoted, "properties"):
		return &n.properties
	}
	return nil
}

// noteKey takes note of the key that begins at from in out and ends at i in the window.
func (s *splitter) noteKey(from, i int) {
	s.flush(i)
	n := &s.notes
	n.current = n.find(s.out[from:])
	n.from = len(s.out) + len(":")
	if n.current == &n.properties {
		n.facts.reset()
	} else if n.current != nil && !n.inProperties && n.current.to > 0 {
		n.twice = true
	}
}

// noteValue takes note of the value of the last key: it ends at i in the window. In an array there is none.
func (s *splitter) noteValue(i int) {
	n := &s.notes
	if n.current == nil {
		return
	}
	if n.current == &n.typ {
		s.flush(i)
		if s.out[n.from] != '"' {
			return
		}
	}
	*n.current = note{n.from, s.outAt(i)}
	n.current = nil
}

// noteProperty takes note of the property that ends at i in the window, if that is one.
func (s *splitter) noteProperty(i int) {
	if n := &s.notes; n.inProperties && n.typ.to > 0 {
		s.flush(i)
		n.facts.add(unquote(n.typ.in(s.out)), n.value.in(s.out))
	}
}

// blob makes a blob of the object that next has read. The errors are those of blobOf.
func (s *splitter) blob() (Blob, error) {
	n, object := &s.notes, s.out
	if s.high&highBits != 0 {
		object = toValidUTF8(object)
	}
	schema, ok := keyText(n.schema.in(s.out))
	pkg, ok2 := keyText(n.pkg.in(s.out))
	name, ok3 := keyText(n.name.in(s.out))
	if !ok || !ok2 || !ok3 || schema == "" || n.twice || len(object) != len(s.out) {
		return blobOf(object) // the notes do not fit, or something is wrong
	}
	b := Blob{Schema: schema, Package: pkg, Name: name, JSON: object}
	if schema == SchemaBundle {
		b.Bundle = n.facts.facts()
	}
	return b, nil
}

// keyText gives the text of one of the three keys, of which the value is given, and whether it may be one.
func keyText(value []byte) (string, bool) {
	if len(value) == 0 {
		return "", true
	}
	if value[0] != '"' || len(value) > maxKeyBytes {
		return "", false
	}
	return unquote(value), true
}
