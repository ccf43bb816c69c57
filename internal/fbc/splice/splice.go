// Package splice finds the places of values in JSON and YAML, and replaces parts of a text. All other bytes stay.
package splice

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// A Patch replaces text[Start:End].
type Patch struct {
	Start, End int
	Text       string
}

// Apply returns a text with patches, which do not overlap.
func Apply(text []byte, patches ...Patch) []byte {
	slices.SortFunc(patches, func(a, b Patch) int { return a.Start - b.Start })
	var out []byte
	at := 0
	for _, s := range patches {
		out = append(append(out, text[at:s.Start]...), s.Text...)
		at = s.End
	}
	return append(out, text[at:]...)
}

// RemoveItems removes items of a list that has others.
func RemoveItems(text []byte, v *Value, remove func(Item) bool) (patches []Patch, err error) {
	kept := slices.IndexFunc(v.Items, func(it Item) bool { return !remove(it) })
	if v.Flow {
		for i, it := range v.Items[1:] {
			if bytes.IndexByte(text[v.Items[i].End:it.Start], '#') >= 0 {
				return nil, ErrUnsupported // a comment
			}
		}
		if kept > 0 {
			patches = append(patches, Patch{v.Items[0].Start, v.Items[kept].Start, ""})
		}
	}
	for i, it := range v.Items {
		switch {
		case !remove(it) || v.Flow && i < kept:
		case v.Flow:
			patches = append(patches, Patch{v.Items[i-1].End, it.End, ""})
		default:
			patches = append(patches, removeLines(text, it.Start, it.End))
		}
	}
	return patches, nil
}

// removeLines removes the lines of text[start:end].
func removeLines(text []byte, start, end int) Patch {
	start = bytes.LastIndexByte(text[:start], '\n') + 1
	return Patch{start, min(LineEnd(text, end)+1, len(text)), ""}
}

// RemoveMember removes a member of an object that has others.
func RemoveMember(text []byte, v *Value, i int) (Patch, error) {
	m := v.Members[i]
	switch {
	case v.Flow && i > 0:
		return Patch{v.Members[i-1].End, m.End, ""}, nil
	case v.Flow || i == 0 && isBehindDash(text, m.Start):
		next := v.Members[1].Start
		if bytes.IndexByte(text[m.End:next], '#') >= 0 {
			return Patch{}, ErrUnsupported
		}
		return Patch{m.Start, next, ""}, nil
	}
	return removeLines(text, m.Start, m.End), nil
}

// isBehindDash reports whether the line has something before a key.
func isBehindDash(text []byte, start int) bool {
	line := bytes.LastIndexByte(text[:start], '\n') + 1
	return len(bytes.TrimLeft(text[line:start], " ")) > 0
}

// ReplaceScalar replaces a value on one line.
func ReplaceScalar(text []byte, v *Value, with string) (Patch, error) {
	if v.Kind != Scalar || v.End <= v.Start || bytes.IndexByte(text[v.Start:v.End], '\n') >= 0 {
		return Patch{}, ErrUnsupported
	}
	return Patch{v.Start, v.End, scalarLike(text[v.Start:v.End], with)}, nil
}

// scalarLike returns a string in the style of another: with its quotes, or without. Without, it is only for YAML, and has nothing
// that ends a value within brackets.
func scalarLike(old []byte, text string) string {
	quoted, _ := Encode(text)
	if json.Valid(old) || strings.ContainsAny(text, ",[]{}") {
		return string(quoted)
	}
	plain, err := yaml.Marshal(text)
	if err != nil || bytes.Count(plain, []byte("\n")) > 1 {
		return string(quoted)
	}
	return strings.TrimSuffix(string(plain), "\n")
}

// InsertItem inserts an item, which is JSON, behind the ith. It is written like that one.
func InsertItem(text []byte, v *Value, i int, raw []byte) (Patch, error) {
	at := v.Items[i]
	if v.Flow {
		separator := between(text, v.Items, i, v.Start)
		return Patch{at.End, at.End, "," + separator + flowLike(text, at.Value, raw, separator)}, nil
	}
	block, err := yaml.JSONToYAML(raw)
	if err != nil {
		return Patch{}, err
	}
	lines := strings.Split(strings.TrimSuffix(string(block), "\n"), "\n")
	indent := strings.Repeat(" ", v.Column)
	var out strings.Builder
	for n, line := range lines {
		out.WriteString("\n" + indent)
		if n == 0 {
			out.WriteString("- ")
		} else {
			out.WriteString("  ")
		}
		out.WriteString(line)
	}
	return Patch{at.End, at.End, out.String()}, nil
}

// between returns the white space between two items of a list in brackets, or before the only one.
func between(text []byte, items []Item, i, start int) string {
	if i+1 < len(items) {
		return strings.TrimPrefix(strings.TrimLeft(string(text[items[i].End:items[i+1].Start]), " \t\r\n"), ",")
	}
	if i > 0 {
		return between(text, items, i-1, start)
	}
	if before := string(text[start+1 : items[0].Start]); before != "" {
		return before
	}
	return " "
}

// flowLike writes JSON like another: on one line, or on several.
func flowLike(text []byte, like *Value, raw []byte, separator string) string {
	if like.Kind == Object && len(like.Members) > 0 && strings.Contains(separator, "\n") {
		inner := string(text[like.Start+1 : like.Members[0].Start])
		outer := separator[strings.LastIndexByte(separator, '\n')+1:]
		if own := inner[strings.LastIndexByte(inner, '\n')+1:]; strings.Contains(inner, "\n") && strings.HasPrefix(own, outer) {
			var out bytes.Buffer
			if json.Indent(&out, raw, outer, strings.TrimPrefix(own, outer)) == nil {
				return out.String()
			}
		}
	}
	if bytes.Contains(text[like.Start:like.End], []byte(`": `)) || bytes.Contains(text[like.Start:like.End], []byte(`, "`)) {
		return spaced(raw)
	}
	return string(raw)
}

// spaced returns compact JSON with a space behind commas and colons.
func spaced(compact []byte) string {
	var out strings.Builder
	inString := false
	for i := 0; i < len(compact); i++ {
		c := compact[i]
		out.WriteByte(c)
		switch {
		case inString && c == '\\':
			i++
			out.WriteByte(compact[i])
		case c == '"':
			inString = !inString
		case !inString && (c == ',' || c == ':'):
			out.WriteByte(' ')
		}
	}
	return out.String()
}

// InsertMember inserts a member behind the ith one of an object.
func InsertMember(text []byte, v *Value, i int, key string, with any) (Patch, error) {
	at := v.Members[i].End
	if !v.Flow {
		block, err := yaml.Marshal(map[string]any{key: with})
		if err != nil {
			return Patch{}, err
		}
		start := "\n" + strings.Repeat(" ", v.Column)
		return Patch{at, at, start + strings.ReplaceAll(strings.TrimSuffix(string(block), "\n"), "\n", start)}, nil
	}
	raw, err := Encode(with)
	if err != nil {
		return Patch{}, err
	}
	separator := string(text[v.Start+1 : v.Members[0].Start])
	if i+1 < len(v.Members) {
		separator = strings.TrimPrefix(strings.TrimLeft(string(text[at:v.Members[i+1].Start]), " \t\r\n"), ",")
	}
	if strings.TrimSpace(separator) != "" {
		return Patch{}, ErrUnsupported // a comment
	}
	colon := ": "
	if value := v.Members[i].Value.Start; value > 0 && text[value-1] == ':' {
		colon = ":"
	} else {
		raw = []byte(spaced(raw))
	}
	if separator == "" && colon == ": " {
		separator = " "
	}
	return Patch{at, at, "," + separator + `"` + key + `"` + colon + string(raw)}, nil
}

// InsertFirst inserts an item, which is JSON, before the first. It is written like that one.
func InsertFirst(text []byte, v *Value, raw []byte) (Patch, error) {
	first := v.Items[0]
	if v.Flow {
		separator := between(text, v.Items, 0, v.Start)
		return Patch{first.Start, first.Start, flowLike(text, first.Value, raw, separator) + "," + separator}, nil
	}
	s, err := InsertItem(text, v, 0, raw)
	if err != nil {
		return Patch{}, err
	}
	lines := strings.TrimPrefix(s.Text, "\n"+strings.Repeat(" ", v.Column)) + "\n" + strings.Repeat(" ", v.Column)
	return Patch{first.Start, first.Start, lines}, nil
}

// Encode returns a value as compact JSON, with <, > and & as they are.
func Encode(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(out.Bytes()), nil
}
