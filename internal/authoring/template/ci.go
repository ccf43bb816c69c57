package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/operator-catalogs/catalogd/internal/fbc/scan"
)

// Mapping is a template, and the catalogs that are rendered from it.
type Mapping struct {
	Template string   `json:"template_name"` // a file in the directory catalog-templates beside ci.yaml
	Catalogs []string `json:"catalog_names"` // directories in catalogs
	Type     string   `json:"type"`          // schema of the template; may be empty
}

// IsCI reports whether a file is a ci.yaml of operator-pipelines instead of a template: it has fbc, and no schema.
func IsCI(text []byte) bool {
	doc, err := document(text)
	if err != nil {
		return false
	}
	found := false
	for key := range scan.Members(doc) {
		if scan.IsKey(key, "schema") {
			return false
		}
		found = found || scan.IsKey(key, "fbc")
	}
	return found
}

// ParseCI returns the mappings in a ci.yaml (operator-pipelines, docs/users/fbc_workflow.md). file is its name for errors. Each catalog
// has one template, as operator-pipelines demands.
func ParseCI(file string, text []byte) ([]Mapping, error) {
	mappings, err := parseCI(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return mappings, nil
}

func parseCI(text []byte) ([]Mapping, error) {
	doc, err := document(text)
	if err != nil {
		return nil, err
	}
	var ci struct {
		FBC struct {
			Mapping []json.RawMessage `json:"catalog_mapping"`
		} `json:"fbc"`
	}
	if err := json.NewDecoder(bytes.NewReader(doc)).Decode(&ci); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if len(ci.FBC.Mapping) == 0 {
		return nil, errors.New("fbc.catalog_mapping has no entries: add a template_name with its catalog_names")
	}
	mappings := make([]Mapping, len(ci.FBC.Mapping))
	at := map[string]string{} // the entry of a catalog
	for i, raw := range ci.FBC.Mapping {
		here := fmt.Sprintf("fbc.catalog_mapping[%d]", i)
		m := &mappings[i]
		if err := strict(raw, m); err != nil {
			return nil, fmt.Errorf("%s: %w", here, err)
		}
		if err := m.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", here, err)
		}
		for _, catalog := range m.Catalogs {
			if other := at[catalog]; other != "" {
				return nil, fmt.Errorf("%s and %s both have catalog %q: remove it from one of them", other, here, catalog)
			}
			at[catalog] = here
		}
	}
	return mappings, nil
}

func (m *Mapping) check() error {
	if len(m.Catalogs) == 0 {
		return errors.New("catalog_names is empty: add the catalogs to render from the template")
	}
	for _, name := range append(slices.Clone(m.Catalogs), m.Template) {
		if name == "" || name == "." || !filepath.IsLocal(name) || filepath.Base(name) != name {
			return fmt.Errorf("invalid name %q: template_name and catalog_names are names without directories", name)
		}
	}
	if m.Type != "" && !slices.Contains([]string{Basic, Semver, Substitutes}, m.Type) {
		return fmt.Errorf("unknown type %q; valid types are %s, %s, %s", m.Type, Basic, Semver, Substitutes)
	}
	return nil
}
