package splice

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

// A Value is a JSON or YAML value with its place in a text. Offsets are bytes.
type Value struct {
	Kind       Kind
	Flow       bool // written as in JSON: in brackets, or a scalar
	Start, End int  // End is behind the last line that has content, in YAML's block style
	Column     int  // of the keys or dashes of a block, from 0
	Members    []Member
	Items      []Item
	text       string // of a scalar, decoded
}

// Kind is the kind of a value.
type Kind uint8

// The kinds of values.
const (
	Scalar Kind = iota
	Object
	List
)

// A Member of an object begins at its key.
type Member struct {
	Key        string
	Start, End int
	Value      *Value
}

// An Item of a list begins at its dash, or at its value.
type Item struct {
	Start, End int
	Value      *Value
}

// Index returns the place of a key among the members, or -1. The case of keys is ignored, as in operator-registry.
func (v *Value) Index(key string) int {
	for i, m := range v.Members {
		if strings.EqualFold(m.Key, key) {
			return i
		}
	}
	return -1
}

// Get returns the value of a key, or nil.
func (v *Value) Get(key string) *Value {
	if v == nil || v.Kind != Object {
		return nil
	}
	if i := v.Index(key); i >= 0 {
		return v.Members[i].Value
	}
	return nil
}

// checkKeys returns an error if a key occurs twice: readers differ in which one counts.
func (v *Value) checkKeys() error {
	seen := map[string]bool{}
	for _, m := range v.Members {
		if seen[strings.ToLower(m.Key)] {
			return fmt.Errorf("key %q occurs twice", m.Key)
		}
		seen[strings.ToLower(m.Key)] = true
	}
	return nil
}

// Text returns the text of a scalar, or "".
func (v *Value) Text() string {
	if v == nil || v.Kind != Scalar {
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

// ParseJSON parses the object that begins at an offset.
func ParseJSON(text []byte, base int) (*Value, error) {
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

func (p *jsonParser) value() (*Value, error) {
	token, start, end, err := p.token()
	if err != nil {
		return nil, err
	}
	v := &Value{Flow: true, Start: start, End: end}
	switch token {
	case json.Delim('{'):
		v.Kind = Object
	case json.Delim('['):
		v.Kind = List
	default:
		v.text = scalarText(token)
		return v, nil
	}
	for p.dec.More() {
		if v.Kind == List {
			element, err := p.value()
			if err != nil {
				return nil, err
			}
			v.Items = append(v.Items, Item{element.Start, element.End, element})
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
		v.Members = append(v.Members, Member{scalarText(key), start, element.End, element})
	}
	if _, _, v.End, err = p.token(); err != nil {
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

// ErrUnsupported reports YAML that cannot be changed in place.
var ErrUnsupported = errors.New("this YAML cannot be changed in place (an anchor, an alias, a tag, a complex key, or brackets over several " +
	"lines with comments): write it plainly")

// yamlParser finds the places of values in a YAML document.
type yamlParser struct {
	text  []byte
	lines []int // offsets
}

// ParseYAML parses the document in text[start:end].
func ParseYAML(text []byte, start, end int) (v *Value, err error) {
	defer func() {
		if fault := recover(); fault != nil { // a panic of the library
			err = fmt.Errorf("yaml: %v", fault)
		}
	}()
	doc := text[start:end]
	if hasOtherBreaks(doc) {
		return nil, errors.New("it has a line break other than a newline (U+0085, U+2028, U+2029 or a lone carriage return): replace it")
	}
	dec := yaml.NewDecoder(bytes.NewReader(doc))
	var node, more yaml.Node
	if err := dec.Decode(&node); err != nil {
		return nil, err
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, ErrUnsupported
	}
	p := &yamlParser{text: text[:end], lines: []int{start}}
	for i, c := range doc {
		if c == '\n' {
			p.lines = append(p.lines, start+i+1)
		}
	}
	return p.value(node.Content[0])
}

// hasOtherBreaks reports whether a text has line breaks at which the YAML library counts lines, beside newlines.
func hasOtherBreaks(doc []byte) bool {
	for _, other := range []string{"\u0085", "\u2028", "\u2029"} {
		if bytes.Contains(doc, []byte(other)) {
			return true
		}
	}
	return bytes.Count(doc, []byte("\r")) != bytes.Count(doc, []byte("\r\n"))
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

func (p *yamlParser) value(n *yaml.Node) (*Value, error) {
	if n.Anchor != "" || n.Kind == yaml.AliasNode || n.Style&yaml.TaggedStyle != 0 {
		return nil, ErrUnsupported
	}
	v := &Value{Start: p.offset(n), Flow: n.Kind == yaml.ScalarNode || n.Style&yaml.FlowStyle != 0, Column: n.Column - 1}
	var err error
	switch {
	case n.Kind == yaml.ScalarNode:
		if n.Tag != "!!null" {
			v.text = n.Value
		}
		v.End = p.endOfScalar(n, v.Start)
	case n.Kind == yaml.MappingNode:
		v.Kind = Object
		err = p.members(n, v)
	default:
		v.Kind = List
		err = p.items(n, v)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case v.Flow && v.Kind != Scalar:
		return v, p.closeFlow(v)
	case v.Kind == Object:
		v.End = v.Members[len(v.Members)-1].End // the library makes no empty block
	case v.Kind == List:
		v.End = v.Items[len(v.Items)-1].End
	}
	return v, nil
}

func (p *yamlParser) members(n *yaml.Node, v *Value) error {
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" || key.Anchor != "" || key.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			return ErrUnsupported
		}
		element, err := p.value(n.Content[i+1])
		if err != nil {
			return err
		}
		m := Member{key.Value, p.offset(key), element.End, element}
		if !v.Flow {
			dashes := element.Kind == List && !element.Flow && element.Column == v.Column
			m.End = max(element.End, p.endOfBlock(m.Start, v.Column, dashes))
		}
		v.Members = append(v.Members, m)
	}
	return v.checkKeys()
}

func (p *yamlParser) items(n *yaml.Node, v *Value) error {
	for _, child := range n.Content {
		element, err := p.value(child)
		if err != nil {
			return err
		}
		it := Item{element.Start, element.End, element}
		if !v.Flow {
			// The dash is on the line of the value, or on one before.
			it.Start = bytes.LastIndexByte(p.text[:element.Start], '\n') + 1 + v.Column
			for it.Start < v.Start || it.Start >= len(p.text) || p.text[it.Start] != '-' {
				before := bytes.LastIndexByte(p.text[:max(it.Start-v.Column-1, 0)], '\n') + 1 + v.Column
				if before >= it.Start {
					return ErrUnsupported
				}
				it.Start = before
			}
			it.End = max(element.End, p.endOfBlock(it.Start, v.Column, false))
		}
		v.Items = append(v.Items, it)
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
func (p *yamlParser) closeFlow(v *Value) error {
	at, closing := v.Start+1, byte('}')
	if v.Kind == List {
		closing = ']'
		for _, it := range v.Items {
			at = it.End
		}
	}
	for _, m := range v.Members {
		at = m.End
	}
	for ; at < len(p.text); at++ {
		switch c := p.text[at]; {
		case c == closing:
			v.End = at + 1
			return nil
		case strings.IndexByte(" \t\r\n,", c) < 0:
			return ErrUnsupported
		}
	}
	return ErrUnsupported
}

// endOfBlock returns the end of the last line that belongs to what begins at start in a block of that column: all lines that
// are indented more, and with dashes also those that begin with a dash there.
func (p *yamlParser) endOfBlock(start, column int, dashes bool) int {
	end := LineEnd(p.text, start)
	for at := end + 1; at < len(p.text); at = LineEnd(p.text, at) + 1 {
		line := p.text[at:LineEnd(p.text, at)]
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

// LineEnd returns the place of the newline that ends the line at an offset, or the end of the text.
func LineEnd(text []byte, at int) int {
	if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i
	}
	return len(text)
}
