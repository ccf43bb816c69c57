package scan

import "bytes"

// quoted writes the quoted scalar at pos and moves behind it.
func (t *yamlText) quoted(quote byte) bool {
	t.out = append(t.out, '"')
	for t.pos++; ; {
		start := t.pos
		end := endOfText(t.in, start, quote)
		t.out = append(t.out, t.in[start:end]...)
		t.pos = end
		switch c := t.in[end]; {
		case c == quote:
			if c == '\'' && t.in[end+1] == c {
				t.out = append(t.out, c)
				t.pos += 2
				continue
			}
			t.out = append(t.out, '"')
			t.pos++
			return true
		case c == '\n':
			t.out = t.out[:len(t.out)-blanksBefore(t.in[start:end])]
			breaks, ok := t.skipBreaks()
			if !ok {
				return false
			}
			t.fold(breaks)
		case c == '\\' && quote == '"':
			if !t.escape() {
				return false
			}
		case c == '"' || c == '\\':
			t.out = append(t.out, '\\', c)
			t.pos++
		default: // a tab
			return false
		}
	}
}

// blanksBefore returns the number of trailing spaces of s.
func blanksBefore(s []byte) int {
	return len(s) - len(bytes.TrimRight(s, " "))
}

// skipBreaks skips line breaks in a quoted scalar, and the blanks around them, and counts them.
func (t *yamlText) skipBreaks() (breaks int, ok bool) {
	start := t.pos
	for t.in[t.pos] == '\n' {
		breaks++
		t.pos++
		if t.pos == len(t.in) {
			return 0, false
		}
		start = t.pos
		t.skipSpaces()
	}
	atIndicator := t.pos == start && (bytes.HasPrefix(t.in[start:], []byte("---")) || bytes.HasPrefix(t.in[start:], []byte("...")))
	return breaks, !atIndicator
}

// escape writes the value of the escape sequence at pos. It declines rare ones.
func (t *yamlText) escape() bool {
	c := t.in[t.pos+1]
	t.pos += 2
	switch c {
	case '"', '\\', 'n', 't':
		t.out = append(t.out, '\\', c)
		return true
	case ' ':
		t.out = append(t.out, c)
		return true
	}
	return false
}
