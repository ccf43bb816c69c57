package scan

import (
	"bytes"
	"encoding/json"
	"iter"
	"strings"
)

// The functions below walk JSON that is known to be valid and compact, such as that of a Blob, without decoding it.
// Text that is damaged nevertheless ends the walk early; no key or value is ever empty or half a string.

// WalkObject calls member for each member of the object at i, with the quoted key and the position of the value.
// member returns the position behind that value, or -1 to stop. WalkObject returns the position behind the object, or
// -1 if it was stopped or there is no object.
func WalkObject(b []byte, i int, member func(key []byte, i int) int) int {
	if i >= len(b) || b[i] != '{' {
		return -1
	}
	for i++; i < len(b) && b[i] != '}'; i = skipComma(b, i) {
		if b[i] != '"' {
			return -1
		}
		colon := SkipString(b, i)
		if colon+1 >= len(b) || b[colon] != ':' {
			return -1
		}
		end := member(b[i:colon], colon+1)
		if end <= colon+1 {
			return -1
		}
		i = end
	}
	return endOfContainer(b, i)
}

// WalkArray calls element for each value of the array at i with its position, and is WalkObject in all else.
func WalkArray(b []byte, i int, element func(i int) int) int {
	if i >= len(b) || b[i] != '[' {
		return -1
	}
	for i++; i < len(b) && b[i] != ']'; i = skipComma(b, i) {
		end := element(i)
		if end <= i {
			return -1
		}
		i = end
	}
	return endOfContainer(b, i)
}

func endOfContainer(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	return i + 1
}

// Members returns the quoted keys and the values of an object; of any other value, nothing.
func Members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		WalkObject(object, 0, func(key []byte, i int) int {
			end := SkipValue(object, i)
			if i >= end || end >= len(object) || !yield(key, object[i:end]) {
				return -1
			}
			return end
		})
	}
}

// Elements returns the values of an array; of any other value, nothing.
func Elements(array []byte) iter.Seq[[]byte] {
	return func(yield func(value []byte) bool) {
		WalkArray(array, 0, func(i int) int {
			end := SkipValue(array, i)
			if i >= end || end >= len(array) || !yield(array[i:end]) {
				return -1
			}
			return end
		})
	}
}

func skipComma(b []byte, i int) int {
	if i < len(b) && b[i] == ',' {
		i++
	}
	return i
}

// SkipString returns the position behind the string that begins at i.
func SkipString(b []byte, i int) int {
	for i++; ; i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(b)
		}
		i += n
		backslashes := 0
		for b[i-1-backslashes] == '\\' {
			backslashes++
		}
		if backslashes%2 == 0 {
			return i + 1
		}
	}
}

// SkipValue returns the position behind the value that begins at i.
func SkipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = SkipString(b, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // behind a number or word
			}
			depth--
			if depth == 0 {
				return i + 1
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}

// IsKey reports whether a quoted key is the given name, ignoring case.
func IsKey(quoted []byte, name string) bool {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return bytes.EqualFold(quoted[1:len(quoted)-1], []byte(name))
	}
	return strings.EqualFold(Unquote(quoted), name)
}

// Unquote returns the text of a JSON string.
func Unquote(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // valid, so it cannot fail; a lone surrogate becomes U+FFFD
	return s
}

// kindOf returns the kind of a JSON value with its article, for messages.
func kindOf(value []byte) string {
	if len(value) == 0 {
		return "empty"
	}
	switch value[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// CountValues returns the number of values in valid JSON, nested ones included. White space is allowed.
func CountValues(text []byte) int {
	n, opened := 1, false // each value is the first of its container, or follows a comma
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ' ', '\t', '\r', '\n':
			continue
		case '}', ']':
			opened = false // it is empty
			continue
		case ',':
			n++
		case '"':
			i = SkipString(text, i) - 1
		}
		if opened {
			n++
		}
		opened = text[i] == '{' || text[i] == '['
	}
	return n
}

// EstimateValues returns an upper limit of the number of values in JSON or YAML: it counts what may begin a value.
func EstimateValues(text []byte) int {
	n := 1
	for _, sign := range []string{"\n", ",", "[", "{", "- ", "? ", ": ", "-\t", "?\t", ":\t"} {
		n += bytes.Count(text, []byte(sign))
	}
	return n
}
