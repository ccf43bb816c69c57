package scan

import (
	"encoding/binary"
	"math/bits"
)

// Each of the methods below begins at a position of the window and returns the one behind what it passed over, or -1
// where that is not what encoding/json accepts.

// object passes over an object.
func (s *splitter) object(i int) int {
	if s.buf[i] != '{' {
		return -1
	}
	b, now, after := s.buf, wantValue, afterElement
	for {
		switch actionOf[(int(now)*classes+int(classOf[b[i]]))%len(actionOf)] {
		case passSpace:
			i = s.space(i)
		case passString:
			i, now = s.str(i+1), after
		case passScalar:
			i, now = s.scalar(i), after
		case passKey:
			i, now = s.str(i+1), wantColon
		case passColon:
			i, now = i+1, wantValue
		case passComma:
			i, now = i+1, after-2
		case openObject:
			i, now = s.open(i, after), wantKeyOrEnd
			after = afterMember
		case openArray:
			i, now = s.open(i, after), wantElementOrEnd
			after = afterElement
		case closeContainer:
			after = s.close()
			i, now = i+1, after
			if len(s.parents) == 0 {
				return i
			}
		default:
			i = s.more(i)
		}
		if i < 0 {
			return -1
		}
	}
}

// more fills the window where it ends at i; at any other byte there is something wrong.
func (s *splitter) more(i int) int {
	if i == s.end {
		if i = s.fill(i, 1); i < s.end {
			return i
		}
	}
	return -1
}

// open enters a container; a value in its parent is followed by after.
func (s *splitter) open(i int, after state) int {
	if len(s.parents) == maxDepth {
		return -1
	}
	s.parents = append(s.parents, after)
	return i + 1
}

// close leaves a container and returns the state behind it.
func (s *splitter) close() (after state) {
	last := len(s.parents) - 1
	after = s.parents[last]
	s.parents = s.parents[:last]
	return after
}

// space copies what is before the white space at i, and passes over that.
func (s *splitter) space(i int) int {
	s.flush(i)
	i = skipSpace(s.buf, i)
	s.run = i
	return i
}

// skipSpace returns the position of the first byte from i on that is no white space; of indentation it takes eight at
// a time.
func skipSpace(b []byte, i int) int {
	const spaces = ' ' * everyByte
	for classOf[b[i]] == classSpace {
		i++
		for n := 8; n == 8; i += n {
			n = bits.TrailingZeros64(binary.LittleEndian.Uint64(b[i:])^spaces) / 8
		}
	}
	return i
}

const (
	everyByte = 0x0101010101010101 // times a byte: that byte eight times
	highBits  = 0x80 * everyByte
)

// str passes over a string, from behind its opening quote on.
func (s *splitter) str(i int) int {
	b := s.buf
	for {
		x := binary.LittleEndian.Uint64(b[i:])
		// Each of the three has the high bit of the first byte that is a quote, a backslash or a control character, and
		// perhaps of later ones; bytes that are not ASCII are masked out.
		stop := ((x ^ '"'*everyByte) - everyByte) | ((x ^ '\\'*everyByte) - everyByte) | (x - ' '*everyByte)
		stop &= ^x & highBits
		if stop == 0 {
			i += 8
			continue
		}
		i += bits.TrailingZeros64(stop) / 8
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			i = s.escape(i)
		default:
			i = s.more(i)
		}
		if i < 0 {
			return -1
		}
	}
}

// escape passes over an escape in a string.
func (s *splitter) escape(i int) int {
	if i+1 == s.end {
		i = s.fill(i, 2)
	}
	switch s.buf[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		return s.unicode(i)
	}
	return -1
}

const unicodeLen = len(`\u0000`)

func (s *splitter) unicode(i int) int {
	if s.end-i < unicodeLen {
		i = s.fill(i, unicodeLen)
	}
	for _, c := range s.buf[i+2 : i+unicodeLen] { // within the pad
		if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f') {
			return -1
		}
	}
	return i + unicodeLen
}

// scalar passes over a number, true, false or null.
func (s *splitter) scalar(i int) int {
	switch s.buf[i] {
	case 't':
		return s.word(i, "true")
	case 'f':
		return s.word(i, "false")
	case 'n':
		return s.word(i, "null")
	}
	return s.number(i)
}

func (s *splitter) word(i int, word string) int {
	if s.end-i < len(word) {
		i = s.fill(i, len(word))
	}
	if string(s.buf[i:i+len(word)]) != word { // within the pad
		return -1
	}
	return i + len(word)
}

// number passes over a number (RFC 8259, section 6), which may be longer than the window.
func (s *splitter) number(i int) int {
	if s.buf[i] == '-' {
		i = s.step(i)
	}
	if s.buf[i] == '0' {
		i = s.step(i)
	} else if i = s.digits(i); i < 0 {
		return -1
	}
	if s.buf[i] == '.' {
		if i = s.digits(s.step(i)); i < 0 {
			return -1
		}
	}
	if s.buf[i] == 'e' || s.buf[i] == 'E' {
		i = s.step(i)
		if s.buf[i] == '+' || s.buf[i] == '-' {
			i = s.step(i)
		}
		return s.digits(i)
	}
	return i
}

// step passes over one byte. Where the input ends there is a NUL.
func (s *splitter) step(i int) int {
	if i++; i == s.end {
		i = s.fill(i, 1)
	}
	return i
}

// digits passes over one digit or more.
func (s *splitter) digits(i int) int {
	if !isDigit(s.buf[i]) {
		return -1
	}
	for isDigit(s.buf[i]) {
		i = s.step(i)
	}
	return i
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
