package scan

// blockScalar writes the literal scalar whose header is at pos, in a collection in column n. It moves to the next
// content.
func (t *yamlText) blockScalar(n int) bool {
	indent, chomp, ok := t.blockHeader(n)
	if !ok {
		return false
	}
	t.out = append(t.out, '"')
	empty, breaks := true, 0 // breaks counts pending line breaks
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
		t.breaks(breaks)
		t.line()
		empty, breaks = false, 1
	}
	if chomp == '+' {
		t.breaks(breaks)
	} else if chomp == 0 && !empty {
		t.breaks(1)
	}
	t.out = append(t.out, '"')
	ends := t.pos == len(t.in)
	return t.nextLine() && !(ends && t.cut) // else the added newline would be part of the text
}

// line writes the rest of the line at pos and moves behind it.
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

// blockHeader reads the header of a literal scalar in a collection in column n, and moves to the next line. indent is
// the explicit indentation or that of the text. chomp is the chomping indicator, 0 without one.
func (t *yamlText) blockHeader(n int) (indent int, chomp byte, ok bool) {
	t.pos++
	if c := t.in[t.pos]; c >= '1' && c <= '9' {
		indent = n + int(c-'0')
		t.pos++
	}
	if c := t.in[t.pos]; c == '-' || c == '+' {
		chomp = c
		t.pos++
	}
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

// blockIndent returns the indentation of the block scalar at pos: that of its first nonempty line, else n+1.
func (t *yamlText) blockIndent(n int) (indent int, ok bool) {
	deepest := 0 // indentation of the empty lines before
	for i := t.pos; i < len(t.in); i++ {
		start := i
		for t.in[i] == ' ' {
			i++
		}
		if t.in[i] != '\n' {
			return max(n+1, i-start), t.in[i] != '\t' && deepest <= i-start
		}
		deepest = max(deepest, i-start)
	}
	return n + 1, deepest == 0
}
