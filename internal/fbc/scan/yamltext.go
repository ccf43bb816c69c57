package scan

import (
	"bytes"
	"slices"
)

const (
	// maxTextDepth limits the nesting for yamlText.
	maxTextDepth = 1000
	// maxTextKey limits a key, in bytes, for yamlText. The library has a limit of 1024 characters.
	maxTextKey = 1000
)

// yamlText converts a YAML document to compact JSON in one pass, with the same result as yamlWriter. It supports
// the syntax that programs write catalogs in: block mappings and sequences, plain, quoted and literal scalars,
// comments, empty flow collections. For everything else, and for errors, its methods return false.
//
// Columns are those of libyaml's scanner: a collection has the column of its first key or dash, and the scalars
// in it have a greater one.
type yamlText struct {
	in    []byte // checked by yamlStream.check; ends with a newline
	cut   bool   // convert added that newline
	pos   int    // position of the next byte
	col   int    // after nextLine: the column of the content at pos, -1 at the end
	depth int
	out   []byte
	rare  yamlWriter // for numbers with another spelling in JSON
}

// convert writes a document to t.out, nothing if it has no content, and returns the position of its content.
func (t *yamlText) convert(text []byte) (start int, ok bool) {
	t.in, t.pos, t.depth, t.out = text, 0, 0, slices.Grow(t.out[:0], len(text))
	if t.cut = !bytes.HasSuffix(text, newline); t.cut {
		t.in = append(text, '\n')
	}
	if bytes.HasPrefix(t.in, []byte("---")) && isBlank(t.in[3]) {
		t.pos = 3
		ok = t.endLine()
	} else {
		ok = t.nextLine()
	}
	if !ok || t.col < 0 {
		return t.pos, ok
	}
	start = t.pos
	return start, t.mapping(t.col) && t.col < 0
}

// nextLine moves from the start of a line to the next content, past empty lines and comments.
func (t *yamlText) nextLine() bool {
	for t.pos < len(t.in) {
		i := t.pos
		for t.in[i] == ' ' {
			i++
		}
		switch t.in[i] {
		case '\n':
			t.pos = i + 1
		case '#':
			t.pos = i + 1 + bytes.IndexByte(t.in[i:], '\n')
		default:
			t.col, t.pos = i-t.pos, i
			return t.in[i] != '\t' && (t.col > 0 || !bytes.HasPrefix(t.in[i:], []byte("...")))
		}
	}
	t.col = -1
	return true
}

// endLine moves to the content of a later line. Only a comment may precede the end of this line.
func (t *yamlText) endLine() bool {
	before := t.pos
	t.skipSpaces()
	switch {
	case t.in[t.pos] == '\n':
	case t.in[t.pos] == '#' && t.pos > before:
		t.pos += bytes.IndexByte(t.in[t.pos:], '\n')
	default:
		return false
	}
	t.pos++
	return t.nextLine()
}

func (t *yamlText) skipSpaces() {
	for t.in[t.pos] == ' ' {
		t.pos++
	}
}

// mapping writes the block mapping with its first key at pos, in column n.
func (t *yamlText) mapping(n int) bool {
	if t.depth++; t.depth > maxTextDepth {
		return false
	}
	t.out = append(t.out, '{')
	for {
		if !t.key() {
			return false
		}
		t.out = append(t.out, ':')
		t.pos++
		if !t.value(n) {
			return false
		}
		if t.col != n {
			break
		}
		t.out = append(t.out, ',')
	}
	t.out = append(t.out, '}')
	t.depth--
	return t.col < n
}

// sequence writes the block sequence with its first dash at pos, in column n. With keyGoesOn the sequence is the
// value of a key in the same column, and more keys may follow.
func (t *yamlText) sequence(n int, keyGoesOn bool) bool {
	if t.depth++; t.depth > maxTextDepth {
		return false
	}
	t.out = append(t.out, '[')
	for {
		dash := t.pos
		t.pos++
		t.skipSpaces()
		if !t.block(n, n+t.pos-dash) { // declines an item on another line
			return false
		}
		if t.col != n || !t.atDash() {
			break
		}
		t.out = append(t.out, ',')
	}
	t.out = append(t.out, ']')
	t.depth--
	return t.col < n || keyGoesOn && t.col == n
}

// value writes the value of a key of the mapping in column n. pos is behind the colon.
func (t *yamlText) value(n int) bool {
	t.skipSpaces()
	if c := t.in[t.pos]; c != '\n' && c != '#' {
		return t.scalar(n)
	}
	if !t.endLine() {
		return false
	}
	if t.col > n {
		return t.block(n, t.col)
	}
	if t.col == n && t.atDash() {
		return t.sequence(n, true)
	}
	t.out = append(t.out, "null"...)
	return true
}

// block writes the node at pos, in column m, of a collection in column n. The node may be a block collection.
func (t *yamlText) block(n, m int) bool {
	if t.atDash() {
		return t.sequence(m, false)
	}
	if t.atKey() {
		return t.mapping(m)
	}
	return t.scalar(n)
}

// scalar writes a scalar or an empty flow collection in a collection in column n, and moves to the next content.
func (t *yamlText) scalar(n int) bool {
	switch c := t.in[t.pos]; c {
	case '"', '\'':
		return t.quoted(c) && t.endLine()
	case '|':
		return t.blockScalar(n)
	case '[', '{':
		return t.emptyCollection() && t.endLine()
	}
	return t.plain(n)
}

// atDash reports whether an item of a block sequence begins at pos.
func (t *yamlText) atDash() bool {
	return t.in[t.pos] == '-' && isBlank(t.in[t.pos+1])
}

// atKey reports whether a plain key of a block mapping begins at pos.
func (t *yamlText) atKey() bool {
	if !isPlainStart(t.in, t.pos) {
		return false
	}
	_, end := endOfPlain(t.in, t.pos)
	return t.in[end] == ':' && isBlank(t.in[end+1])
}

// key writes the plain key at pos, and moves to its colon. It declines keys that are not strings.
func (t *yamlText) key() bool {
	start, outStart := t.pos, len(t.out)
	if !isPlainStart(t.in, start) {
		return false
	}
	end, stop := endOfPlain(t.in, start)
	t.pos = end
	return end == stop && t.in[end] == ':' && isBlank(t.in[end+1]) && end-start <= maxTextKey &&
		t.plainText(start, end) && t.out[outStart] == '"'
}

// emptyCollection writes the empty flow collection at pos, and moves behind it.
func (t *yamlText) emptyCollection() bool {
	text := t.in[t.pos : t.pos+2]
	t.out = append(t.out, text...)
	t.pos += 2
	return string(text) == "[]" || string(text) == "{}"
}
