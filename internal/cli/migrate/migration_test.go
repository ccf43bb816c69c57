package migrate

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	legacy "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestLegacySpecHasAllFieldsOfOLM(t *testing.T) {
	fields := func(of reflect.Type) []string {
		var names []string
		for field := range of.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}
	known := slices.Sorted(slices.Values(legacyFields))
	if diff := cmp.Diff(fields(reflect.TypeFor[legacy.CatalogSourceSpec]()), known); diff != "" {
		t.Errorf("OLM's fields and the list: %s", diff)
	}
	if diff := cmp.Diff(fields(reflect.TypeFor[legacySpec]()), known); diff != "" {
		t.Errorf("what is read and the list: %s", diff)
	}
}

func TestLabel(t *testing.T) {
	for text, want := range map[string]string{"a": "a", "a.b": "a-b", "A_b": "a-b", "-a-": "a"} {
		if got := Label(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"", "...", strings.Repeat("x", 64), strings.Repeat("x-", 100), strings.Repeat("é", 100)} {
		if got := Label(text); len(validation.IsDNS1123Label(got)) > 0 {
			t.Errorf("%q becomes %q, which is no name", text, got)
		}
	}
}
