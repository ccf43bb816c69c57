package scan

import (
	"bytes"

	"go.yaml.in/yaml/v3"
)

// isPlainStart reports whether a plain scalar may begin at i.
func isPlainStart(in []byte, i int) bool {
	c := in[i]
	return yamlClass[c]&classIndicator == 0 || (c == '-' || c == ':' || c == '?') && !isBlank(in[i+1])
}

// endOfPlain returns the end of the part of a plain scalar that begins at i, and the position of the byte that
// stops it: the end of the line, a comment, a colon, or a tab.
func endOfPlain(in []byte, i int) (end, stop int) {
	start := i
	for ; ; i++ {
		for yamlClass[in[i]]&classPlainStop == 0 {
			i++
		}
		c := in[i]
		if c < ' ' || c == ':' && isBlank(in[i+1]) || c == '#' && i > start && in[i-1] == ' ' {
			break
		}
	}
	for end = i; end > start && in[end-1] == ' '; {
		end--
	}
	return end, i
}

// plain writes a plain scalar in a collection in column n, and moves to the next content.
func (t *yamlText) plain(n int) bool {
	if !isPlainStart(t.in, t.pos) {
		return false
	}
	end, stop := endOfPlain(t.in, t.pos)
	next, breaks := t.continued(stop, n)
	if breaks == 0 {
		start := t.pos
		t.pos = end
		return t.plainText(start, end) && t.endLine()
	}
	t.out = append(t.out, '"')
	for {
		t.text(t.pos, end)
		if breaks == 0 {
			break
		}
		t.fold(breaks)
		t.pos = next
		end, stop = endOfPlain(t.in, t.pos)
		next, breaks = t.continued(stop, n)
	}
	t.out = append(t.out, '"')
	t.pos = end
	return t.endLine() // declines at a colon or tab
}

// continued returns the position at which the plain scalar continues whose line ends at stop, and the number of
// line breaks before it, 0 if it ends there. Continuation lines have a greater column than the collection.
func (t *yamlText) continued(stop, n int) (next, breaks int) {
	for i := stop; t.in[i] == '\n'; {
		breaks++
		i++
		if i == len(t.in) {
			return 0, 0
		}
		start := i
		for t.in[i] == ' ' {
			i++
		}
		if c := t.in[i]; c != '\n' {
			if i-start <= n || c == '#' {
				return 0, 0
			}
			return i, breaks
		}
	}
	return 0, 0
}

// plainText writes the value of a plain scalar on one line.
func (t *yamlText) plainText(start, end int) bool {
	s := t.in[start:end]
	switch {
	case yamlClass[s[0]]&classMayResolve == 0:
	case s[0] > '9':
		switch string(s) {
		case "true", "True", "TRUE", "y", "Y", "yes", "Yes", "YES", "on", "On", "ON":
			t.out = append(t.out, "true"...)
			return true
		case "false", "False", "FALSE", "n", "N", "no", "No", "NO", "off", "Off", "OFF":
			t.out = append(t.out, "false"...)
			return true
		case "~", "null", "Null", "NULL":
			t.out = append(t.out, "null"...)
			return true
		case "<<":
			return false
		}
	case isShortNumber(s):
		t.out = append(t.out, s...)
		return true
	case mayBeNumber(s):
		t.rare.out = t.out
		err := t.rare.scalar(&yaml.Node{Kind: yaml.ScalarNode, Value: string(s)})
		t.out = t.rare.out
		return err == nil
	}
	t.out = append(t.out, '"')
	t.text(start, end)
	t.out = append(t.out, '"')
	return true
}

// isShortNumber reports whether s is an integer or decimal fraction with the same meaning in JSON and YAML.
func isShortNumber(s []byte) bool {
	const limit = 18 // digits that always fit
	if len(s) > 0 && s[0] == '-' {
		s = s[1:]
	}
	if len(s) > limit {
		return false
	}
	whole := digits(s)
	if whole == 0 || whole > 1 && s[0] == '0' {
		return false
	}
	s = s[whole:]
	return len(s) == 0 || s[0] == '.' && len(s) > 1 && digits(s[1:]) == len(s)-1
}

// digits returns the number of leading digits of s.
func digits(s []byte) int {
	for i, c := range s {
		if c < '0' || c > '9' {
			return i
		}
	}
	return len(s)
}

// mayBeNumber reports whether s could be a number in any spelling. Versions, with two points, are not.
func mayBeNumber(s []byte) bool {
	for _, c := range s {
		if yamlClass[c]&classNumber == 0 {
			return len(s) <= len("-.inf") && bytes.IndexByte(s, '.') >= 0 // .inf and .nan
		}
	}
	return bytes.Count(s, []byte(".")) < 2
}
