package authoring

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

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
	text, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) // byte order mark
	slices.SortStableFunc(faults, func(a, b pending) int {
		return cmp.Or(cmp.Compare(a.blob.at.Line, b.blob.at.Line), cmp.Compare(a.blob.at.Offset, b.blob.at.Offset))
	})
	out := make([]Fault, len(faults))
	start, offset := point{1, 1}, int64(0) // of text in the file
	for i, p := range faults {
		if i == 0 || p.blob != faults[i-1].blob {
			skipped := before(text, start.line, offset, p.blob.at)
			text, start, offset = text[len(skipped):], start.after(skipped), offset+int64(len(skipped))
		}
		at := start
		switch line := p.blob.at.Line; {
		case line > start.line: // the YAML library also counts lines that end in "\r"
			at = point{line, 1}
		case line > 0:
			at = findYAML(text, start, p.path)
		default:
			at = start.after(text[:findJSON(text, p.path)])
		}
		p.File, p.Line, p.Column = name, at.line, at.column
		out[i] = p.Fault
	}
	return out, nil
}

// before returns the text before a blob. line and offset are those of text in the file.
func before(text []byte, line int, offset int64, at scan.Position) []byte {
	if at.Line == 0 {
		rest := text[min(at.Offset-offset, int64(len(text))):]
		return text[:len(text)-len(bytes.TrimLeft(rest, " \t\r\n"))]
	}
	n := 0
	for ; line < at.Line; line++ {
		i := bytes.IndexByte(text[n:], '\n')
		if i < 0 {
			return text
		}
		n += i + 1
	}
	return text[:n]
}

// point is a position in a text: line and column in characters, both from 1.
type point struct{ line, column int }

// after returns the end of a text that begins at p.
func (p point) after(text []byte) point {
	last := bytes.LastIndexByte(text, '\n')
	if last < 0 {
		return point{p.line, p.column + utf8.RuneCount(text)}
	}
	return point{p.line + bytes.Count(text, []byte("\n")), 1 + utf8.RuneCount(text[last+1:])}
}

// findJSON returns the offset of the value at path, or of its closest parent.
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

// findYAML returns the position of the value at path, or of its closest parent.
func findYAML(text []byte, start point, path []any) (at point) {
	defer func() {
		if recover() != nil { // a panic of the library costs only the line
			at = start
		}
	}()
	if len(path) == 0 {
		return start
	}
	if end := bytes.Index(text, []byte("\n---")); end >= 0 {
		text = text[:end+1]
	}
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
