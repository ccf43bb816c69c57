package authoring

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// locate finds the lines of pending faults and sorts all faults. It reads each file once.
func (l *linter) locate() ([]Fault, error) {
	byFile := map[string][]pending{}
	var out []Fault
	for _, p := range l.faults {
		if p.blob == nil {
			out = append(out, p.Fault)
		} else {
			byFile[p.blob.file] = append(byFile[p.blob.file], p)
		}
	}
	for name, faults := range byFile {
		located, err := locateIn(l.catalog.fsys, name, faults)
		if err != nil {
			return nil, err
		}
		out = append(out, located...)
	}
	slices.SortStableFunc(out, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(out), nil
}

// locateIn finds the lines of the faults in a file.
func locateIn(fsys fs.FS, name string, faults []pending) ([]Fault, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	slices.SortStableFunc(faults, func(a, b pending) int {
		return cmp.Or(cmp.Compare(a.blob.at.Line, b.blob.at.Line), cmp.Compare(a.blob.at.Offset, b.blob.at.Offset))
	})
	scan := newScanner(f)
	var out []Fault
	var text []byte // the blob at start
	var start point
	for i, p := range faults {
		if i == 0 || p.blob != faults[i-1].blob {
			if err := scan.to(p.blob.at); err != nil {
				return nil, fmt.Errorf("reading %s again: %w", name, err)
			}
			start, text = scan.point, nil
		}
		at := start
		if len(p.path) > 0 {
			if text == nil {
				text = textAt(f, scan.offset, p.blob.at.Line > 0)
			}
			at = find(text, start, p.blob.at.Line > 0, p.path)
		}
		p.File, p.Line, p.Column = name, at.line, at.column
		out = append(out, p.Fault)
	}
	return out, nil
}

// point is a position in a text: line and column in characters, both from 1.
type point struct{ line, column int }

// after returns the end of a text that begins at p.
func (p point) after(text []byte) point {
	for _, c := range text {
		p.pass(c)
	}
	return p
}

func (p *point) pass(c byte) {
	switch {
	case c == '\n':
		p.line, p.column = p.line+1, 1
	case c < 0x80 || c >= 0xc0: // the first byte of a character
		p.column++
	}
}

// scanner reads a file once and tracks the position.
type scanner struct {
	r      *bufio.Reader
	mark   int64 // bytes of the byte order mark
	offset int64 // in the file
	point
}

const byteOrderMark = "\xef\xbb\xbf"

func newScanner(r io.Reader) *scanner {
	s := &scanner{r: bufio.NewReader(r), point: point{1, 1}}
	if head, _ := s.r.Peek(len(byteOrderMark)); string(head) == byteOrderMark {
		_, _ = s.r.Discard(len(byteOrderMark)) // peeked before
		s.mark = int64(len(byteOrderMark))
		s.offset = s.mark
	}
	return s
}

// to advances to the beginning of a blob.
func (s *scanner) to(at scan.Position) error {
	for {
		c, err := s.r.ReadByte()
		if errors.Is(err, io.EOF) { // the YAML library also counts lines that end in "\r"
			s.point = point{max(at.Line, s.line), 1}
			return nil
		}
		if err != nil {
			return err
		}
		arrived := s.line >= at.Line
		if at.Line == 0 {
			arrived = s.offset >= s.mark+at.Offset && strings.IndexByte(" \t\r\n", c) < 0
		}
		if arrived {
			return s.r.UnreadByte()
		}
		s.offset++
		s.pass(c)
	}
}

// maxYAMLBytes limits the text of a document; catalogd accepts less.
const maxYAMLBytes = 8 << 20

// textAt returns the original text of the blob at offset, nil if that is impossible; the fault is then at its
// beginning.
func textAt(f fs.File, offset int64, isYAML bool) []byte {
	file, ok := f.(io.ReaderAt)
	if !ok {
		return nil
	}
	rest := io.NewSectionReader(file, offset, math.MaxInt64-offset)
	if !isYAML {
		var text json.RawMessage
		_ = json.NewDecoder(rest).Decode(&text) // decoded before
		return text
	}
	var text []byte
	r := bufio.NewReader(io.LimitReader(rest, maxYAMLBytes))
	for {
		line, err := r.ReadBytes('\n')
		if len(text) > 0 && bytes.HasPrefix(line, []byte("---")) {
			return text
		}
		text = append(text, line...)
		if err != nil {
			return text
		}
	}
}

// find returns the position of the value at path, or of its closest parent.
func find(text []byte, start point, isYAML bool, path []any) point {
	if isYAML {
		return findYAML(text, start, path)
	}
	return start.after(text[:findJSON(text, path)])
}

// findJSON returns the offset of the value.
func findJSON(text []byte, path []any) int {
	dec := json.NewDecoder(bytes.NewReader(text))
	at := 0
	for _, step := range path {
		if _, err := dec.Token(); err != nil || !enter(dec, step) {
			return at
		}
		at = int(dec.InputOffset())
		at += len(text[at:]) - len(bytes.TrimLeft(text[at:], " \t\r\n:,"))
	}
	return at
}

// enter advances to a member of the object or list that has just begun.
func enter(dec *json.Decoder, step any) bool {
	for i := 0; dec.More(); i++ {
		if step == i {
			return true
		}
		if key, ok := step.(string); ok {
			token, err := dec.Token()
			if text, ok := token.(string); err != nil || !ok {
				return false
			} else if strings.EqualFold(text, key) {
				return true
			}
		}
		var skipped json.RawMessage
		if dec.Decode(&skipped) != nil {
			return false
		}
	}
	return false
}

func findYAML(text []byte, start point, path []any) (at point) {
	defer func() {
		if recover() != nil { // a panic of the library costs only the line
			at = start
		}
	}()
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil || len(doc.Content) == 0 {
		return start // for example an anchor of another document
	}
	n := doc.Content[0]
	for _, step := range path {
		next := member(n, step)
		if next == nil {
			break
		}
		n = next
	}
	return point{start.line + n.Line - 1, n.Column}
}

func member(n *yaml.Node, step any) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch step := step.(type) {
	case int:
		if n.Kind == yaml.SequenceNode && step < len(n.Content) {
			return n.Content[step]
		}
	case string:
		for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
			if strings.EqualFold(n.Content[i].Value, step) {
				return n.Content[i+1]
			}
		}
	}
	return nil
}
