package scan

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const (
	// maxDepth limits the nesting of a YAML document, including aliases that contain themselves. encoding/json has
	// the same limit for JSON.
	maxDepth = 10000
	// maxYAMLBytes limits one YAML document, independent of the limit of a blob: its nodes take up to 160 times its
	// size in memory. The largest known blob has 2.4 MB.
	maxYAMLBytes = 4 << 20
	// maxAliasBytes limits the expansion of the aliases of one document, which can be exponential. Catalogs use few
	// aliases.
	maxAliasBytes = 1 << 20
	// maxMerges limits the merge keys of one document plus the pairs that they add. Merge keys can nest
	// exponentially and in cycles.
	maxMerges = 100000
	// maxDigits limits the text of a number to convert, because conversion takes quadratic time.
	maxDigits = 1000
)

// decodeYAML decodes one document. It returns a panic of the library as an error: an untrusted file must not end
// the process.
func decodeYAML(dec *yaml.Decoder, doc *yaml.Node) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: %v", r)
		}
	}()
	return dec.Decode(doc)
}

// yamlWriter writes a YAML document as compact JSON. Scalars are resolved as in operator-registry, which reads
// YAML 1.1: yes and on are booleans, dates are strings. Unlike there, numbers keep their digits.
type yamlWriter struct {
	out  []byte
	src  *boundedReader // has the limit
	tags *tagReader     // may be nil

	aliases    int // nesting depth of aliases
	aliasStart int // start of the outermost alias in out
	aliasBytes int // size of the earlier expansions
	merges     int // merge keys resolved, plus the pairs that they added
}

func (w *yamlWriter) reset() {
	w.out, w.aliases, w.aliasBytes, w.merges = w.out[:0], 0, 0, 0
}

// check enforces the limits before node n is written.
func (w *yamlWriter) check(n *yaml.Node, depth int) error {
	switch {
	case depth > maxDepth:
		return &Error{Line: n.Line, Err: fmt.Errorf("nesting exceeds the limit of %d", maxDepth)}
	case int64(len(w.out)) > w.src.max:
		return &Error{Line: n.Line, Err: w.src.errTooLarge()}
	case w.aliases > 0 && w.aliasBytes+len(w.out)-w.aliasStart > maxAliasBytes:
		return &Error{Line: n.Line, Err: fmt.Errorf("the aliases of the document exceed the limit of %d bytes when expanded", maxAliasBytes)}
	}
	return nil
}

func (w *yamlWriter) write(n *yaml.Node, depth int) error {
	if err := w.check(n, depth); err != nil {
		return err
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return w.write(n.Content[0], depth+1)
	case yaml.MappingNode:
		return w.mapping(n, depth)
	case yaml.SequenceNode:
		return w.sequence(n, depth)
	case yaml.AliasNode:
		return w.alias(n, depth)
	default:
		return w.scalar(n)
	}
}

func (w *yamlWriter) alias(n *yaml.Node, depth int) error {
	if w.aliases == 0 {
		w.aliasStart = len(w.out)
	}
	w.aliases++
	err := w.write(n.Alias, depth+1)
	w.aliases--
	if w.aliases == 0 {
		w.aliasBytes += len(w.out) - w.aliasStart
	}
	return err
}

func (w *yamlWriter) sequence(n *yaml.Node, depth int) error {
	w.out = append(w.out, '[')
	for i, item := range n.Content {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if err := w.write(item, depth+1); err != nil {
			return err
		}
	}
	w.out = append(w.out, ']')
	return nil
}

func (w *yamlWriter) mapping(n *yaml.Node, depth int) error {
	pairs, err := w.mergedPairs(n)
	if err != nil {
		return err
	}
	w.out = append(w.out, '{')
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if err := w.key(pairs[i]); err != nil {
			return err
		}
		w.out = append(w.out, ':')
		if err := w.write(pairs[i+1], depth+1); err != nil {
			return err
		}
	}
	w.out = append(w.out, '}')
	return nil
}

// mergedPairs returns the keys and values of a mapping with its merge keys ("<<",
// https://yaml.org/type/merge.html) resolved. Keys of the mapping itself take precedence, then those of earlier
// merged mappings.
func (w *yamlWriter) mergedPairs(n *yaml.Node) ([]*yaml.Node, error) {
	merges := false
	for i := 0; i < len(n.Content); i += 2 {
		merges = merges || n.Content[i].ShortTag() == "!!merge"
	}
	if !merges {
		return n.Content, nil
	}
	if err := w.countMerges(n, 1); err != nil {
		return nil, err
	}
	var pairs, merged []*yaml.Node
	own := map[string]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].ShortTag() != "!!merge" {
			pairs = append(pairs, n.Content[i], n.Content[i+1])
			own[n.Content[i].Value] = true
			continue
		}
		from, err := mergeSources(n.Content[i+1])
		if err != nil {
			return nil, err
		}
		for _, m := range from {
			more, err := w.mergedPairs(m)
			if err != nil {
				return nil, err
			}
			if err := w.countMerges(m, len(more)/2); err != nil {
				return nil, err
			}
			merged = append(merged, more...)
		}
	}
	for i := 0; i < len(merged); i += 2 {
		if !own[merged[i].Value] {
			own[merged[i].Value] = true
			pairs = append(pairs, merged[i], merged[i+1])
		}
	}
	return pairs, nil
}

func (w *yamlWriter) countMerges(n *yaml.Node, count int) error {
	if w.merges += count; w.merges > maxMerges {
		return &Error{Line: n.Line, Err: fmt.Errorf("the merge keys of the document exceed the limit of %d merged pairs", maxMerges)}
	}
	return nil
}

// mergeSources returns the mappings in the value of a merge key: one, or a list.
func mergeSources(n *yaml.Node) ([]*yaml.Node, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.MappingNode {
		return []*yaml.Node{n}, nil
	}
	if n.Kind != yaml.SequenceNode {
		return nil, errMergeValue(n)
	}
	var from []*yaml.Node
	for _, item := range n.Content {
		if item.Kind == yaml.AliasNode {
			item = item.Alias
		}
		if item.Kind != yaml.MappingNode {
			return nil, errMergeValue(item)
		}
		from = append(from, item)
	}
	return from, nil
}

func errMergeValue(n *yaml.Node) error {
	return &Error{Line: n.Line, Err: errors.New("the value of a merge key must be a mapping or a list of mappings")}
}

// key writes the key of a mapping. JSON keys are strings, so other scalars are written as their text.
func (w *yamlWriter) key(n *yaml.Node) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode {
		return &Error{Line: n.Line, Err: errors.New("a key that is not a scalar has no JSON form")}
	}
	if n.ShortTag() == "!!null" && !w.tags.isTagged(n) {
		return &Error{Line: n.Line, Err: errors.New("a null key has no JSON form")}
	}
	start := len(w.out)
	if err := w.scalar(n); err != nil {
		return err
	}
	if w.out[start] != '"' {
		text := string(w.out[start:])
		w.out = appendString(w.out[:start], text)
	}
	return nil
}

func (w *yamlWriter) scalar(n *yaml.Node) error {
	if w.tags.isTagged(n) {
		w.out = appendString(w.out, n.Value)
		return nil
	}
	switch n.ShortTag() {
	case "!!null":
		w.out = append(w.out, "null"...)
	case "!!bool":
		w.out = strconv.AppendBool(w.out, yaml11Bool[n.Value] || strings.EqualFold(n.Value, "true"))
	case "!!int", "!!float":
		text, err := numberText(n.Value)
		if err != nil {
			return &Error{Line: n.Line, Err: err}
		}
		w.out = append(w.out, text...)
	case "!!binary":
		data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(n.Value), ""))
		if err != nil {
			return &Error{Line: n.Line, Err: fmt.Errorf("reading !!binary: %w", err)}
		}
		w.out = appendString(w.out, string(data))
	default:
		if b, ok := yaml11Bool[n.Value]; ok && n.Style == 0 {
			w.out = strconv.AppendBool(w.out, b)
			return nil
		}
		w.out = appendString(w.out, n.Value)
	}
	return nil
}

// yaml11Bool has the plain scalars that are booleans in YAML 1.1 and strings in YAML 1.2.
var yaml11Bool = map[string]bool{
	"y": true, "Y": true, "yes": true, "Yes": true, "YES": true, "on": true, "On": true, "ON": true,
	"n": false, "N": false, "no": false, "No": false, "NO": false, "off": false, "Off": false, "OFF": false,
}

// jsonNumber is the grammar of a number in RFC 8259, section 6.
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// numberText returns a YAML number in JSON's spelling: unchanged where JSON allows that. Other integers (other
// bases, underscores) are converted exactly, other floats (".5", "1.") to the nearest double.
func numberText(s string) (string, error) {
	if jsonNumber.MatchString(s) {
		return s, nil
	}
	if len(s) > maxDigits {
		return "", fmt.Errorf("the number %s has no JSON form and is too long to convert; put it in quotes", excerpt([]byte(s)))
	}
	plain := strings.ReplaceAll(s, "_", "")
	if i, ok := new(big.Int).SetString(strings.TrimPrefix(plain, "+"), 0); ok {
		return i.String(), nil
	}
	f, err := strconv.ParseFloat(plain, 64)
	if err != nil || f-f != 0 { // not finite
		return "", fmt.Errorf("the number %s has no JSON form; put it in quotes", s)
	}
	return strconv.FormatFloat(f, 'g', -1, 64), nil
}

// appendString appends s as a JSON string with the minimal escapes (RFC 8259, section 7).
func appendString(out []byte, s string) []byte {
	out = append(out, '"')
	for _, r := range s {
		out = appendRune(out, r)
	}
	return append(out, '"')
}

// appendRune appends a character of a JSON string.
func appendRune(out []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	switch {
	case r == '"' || r == '\\':
		return append(out, '\\', byte(r))
	case r == '\n':
		return append(out, '\\', 'n')
	case r == '\t':
		return append(out, '\\', 't')
	case r < 0x20:
		return append(out, '\\', 'u', '0', '0', hex[r>>4], hex[r&0xf])
	}
	return utf8.AppendRune(out, r)
}
