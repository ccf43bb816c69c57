package edit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// A value is a JSON or YAML value with its place in a text. Offsets are bytes.
type value struct {
	kind       kind
	flow       bool   // written as in JSON: in brackets, or a scalar
	start, end int    // end is behind the last line that has content, in YAML's block style
	column     int    // of the keys or dashes of a block, from 0
	text       string // of a scalar, decoded
	members    []member
	items      []item
}

type kind uint8

const (
	scalar kind = iota
	object
	list
)

// A member of an object begins at its key, and an item of a list at its dash, or at its value.
type member struct {
	key        string
	start, end int
	value      *value
}

type item struct {
	start, end int
	value      *value
}

// member returns the place of a key among the members, or -1. The case of keys is ignored, as in operator-registry.
func (v *value) member(key string) int {
	for i, m := range v.members {
		if strings.EqualFold(m.key, key) {
			return i
		}
	}
	return -1
}

// get returns the value of a key, or nil.
func (v *value) get(key string) *value {
	if v == nil || v.kind != object {
		return nil
	}
	if i := v.member(key); i >= 0 {
		return v.members[i].value
	}
	return nil
}

// checkKeys returns an error if a key occurs twice: readers differ in which one counts.
func (v *value) checkKeys() error {
	seen := map[string]bool{}
	for _, m := range v.members {
		if seen[strings.ToLower(m.key)] {
			return fmt.Errorf("key %q occurs twice", m.key)
		}
		seen[strings.ToLower(m.key)] = true
	}
	return nil
}

// string returns the text of a scalar, or "".
func (v *value) string() string {
	if v == nil || v.kind != scalar {
		return ""
	}
	return v.text
}

// jsonParser finds the places of values in JSON.
type jsonParser struct {
	text []byte
	base int // of the document
	dec  *json.Decoder
}

// parseJSON parses the object that begins at an offset.
func parseJSON(text []byte, base int) (*value, error) {
	p := &jsonParser{text: text, base: base, dec: json.NewDecoder(bytes.NewReader(text[base:]))}
	p.dec.UseNumber()
	return p.value()
}

// token returns the next token and its place.
func (p *jsonParser) token() (token json.Token, start, end int, err error) {
	start = p.base + int(p.dec.InputOffset())
	token, err = p.dec.Token()
	end = p.base + int(p.dec.InputOffset())
	for start < end && strings.IndexByte(" \t\r\n,:", p.text[start]) >= 0 {
		start++
	}
	return token, start, end, err
}

func (p *jsonParser) value() (*value, error) {
	token, start, end, err := p.token()
	if err != nil {
		return nil, err
	}
	v := &value{flow: true, start: start, end: end}
	switch token {
	case json.Delim('{'):
		v.kind = object
	case json.Delim('['):
		v.kind = list
	default:
		v.text = scalarText(token)
		return v, nil
	}
	for p.dec.More() {
		if v.kind == list {
			element, err := p.value()
			if err != nil {
				return nil, err
			}
			v.items = append(v.items, item{element.start, element.end, element})
			continue
		}
		key, start, _, err := p.token()
		if err != nil {
			return nil, err
		}
		element, err := p.value()
		if err != nil {
			return nil, err
		}
		v.members = append(v.members, member{scalarText(key), start, element.end, element})
	}
	if _, _, v.end, err = p.token(); err != nil {
		return nil, err
	}
	return v, v.checkKeys()
}

func scalarText(token json.Token) string {
	switch t := token.(type) {
	case nil:
		return ""
	case string:
		return t
	}
	return fmt.Sprint(token)
}

// errUnsupported reports YAML that cannot be changed in place.
var errUnsupported = errors.New("this YAML cannot be changed in place (an anchor, an alias, a tag, a complex key, or brackets over several " +
	"lines with comments): write it plainly")

// yamlParser finds the places of values in a YAML document.
type yamlParser struct {
	text  []byte
	lines []int // offsets
}

// parseYAML parses the document in text[start:end].
func parseYAML(text []byte, start, end int) (v *value, err error) {
	defer func() {
		if fault := recover(); fault != nil { // a panic of the library
			err = fmt.Errorf("yaml: %v", fault)
		}
	}()
	doc := text[start:end]
	dec := yaml.NewDecoder(bytes.NewReader(doc))
	var node, more yaml.Node
	if err := dec.Decode(&node); err != nil {
		return nil, err
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errUnsupported
	}
	p := &yamlParser{text: text[:end], lines: []int{start}}
	for i, c := range doc {
		if c == '\n' {
			p.lines = append(p.lines, start+i+1)
		}
	}
	return p.value(node.Content[0])
}

// offset returns the place of a node.
func (p *yamlParser) offset(n *yaml.Node) int {
	at := p.lines[n.Line-1]
	for range n.Column - 1 {
		_, size := utf8.DecodeRune(p.text[at:])
		at += size
	}
	return at
}

func (p *yamlParser) value(n *yaml.Node) (*value, error) {
	if n.Anchor != "" || n.Kind == yaml.AliasNode || n.Style&yaml.TaggedStyle != 0 {
		return nil, errUnsupported
	}
	v := &value{start: p.offset(n), flow: n.Kind == yaml.ScalarNode || n.Style&yaml.FlowStyle != 0, column: n.Column - 1}
	var err error
	switch {
	case n.Kind == yaml.ScalarNode:
		v.text = n.Value
		v.end = p.endOfScalar(n, v.start)
	case n.Kind == yaml.MappingNode:
		v.kind = object
		err = p.members(n, v)
	default:
		v.kind = list
		err = p.items(n, v)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case v.flow && v.kind != scalar:
		return v, p.closeFlow(v)
	case v.kind == object:
		v.end = v.members[len(v.members)-1].end // the library makes no empty block
	case v.kind == list:
		v.end = v.items[len(v.items)-1].end
	}
	return v, nil
}

func (p *yamlParser) members(n *yaml.Node, v *value) error {
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" || key.Anchor != "" || key.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			return errUnsupported
		}
		element, err := p.value(n.Content[i+1])
		if err != nil {
			return err
		}
		m := member{key.Value, p.offset(key), element.end, element}
		if !v.flow {
			dashes := element.kind == list && !element.flow && element.column == v.column
			m.end = max(element.end, p.endOfBlock(m.start, v.column, dashes))
		}
		v.members = append(v.members, m)
	}
	return v.checkKeys()
}

func (p *yamlParser) items(n *yaml.Node, v *value) error {
	for _, child := range n.Content {
		element, err := p.value(child)
		if err != nil {
			return err
		}
		it := item{element.start, element.end, element}
		if !v.flow {
			// The dash is on the line of the value, or on one before.
			it.start = bytes.LastIndexByte(p.text[:element.start], '\n') + 1 + v.column
			for it.start < v.start || it.start >= len(p.text) || p.text[it.start] != '-' {
				before := bytes.LastIndexByte(p.text[:max(it.start-v.column-1, 0)], '\n') + 1 + v.column
				if before >= it.start {
					return errUnsupported
				}
				it.start = before
			}
			it.end = max(element.end, p.endOfBlock(it.start, v.column, false))
		}
		v.items = append(v.items, it)
	}
	return nil
}

// endOfScalar returns the end of a scalar that is on one line. Of others, endOfBlock has the end.
func (p *yamlParser) endOfScalar(n *yaml.Node, start int) int {
	switch {
	case n.Style&yaml.SingleQuotedStyle != 0:
		for i := start + 1; i < len(p.text); i++ {
			if p.text[i] == '\'' {
				if i+1 < len(p.text) && p.text[i+1] == '\'' {
					i++
					continue
				}
				return i + 1
			}
		}
	case n.Style&yaml.DoubleQuotedStyle != 0:
		for i := start + 1; i < len(p.text); i++ {
			if p.text[i] == '\\' {
				i++
			} else if p.text[i] == '"' {
				return i + 1
			}
		}
	case bytes.HasPrefix(p.text[start:], []byte(n.Value)):
		return start + len(n.Value)
	}
	return start
}

// closeFlow finds the bracket that ends a value, and so its end.
func (p *yamlParser) closeFlow(v *value) error {
	at, closing := v.start+1, byte('}')
	if v.kind == list {
		closing = ']'
		for _, it := range v.items {
			at = it.end
		}
	}
	for _, m := range v.members {
		at = m.end
	}
	for ; at < len(p.text); at++ {
		switch c := p.text[at]; {
		case c == closing:
			v.end = at + 1
			return nil
		case strings.IndexByte(" \t\r\n,", c) < 0:
			return errUnsupported
		}
	}
	return errUnsupported
}

// endOfBlock returns the end of the last line that belongs to what begins at start in a block of that column: all lines that
// are indented more, and with dashes also those that begin with a dash there.
func (p *yamlParser) endOfBlock(start, column int, dashes bool) int {
	end := lineEnd(p.text, start)
	for at := end + 1; at < len(p.text); at = lineEnd(p.text, at) + 1 {
		line := p.text[at:lineEnd(p.text, at)]
		rest := bytes.TrimLeft(line, " ")
		indent := len(line) - len(rest)
		rest = bytes.TrimRight(rest, "\r")
		switch {
		case len(rest) == 0, rest[0] == '#' && indent <= column:
			continue // belongs to what follows
		case indent > column, dashes && indent == column && (string(rest) == "-" || bytes.HasPrefix(rest, []byte("- "))):
			end = at + len(bytes.TrimRight(line, "\r"))
		default:
			return end
		}
	}
	return end
}

// lineEnd returns the place of the newline that ends the line at an offset, or the end of the text.
func lineEnd(text []byte, at int) int {
	if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i
	}
	return len(text)
}
