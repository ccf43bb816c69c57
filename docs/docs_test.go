// Package docs tests the documentation against the tree.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const root = ".."

// pages returns the Markdown files of the repository with their text.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && (strings.HasPrefix(name, ".") && name != ".." || name == "testdata" || name == "bin") {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".md") && !strings.Contains(path, filepath.Join("config", "samples")) {
			text, err := os.ReadFile(path)
			found[filepath.Clean(path)] = string(text)
			return err
		}
		return nil
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("reading the pages: %d found, %v", len(found), err)
	}
	return found
}

var (
	codeBlock = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns the link targets of a page, as GitHub makes them.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, title := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		anchor := notAnchor.ReplaceAllString(strings.ToLower(title[1]), "")
		found[strings.ReplaceAll(anchor, " ", "-")] = true
	}
	return found
}

// Relative links lead to files and headings of the repository.
func TestLinks(t *testing.T) {
	pages := pages(t)
	for page, text := range pages {
		for _, match := range link.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
			file, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(file, "://") || strings.HasPrefix(file, "mailto:") {
				continue
			}
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: broken link %s", page, match[1])
			} else if anchor != "" && strings.HasSuffix(target, ".md") && !anchors(pages[target])[anchor] {
				t.Errorf("%s: %s has no heading #%s", page, target, anchor)
			}
		}
	}
}

// Each test that a page of today names exists.
func TestNamedTestsExist(t *testing.T) {
	declared := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range function.FindAllSubmatch(text, -1) {
			declared[string(match[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)`")
	for page, text := range pages(t) {
		if strings.Contains(page, filepath.Join("docs", "design")) {
			continue // dated
		}
		for _, match := range named.FindAllStringSubmatch(text, -1) {
			if !declared[match[1]] {
				t.Errorf("%s names %s, which does not exist", page, match[1])
			}
		}
	}
}

// Fields of spec and status that a page of today names exist in one of the CRDs.
func TestNamedFieldsExist(t *testing.T) {
	var schemas []map[string]any
	files, err := filepath.Glob(filepath.Join(root, "config", "crd", "catalogd.*.yaml"))
	if err != nil || len(files) != 2 {
		t.Fatalf("the CRDs are %q, %v", files, err)
	}
	files = append(files, filepath.Join("..", "config", "crd", "olmv1", "olm.operatorframework.io_clustercatalogs.yaml"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd struct {
			Spec struct {
				Versions []struct {
					Schema struct{ OpenAPIV3Schema map[string]any }
				}
			}
		}
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatal(err)
		}
		schemas = append(schemas, crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
	}
	named := regexp.MustCompile("`((?:spec|status)(?:\\.[a-z][A-Za-z]*(?:\\[\\])?)+)`")
	foreign := map[string]bool{ // of other APIs
		"spec.source": true, "spec.sourceNamespace": true, "spec.sourceType": true, "spec.restoreStatus": true,
	}
	for page, text := range pages(t) {
		if strings.Contains(page, filepath.Join("docs", "design")) || strings.Contains(page, filepath.Join("docs", "cli")) {
			continue
		}
		for _, match := range named.FindAllStringSubmatch(text, -1) {
			exists := func(schema map[string]any) bool { return hasField(schema, strings.Split(match[1], ".")) }
			if !foreign[match[1]] && !slices.ContainsFunc(schemas, exists) {
				t.Errorf("%s names the field %s, which does not exist", page, match[1])
			}
		}
	}
}

// hasField reports whether a schema has a field, given as the elements of its path.
func hasField(schema map[string]any, path []string) bool {
	if len(path) == 0 {
		return true
	}
	if items, ok := schema["items"].(map[string]any); ok {
		schema = items
	}
	properties, _ := schema["properties"].(map[string]any)
	field, ok := properties[strings.TrimSuffix(path[0], "[]")].(map[string]any)
	return ok && hasField(field, path[1:])
}
