package publish

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// The reference catalog must use every field of an OperatorPackage. Otherwise a change to a field would not change the
// revision, and objects of earlier releases would stay stale.
func TestReferenceUsesEveryField(t *testing.T) {
	used := map[string]bool{}
	var errs []string
	for _, b := range buildReference() {
		if b.Err != "" {
			errs = append(errs, b.Err)
			continue
		}
		noteFields(used, "", reflect.ValueOf(b.Object))
	}
	for field, isUsed := range used {
		if !isUsed {
			t.Errorf("reference.jsonl does not use %s: add it to a package", field)
		}
	}
	if len(used) < 60 {
		t.Errorf("found %d fields only", len(used))
	}
	if len(errs) != 2 || !strings.Contains(strings.Join(errs, ""), "no channel has a head with a usable CSV") {
		t.Errorf("errors are %q, want that of the package hidden", errs)
	}
}

// noteFields records the fields below v and whether any value sets them.
func noteFields(used map[string]bool, path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			noteFields(used, path, v.Elem())
		} else if v.Kind() == reflect.Pointer {
			noteFields(used, path, reflect.Zero(v.Type().Elem()))
		}
	case reflect.Slice:
		for i := range v.Len() {
			noteFields(used, path, v.Index(i))
		}
		if v.Len() == 0 {
			noteFields(used, path, reflect.Zero(v.Type().Elem()))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			name := path + "." + field.Name
			switch field.Type {
			case reflect.TypeFor[metav1.TypeMeta]():
				continue
			case reflect.TypeFor[metav1.ObjectMeta](): // the API server sets the others
				meta := v.Field(i).Interface().(metav1.ObjectMeta)
				used[name+".Labels"] = used[name+".Labels"] || len(meta.Labels) > 0
				continue
			}
			used[name] = used[name] || !v.Field(i).IsZero()
			noteFields(used, name, v.Field(i))
		}
	}
}

// The revision is the same in every process and follows the code of the builder.
func TestRevisionFollowsBuilder(t *testing.T) {
	wantEqual(t, "the revision", revisionOf(buildReference()), revision())
	seen := map[string]string{revision(): "the unchanged builder"}
	for name, change := range map[string]func([]built){
		"a label":             func(b []built) { firstPackage(b).Labels["team"] = "changed" },
		"the owner":           func(b []built) { firstPackage(b).OwnerReferences[0].Kind = "Other" },
		"the spec":            func(b []built) { firstPackage(b).Spec.Priority++ },
		"a field of the head": func(b []built) { firstPackage(b).Status.Channels[0].CurrentCSVDesc.Maturity = "changed" },
		"the order":           func(b []built) { slices.Reverse(firstPackage(b).Status.Channels) },
		"an annotation":       func(b []built) { firstPackage(b).Status.Channels[0].CurrentCSVDesc.Annotations = nil },
		"an error":            func(b []built) { b[len(b)-1].Err = "changed" },
	} {
		reference := buildReference()
		change(reference)
		revision := revisionOf(reference)
		if other, ok := seen[revision]; ok {
			t.Errorf("%s: the same revision as %s", name, other)
		}
		seen[revision] = name
	}
}

// firstPackage returns the first package of the reference catalog.
func firstPackage(reference []built) *v1beta1.OperatorPackage {
	return reference[0].Object.(*v1beta1.OperatorPackage)
}

func TestReferenceOmitsExamples(t *testing.T) {
	for _, ch := range firstPackage(buildReference()).Status.Channels {
		if _, ok := ch.CurrentCSVDesc.Annotations[almExamples]; ok {
			t.Errorf("channel %s shows %s", ch.Name, almExamples)
		}
	}
}
