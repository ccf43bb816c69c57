package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"os"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// blob is an object of a file-based catalog as its author wrote it.
type blob struct {
	Schema  string `json:"schema"`
	Package string `json:"package"`
	Name    string `json:"name"`

	file string
	raw  []byte // the author's JSON, or JSON converted from YAML that keeps the text of numbers
	yaml bool
}

// readCatalog reads every blob of a directory, in the order of fs.WalkDir and, within a file, in order. It is an
// independent implementation of https://olm.operatorframework.io/docs/reference/file-based-catalogs/. It supports
// the .indexignore files of the samples: names and globs of names, in the root.
func readCatalog(dir string) ([]blob, error) {
	root := os.DirFS(dir)
	ignored, err := readIgnored(root)
	if err != nil {
		return nil, err
	}
	var blobs []blob
	err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == ".indexignore" || ignored(entry.Name()) {
			return err
		}
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		found, err := parseFile(content)
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		for i := range found {
			found[i].file = name
		}
		blobs = append(blobs, found...)
		return nil
	})
	return blobs, err
}

func readIgnored(root fs.FS) (func(string) bool, error) {
	content, err := fs.ReadFile(root, ".indexignore")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	patterns := strings.Fields(stripComments(string(content)))
	return func(name string) bool {
		for _, p := range patterns {
			if ok, _ := path.Match(p, name); ok {
				return true
			}
		}
		return false
	}, nil
}

func stripComments(s string) string {
	var kept []string
	for line := range strings.Lines(s) {
		if !strings.HasPrefix(line, "#") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

func parseFile(content []byte) ([]blob, error) {
	isYAML := !bytes.HasPrefix(bytes.TrimSpace(content), []byte("{"))
	documents := jsonDocuments
	if isYAML {
		documents = yamlDocuments
	}
	raws, err := documents(content)
	if err != nil {
		return nil, err
	}
	blobs := make([]blob, 0, len(raws))
	for _, raw := range raws {
		b := blob{raw: raw, yaml: isYAML}
		if err := json.Unmarshal(raw, &b); err != nil {
			return nil, err
		}
		blobs = append(blobs, b)
	}
	return blobs, nil
}

func jsonDocuments(content []byte) (raws [][]byte, err error) {
	decoder := json.NewDecoder(bytes.NewReader(content))
	for {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return raws, nil
		} else if err != nil {
			return nil, err
		}
		raws = append(raws, raw)
	}
}

func yamlDocuments(content []byte) (raws [][]byte, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	for {
		var document yaml.Node
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return raws, nil
		} else if err != nil {
			return nil, err
		}
		value, err := plain(document.Content[0])
		if err != nil {
			return nil, err
		}
		if value == nil {
			continue // a document without content
		}
		raw, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		raws = append(raws, raw)
	}
}

// plain converts a YAML node to JSON values: dates stay text, and numbers keep their text.
func plain(node *yaml.Node) (any, error) {
	switch node.Kind {
	case yaml.AliasNode:
		return plain(node.Alias)
	case yaml.SequenceNode:
		list := make([]any, len(node.Content))
		for i, item := range node.Content {
			value, err := plain(item)
			if err != nil {
				return nil, err
			}
			list[i] = value
		}
		return list, nil
	case yaml.MappingNode:
		object := map[string]any{}
		for i := 0; i < len(node.Content); i += 2 {
			if node.Content[i].ShortTag() == "!!merge" {
				return nil, fmt.Errorf("line %d: merge keys are beyond this reader", node.Line)
			}
			value, err := plain(node.Content[i+1])
			if err != nil {
				return nil, err
			}
			object[node.Content[i].Value] = value
		}
		return object, nil
	default:
		return plainScalar(node)
	}
}

func plainScalar(node *yaml.Node) (any, error) {
	switch node.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool":
		var b bool
		err := node.Decode(&b)
		return b, err
	case "!!int", "!!float":
		if json.Valid([]byte(node.Value)) {
			return json.Number(node.Value), nil
		}
		n, ok := new(big.Int).SetString(node.Value, 0)
		if !ok {
			return nil, fmt.Errorf("line %d: number %s is beyond this reader", node.Line, node.Value)
		}
		return json.Number(n.String()), nil
	default:
		return node.Value, nil
	}
}

// decodeExact decodes one JSON value and keeps the text of numbers.
func decodeExact(raw []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return value, nil
}
