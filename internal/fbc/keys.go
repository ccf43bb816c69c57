package fbc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// maxKeyBytes bounds a schema, package or name: whoever indexes blobs holds all of them.
const maxKeyBytes = 4096

// keys are the three fields by which blobs are found.
type keys struct{ schema, pkg, name string }

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
	for i := 1; i < len(object) && object[i] != '}'; {
		keyEnd := skipString(object, i)
		valueEnd := skipValue(object, keyEnd+1) // +1: the colon
		if field := k.field(object[i:keyEnd]); field != nil {
			if seen[field] {
				return k, fmt.Errorf("the key %s stands twice in the blob %s", object[i:keyEnd], excerpt(object))
			}
			seen[field] = true
			value := object[keyEnd+1 : valueEnd]
			if value[0] != '"' {
				return k, fmt.Errorf("the value of %s is %s, not a string", object[i:keyEnd], kindOf(value))
			}
			if len(value) > maxKeyBytes {
				return k, fmt.Errorf("the value of %s is longer than %d bytes, the most that is accepted", object[i:keyEnd], maxKeyBytes)
			}
			*field = unquote(value)
		}
		i = valueEnd
		if i < len(object) && object[i] == ',' {
			i++
		}
	}
	return k, nil
}

// field tells where the value of a quoted key belongs, nil for all but the three.
func (k *keys) field(quoted []byte) *string {
	key := unquote(quoted)
	switch {
	case strings.EqualFold(key, "schema"):
		return &k.schema
	case strings.EqualFold(key, "package"):
		return &k.pkg
	case strings.EqualFold(key, "name"):
		return &k.name
	}
	return nil
}

// skipString returns the index behind the string that begins at i. The input is valid JSON.
func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
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
