package scan

// blockScalar writes the literal or folded scalar whose header is at pos, in a collection in column n, and goes on to
// the next content.
func (t *yamlText) blockScalar(n int) bool {
	folded := t.in[t.pos] == '>'
	indent, chomp, ok := t.blockHeader(n)
	if !ok {
		return false
	}
	t.out = append(t.out, '"')
	empty, wasBlank, breaks := true, true, 0 // breaks are those not written yet
	for t.pos < len(t.in) {
		start := t.pos
		for t.pos < start+indent && t.in[t.pos] == ' ' {
			t.pos++
		}
		if t.in[t.pos] == '\n' {
			breaks++
			t.pos++
			continue
		}
		if t.pos < start+indent {
			t.pos = start
			break
		}
		blank := isBlank(t.in[t.pos])
		if folded && !wasBlank && !blank {
			t.fold(breaks)
		} else {
			t.breaks(breaks)
		}
		t.line()
		empty, wasBlank, breaks = false, blank, 1
	}
	if chomp == '+' {
		t.breaks(breaks)
	} else if chomp == 0 && !empty {
		t.breaks(1)
	}
	t.out = append(t.out, '"')
	ends := t.pos == len(t.in)
	return t.nextLine() && !(ends && t.cut) // then the newline that was added is in the text
}

// line writes the rest of the line at pos and goes behind its end.
func (t *yamlText) line() {
	for {
		end := endOfText(t.in, t.pos, '\n')
		t.out = append(t.out, t.in[t.pos:end]...)
		t.pos = end + 1
		if t.in[end] == '\n' {
			return
		}
		t.out = appendRune(t.out, rune(t.in[end]))
	}
}

// blockHeader reads the header of a block scalar in a collection in column n, and goes to the line behind it: the
// indentation, which is that of the text if it is not given, and the chomping indicator, 0 if there is none.
func (t *yamlText) blockHeader(n int) (indent int, chomp byte, ok bool) {
	for t.pos++; ; t.pos++ {
		switch c := t.in[t.pos]; {
		case (c == '+' || c == '-') && chomp == 0:
			chomp = c
		case c >= '1' && c <= '9' && indent == 0:
			indent = n + int(c-'0')
		default:
			t.skipSpaces()
			if t.in[t.pos] != '\n' {
				return 0, 0, false
			}
			t.pos++
			if indent == 0 {
				indent, ok = t.blockIndent(n)
				return indent, chomp, ok
			}
			return indent, chomp, true
		}
	}
}

// blockIndent finds the indentation of the block scalar at pos: that of its first line that is not empty. There is an
// indentation even if there is no such line.
func (t *yamlText) blockIndent(n int) (indent int, ok bool) {
	most := 0 // the most that an empty line before it has
	for i := t.pos; i < len(t.in); i++ {
		start := i
		for t.in[i] == ' ' {
			i++
		}
		if t.in[i] != '\n' {
			return max(n+1, i-start), t.in[i] != '\t' && most <= i-start
		}
		most = max(most, i-start)
	}
	return n + 1, most == 0
}
