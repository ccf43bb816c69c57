package scan

import (
	"bytes"
	"io"
	"maps"

	"go.yaml.in/yaml/v3"
)

// tagReader records the positions of the tag "!" in YAML that is read through it. The tag makes a plain scalar a
// string (YAML 1.2, section 6.9.1), but the nodes of the library do not have it.
type tagReader struct {
	r      io.Reader
	tagged map[textPosition]bool // of the tag, and of an anchor before it

	at     textPosition // of the next character
	tag    textPosition // of the exclamation mark, if that is the last character
	anchor textPosition // of an anchor that may precede a tag
	inName bool         // the last character is part of that anchor
	last   [2]byte      // the last bytes
}

// textPosition is a line and a column in characters, as in yaml.Node. Both start at 1.
type textPosition struct{ line, column int }

func newTagReader(r io.Reader) *tagReader {
	return &tagReader{r: r, tagged: map[textPosition]bool{}, at: textPosition{1, 1}}
}

func (t *tagReader) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	for _, c := range p[:n] {
		t.scan(c)
	}
	if err != nil {
		t.scan('\n') // a tag at the end of the file has no successor
	}
	return n, err
}

// isTagged reports whether a node is a plain scalar with the tag "!".
func (t *tagReader) isTagged(n *yaml.Node) bool {
	return t != nil && n.Style == 0 && t.tagged[textPosition{n.Line, n.Column}]
}

// forget drops the positions before a line.
func (t *tagReader) forget(line int) {
	maps.DeleteFunc(t.tagged, func(at textPosition, _ bool) bool { return at.line < line })
}

func (t *tagReader) scan(c byte) {
	blank := isBlank(c) || c == '\r'
	if t.last[1] == '!' && (blank || c == ',') {
		t.tagged[t.tag] = true
		if t.anchor.line > 0 {
			t.tagged[t.anchor] = true
		}
	}
	switch {
	case blank:
		t.inName = false
	case c == '!' && !t.inName:
		t.tag = t.at
	case c == '&':
		t.anchor, t.inName = t.at, true
	case !t.inName:
		t.anchor = textPosition{}
	}
	t.advance(c)
}

// advance counts lines like libyaml: it also breaks them at CR, NEL, LS and PS.
func (t *tagReader) advance(c byte) {
	end := [3]byte{t.last[0], t.last[1], c}
	switch {
	case c == '\n' && t.last[1] == '\r': // counted
	case c == '\n', c == '\r', bytes.HasSuffix(end[:], []byte("\u0085")), string(end[:]) == "\u2028", string(end[:]) == "\u2029":
		t.at = textPosition{t.at.line + 1, 1}
	case c&0xc0 != 0x80: // the first byte of a character
		t.at.column++
	}
	t.last = [2]byte{t.last[1], c}
}
