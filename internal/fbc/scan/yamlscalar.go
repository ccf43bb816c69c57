package scan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// The classes of a byte in YAML.
const (
	classBanned     = 1 << iota // invalid, or a line break other than "\n"
	classIndicator              // cannot begin a plain scalar if a blank follows, or at all
	classPlainStop              // may end a plain scalar, or needs an escape
	classMayResolve             // may begin a plain scalar that is not a string
	classNumber                 // may be part of a number
)

var yamlClass = newYAMLClasses()

func newYAMLClasses() (class [256]uint8) {
	add := func(bytes string, bit uint8) {
		for _, c := range []byte(bytes) {
			class[c] |= bit
		}
	}
	for c := range byte(' ') {
		class[c] = classBanned | classIndicator | classPlainStop
	}
	class['\n'] &^= classBanned
	class['\t'] &^= classBanned
	class[0x7f] = classBanned
	const digits = "0123456789"
	add(" -?:,[]{}#&*!|>'\"%@`", classIndicator)
	add(":#\"\\", classPlainStop)
	add(digits+"+-.yYnNtTfFoO~<", classMayResolve)
	add(digits+"abcdefABCDEFxXoO_+-.", classNumber)
	return class
}

func isBlank(c byte) bool { return c == ' ' || c == '\n' || c == '\t' }

// fold writes the value of line breaks in a plain or quoted scalar.
func (t *yamlText) fold(breaks int) {
	if breaks == 1 {
		t.out = append(t.out, ' ')
	} else {
		t.breaks(breaks - 1)
	}
}

func (t *yamlText) breaks(n int) {
	for range n {
		t.out = append(t.out, '\\', 'n')
	}
}

// text writes a part of one line, without tabs, as part of a string.
func (t *yamlText) text(start, end int) {
	for {
		i := min(endOfText(t.in, start, '\n'), end)
		t.out = append(t.out, t.in[start:i]...)
		if i == end {
			return
		}
		t.out = append(t.out, '\\', t.in[i])
		start = i + 1
	}
}

// endOfText returns the position of the first byte at or after i that is named or needs an escape in JSON.
func endOfText(in []byte, i int, named byte) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(in); i += 8 {
		// The first zero byte of v has the first high bit in (v-ones)&^v. Later bits may be false.
		w := binary.LittleEndian.Uint64(in[i:])
		quote, slash, other := w^ones*'"', w^ones*'\\', w^ones*uint64(named)
		found := (w-ones*' ')&^w | (quote-ones)&^quote | (slash-ones)&^slash | (other-ones)&^other
		if found &= high; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for in[i] >= ' ' && in[i] != '"' && in[i] != '\\' && in[i] != named {
		i++
	}
	return i
}

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
