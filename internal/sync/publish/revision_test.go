package publish

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

// The reference catalog must use every field of an OperatorPackage: a change to how a field is made would leave the
// revision, and so the objects of earlier releases, as they were.
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

// noteFields notes the fields below v, and whether they are set anywhere.
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

// The revision is the same in every process, and another code makes another one.
func TestRevisionFollowsBuilder(t *testing.T) {
	first, err := json.Marshal(buildReference())
	must.Succeed(t, err)
	second, err := json.Marshal(buildReference())
	must.Succeed(t, err)
	wantEqual(t, "another build", string(first), string(second))
	if len(revision()) != 16 {
		t.Errorf("the revision is %q", revision())
	}
	for _, b := range buildReference() {
		if pkg, ok := b.Object.(*v1beta1.OperatorPackage); ok && len(pkg.Status.Channels) > 3 {
			for _, ch := range pkg.Status.Channels {
				if _, ok := ch.CurrentCSVDesc.Annotations[almExamples]; ok {
					t.Errorf("channel %s shows %s", ch.Name, almExamples)
				}
			}
			return
		}
	}
	t.Error("the reference has no package of many channels")
}
