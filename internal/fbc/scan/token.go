package scan

import (
	"encoding/binary"
	"math/bits"
)

// Each method below starts at a position of the window and returns the position after the token, or -1 if
// encoding/json does not accept it.

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

// more fills the window if it ends at i. Any other byte is an error.
func (s *splitter) more(i int) int {
	if i == s.end {
		if i = s.fill(i, 1); i < s.end {
			return i
		}
	}
	return -1
}

// open enters a container. after is the state that follows it in its parent.
func (s *splitter) open(i int, after state) int {
	if len(s.parents) == maxDepth {
		return -1
	}
	s.parents = append(s.parents, after)
	return i + 1
}

// close leaves a container and returns the state after it.
func (s *splitter) close() (after state) {
	last := len(s.parents) - 1
	after = s.parents[last]
	s.parents = s.parents[:last]
	return after
}

// space flushes the bytes before the white space at i and skips it.
func (s *splitter) space(i int) int {
	s.flush(i)
	i = skipSpace(s.buf, i)
	s.run = i
	return i
}

// skipSpace returns the position of the first byte at or after i that is not white space. It compares eight
// bytes at a time, for indentation.
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
	everyByte = 0x0101010101010101 // multiplied by a byte: that byte eight times
	highBits  = 0x80 * everyByte
)

// str skips a string whose opening quote is before i.
func (s *splitter) str(i int) int {
	b := s.buf
	for {
		x := binary.LittleEndian.Uint64(b[i:])
		// Each term sets the high bit of its first match: a quote, a backslash or a control character. Later bytes may
		// match falsely. The mask excludes bytes that are not ASCII.
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
	for _, c := range s.buf[i+2 : i+unicodeLen] { // windowPad suffices
		if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f') {
			return -1
		}
	}
	return i + unicodeLen
}

// scalar skips a number, true, false or null.
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
	if string(s.buf[i:i+len(word)]) != word { // windowPad suffices
		return -1
	}
	return i + len(word)
}

// number skips a number (RFC 8259, section 6), which may be longer than the window.
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

// step skips one byte. The input is followed by a NUL.
func (s *splitter) step(i int) int {
	if i++; i == s.end {
		i = s.fill(i, 1)
	}
	return i
}

// digits skips one or more digits.
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
