package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// YAML converts a JSON object to a YAML document. It keeps the order of keys and all digits of numbers.
func YAML(object []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	node, err := yamlOf(decoder)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("---\n")
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(node); err != nil {
		return nil, err
	}
	return b.Bytes(), encoder.Close()
}

func yamlOf(decoder *json.Decoder) (*yaml.Node, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Delim:
		node := &yaml.Node{Kind: map[json.Delim]yaml.Kind{'{': yaml.MappingNode, '[': yaml.SequenceNode}[t]}
		if err := fill(node, decoder); err != nil {
			return nil, err
		}
		_, err := decoder.Token() // closing delimiter
		return node, err
	case string:
		return yamlString(t), nil
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: "null"}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(token)}, nil // a number or a boolean
}

// fill adds the members of an object or array.
func fill(node *yaml.Node, decoder *json.Decoder) error {
	keys := map[string]bool{}
	for decoder.More() {
		value, err := yamlOf(decoder)
		if err != nil {
			return err
		}
		node.Content = append(node.Content, value)
		if node.Kind != yaml.MappingNode {
			continue
		}
		if keys[value.Value] {
			return fmt.Errorf("duplicate key %q in an object, which YAML does not allow: export as JSON", value.Value)
		}
		keys[value.Value] = true
		if value, err = yamlOf(decoder); err != nil {
			return err
		}
		node.Content = append(node.Content, value)
	}
	return nil
}

// plainText matches strings that need no quotes in YAML 1.1 and 1.2, except reserved words.
var plainText = regexp.MustCompile(`^[A-Za-z/_][A-Za-z0-9/_.@+-]*(:[A-Za-z0-9/_.@+-]+)*( [A-Za-z0-9/_.@+-]+)*$`)

var reserved = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}

func yamlString(text string) *yaml.Node {
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	switch {
	case plainText.MatchString(text) && !slices.Contains(reserved, strings.ToLower(text)):
	case isBlock(text):
		node.Style = yaml.LiteralStyle
	default:
		node.Style = yaml.DoubleQuotedStyle
	}
	return node
}

// isBlock reports whether a text can be written as a literal block.
func isBlock(text string) bool {
	if !strings.Contains(text, "\n") || strings.HasPrefix(text, " ") || strings.HasPrefix(text, "\n") || strings.TrimSpace(text) == "" {
		return false
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasSuffix(line, " ") || strings.ContainsFunc(line, func(r rune) bool {
			return r != ' ' && !unicode.IsGraphic(r) || r == '\uFEFF' || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)
		}) {
			return false
		}
	}
	return true
}
