package fbc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
)

// maxKeyBytes bounds a schema, package or name: whoever indexes blobs holds all of them.
const maxKeyBytes = 4096

// keys are the three fields by which blobs are found, and where the properties of a bundle lie.
type keys struct {
	schema, pkg, name string
	properties        []byte // the value of that key, nil without one
}

// keysOf reads the three fields of a compact, valid JSON object without decoding the rest of it. Like
// operator-registry it takes the keys in any case ("Schema", of old FBC templates, is "schema").
//
// It is an error when one of them is no string, or stands there twice: clients would disagree on what the blob is.
func keysOf(object []byte) (keys, error) {
	var k keys
	if len(object) == 0 || object[0] != '{' {
		return k, fmt.Errorf("the top level is %s; a catalog file is a stream of objects", kindOf(object))
	}
	seen := map[*string]bool{}
	for key, value := range members(object) {
		field := k.field(key)
		if field == nil {
			if isKey(key, "properties") {
				k.properties = value
			}
			continue
		}
		if seen[field] {
			return k, fmt.Errorf("the key %s stands twice in the blob %s", key, excerpt(object))
		}
		seen[field] = true
		if value[0] != '"' {
			return k, fmt.Errorf("the value of %s is %s, not a string", key, kindOf(value))
		}
		if len(value) > maxKeyBytes {
			return k, fmt.Errorf("the value of %s is longer than %d bytes, the most that is accepted", key, maxKeyBytes)
		}
		*field = unquote(value)
	}
	return k, nil
}

// field tells where the value of a quoted key belongs, nil for all but the three.
func (k *keys) field(quoted []byte) *string {
	switch {
	case isKey(quoted, "schema"):
		return &k.schema
	case isKey(quoted, "package"):
		return &k.pkg
	case isKey(quoted, "name"):
		return &k.name
	}
	return nil
}

// isKey tells whether a quoted key is the one of a name, in any case.
func isKey(quoted []byte, name string) bool {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return bytes.EqualFold(quoted[1:len(quoted)-1], []byte(name))
	}
	return strings.EqualFold(unquote(quoted), name)
}

// members walks the quoted keys and the values of a compact, valid JSON object; of any other value there are none. Where the text turns
// out to be no valid JSON the walk ends: no key or value is ever empty, or half a string.
func members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		if len(object) == 0 || object[0] != '{' {
			return
		}
		for i := 1; i < len(object) && object[i] != '}'; {
			keyEnd := skipString(object, i)
			if object[i] != '"' || keyEnd >= len(object) || object[keyEnd] != ':' {
				return
			}
			valueEnd := skipValue(object, keyEnd+1) // +1: the colon
			if !isBetween(keyEnd+1, valueEnd, object) || !yield(object[i:keyEnd], object[keyEnd+1:valueEnd]) {
				return
			}
			i = skipComma(object, valueEnd)
		}
	}
}

// elements walks the values of a compact, valid JSON array; of any other value there are none. It ends as members does.
func elements(array []byte) iter.Seq[[]byte] {
	return func(yield func(value []byte) bool) {
		if len(array) == 0 || array[0] != '[' {
			return
		}
		for i := 1; i < len(array) && array[i] != ']'; {
			end := skipValue(array, i)
			if !isBetween(i, end, array) || !yield(array[i:end]) {
				return
			}
			i = skipComma(array, end)
		}
	}
}

// isBetween tells whether a value from start to end is one, and something follows it in the object or list that it is in. In valid JSON
// that is so.
func isBetween(start, end int, within []byte) bool { return start < end && end < len(within) }

func skipComma(b []byte, i int) int {
	if i < len(b) && b[i] == ',' {
		i++
	}
	return i
}

// skipString returns the index behind the string that begins at i. The input is valid JSON.
func skipString(b []byte, i int) int {
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

// skipValue returns the index behind the value that begins at i. The input is valid, compact JSON.
func skipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = skipString(b, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // a number or word that ended the object
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

// unquote gives the text of a JSON string.
func unquote(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // valid, so it cannot fail; a lone surrogate becomes U+FFFD
	return s
}

// kindOf names the kind of a JSON value for people.
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
