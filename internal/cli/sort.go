package cli

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubectl/pkg/cmd/get"

	"github.com/operator-catalogs/catalogd/internal/fbc"
)

// sortRows sorts rows by a field of their objects: a JSONPath, as --sort-by of kubectl get takes it. With an empty path they stay as they are.
func sortRows(rows []row, by string) error {
	if by == "" || len(rows) == 0 {
		return nil
	}
	objects := make([]runtime.Object, len(rows))
	for i, r := range rows {
		objects[i] = r.object
	}
	sorter, err := get.SortObjects(unstructured.UnstructuredJSONScheme, objects, by)
	if err != nil {
		return usagef("--sort-by: %w", err)
	}
	was := slices.Clone(rows)
	for i := range rows {
		rows[i] = was[sorter.OriginalPosition(i)]
	}
	if isVersion(by) {
		sortByVersion(rows, by)
	}
	return nil
}

// isVersion tells whether a path leads to a field that holds versions, as it is called.
func isVersion(path string) bool {
	path = strings.Trim(path, "{}")
	return strings.EqualFold(path[strings.LastIndexByte(path, '.')+1:], "version")
}

var digits = regexp.MustCompile(`[0-9]+`)

// compareNames orders names as people read them, numbers by what they are worth: stable-1.9 comes before stable-1.10.
func compareNames(a, b string) int {
	aligned := func(number string) string { return fmt.Sprintf("%20s", number) }
	return cmp.Compare(digits.ReplaceAllStringFunc(a, aligned), digits.ReplaceAllStringFunc(b, aligned))
}

// sortByVersion sorts rows by precedence of their versions, which as texts have 1.10 before 1.9. What is none comes first.
func sortByVersion(rows []row, path string) {
	fields := strings.Split(strings.Trim(path, "{}."), ".")
	version := func(r row) string {
		text, _, _ := unstructured.NestedString(r.object.Object, fields...) // empty where there is none
		return text
	}
	slices.SortStableFunc(rows, func(a, b row) int { return fbc.CompareVersions(version(a), version(b)) })
}
