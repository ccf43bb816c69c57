package scan

import (
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
