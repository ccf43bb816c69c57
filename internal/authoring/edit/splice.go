package edit

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// A splice replaces text[start:end].
type splice struct {
	start, end int
	text       string
}

// apply returns a text with splices, which do not overlap.
func apply(text []byte, splices ...splice) []byte {
	slices.SortFunc(splices, func(a, b splice) int { return a.start - b.start })
	var out []byte
	at := 0
	for _, s := range splices {
		out = append(append(out, text[at:s.start]...), s.text...)
		at = s.end
	}
	return append(out, text[at:]...)
}

// removeItems removes items of a list that has others.
func removeItems(text []byte, v *value, remove func(item) bool) (splices []splice, err error) {
	kept := slices.IndexFunc(v.items, func(it item) bool { return !remove(it) })
	if v.flow {
		for i, it := range v.items[1:] {
			if bytes.IndexByte(text[v.items[i].end:it.start], '#') >= 0 {
				return nil, errUnsupported // a comment
			}
		}
		if kept > 0 {
			splices = append(splices, splice{v.items[0].start, v.items[kept].start, ""})
		}
	}
	for i, it := range v.items {
		switch {
		case !remove(it) || v.flow && i < kept:
		case v.flow:
			splices = append(splices, splice{v.items[i-1].end, it.end, ""})
		default:
			splices = append(splices, removeLines(text, it.start, it.end))
		}
	}
	return splices, nil
}

// removeLines removes the lines of text[start:end].
func removeLines(text []byte, start, end int) splice {
	start = bytes.LastIndexByte(text[:start], '\n') + 1
	return splice{start, min(lineEnd(text, end)+1, len(text)), ""}
}

// removeMember removes a member of an object that has others.
func removeMember(text []byte, v *value, i int) (splice, error) {
	m := v.members[i]
	switch {
	case v.flow && i > 0:
		return splice{v.members[i-1].end, m.end, ""}, nil
	case v.flow || i == 0 && isBehindDash(text, m.start):
		next := v.members[1].start
		if bytes.IndexByte(text[m.end:next], '#') >= 0 {
			return splice{}, errUnsupported
		}
		return splice{m.start, next, ""}, nil
	}
	return removeLines(text, m.start, m.end), nil
}

// isBehindDash reports whether the line has something before a key.
func isBehindDash(text []byte, start int) bool {
	line := bytes.LastIndexByte(text[:start], '\n') + 1
	return len(bytes.TrimLeft(text[line:start], " ")) > 0
}

// replaceScalar replaces a value on one line.
func replaceScalar(text []byte, v *value, with string) (splice, error) {
	if v.kind != scalar || v.end <= v.start || bytes.IndexByte(text[v.start:v.end], '\n') >= 0 {
		return splice{}, errUnsupported
	}
	return splice{v.start, v.end, scalarLike(text[v.start:v.end], with)}, nil
}

// scalarLike returns a string in the style of another: with its quotes, or without.
func scalarLike(old []byte, text string) string {
	quoted, _ := json.Marshal(text)
	if len(old) > 0 && old[0] == '"' {
		return string(quoted)
	}
	plain, err := yaml.Marshal(text)
	if err != nil || bytes.Count(plain, []byte("\n")) > 1 {
		return string(quoted)
	}
	return strings.TrimSuffix(string(plain), "\n")
}

// insertItem inserts an item, which is JSON, behind the ith. It is written like that one.
func insertItem(text []byte, v *value, i int, raw []byte) (splice, error) {
	at := v.items[i]
	if v.flow {
		separator := between(text, v.items, i, v.start)
		return splice{at.end, at.end, "," + separator + flowLike(text, at.value, raw, separator)}, nil
	}
	block, err := yaml.JSONToYAML(raw)
	if err != nil {
		return splice{}, err
	}
	lines := strings.Split(strings.TrimSuffix(string(block), "\n"), "\n")
	indent := strings.Repeat(" ", v.column)
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
	return splice{at.end, at.end, out.String()}, nil
}

// between returns the white space between two items of a list in brackets, or before the only one.
func between(text []byte, items []item, i, start int) string {
	if i+1 < len(items) {
		return strings.TrimPrefix(strings.TrimLeft(string(text[items[i].end:items[i+1].start]), " \t\r\n"), ",")
	}
	if i > 0 {
		return between(text, items, i-1, start)
	}
	if before := string(text[start+1 : items[0].start]); before != "" {
		return before
	}
	return " "
}

// flowLike writes JSON like another: on one line, or on several.
func flowLike(text []byte, like *value, raw []byte, separator string) string {
	if like.kind == object && len(like.members) > 0 && strings.Contains(separator, "\n") {
		inner := string(text[like.start+1 : like.members[0].start])
		outer := separator[strings.LastIndexByte(separator, '\n')+1:]
		if own := inner[strings.LastIndexByte(inner, '\n')+1:]; strings.Contains(inner, "\n") && strings.HasPrefix(own, outer) {
			var out bytes.Buffer
			if json.Indent(&out, raw, outer, strings.TrimPrefix(own, outer)) == nil {
				return out.String()
			}
		}
	}
	if bytes.Contains(text[like.start:like.end], []byte(`": `)) || bytes.Contains(text[like.start:like.end], []byte(`, "`)) {
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
