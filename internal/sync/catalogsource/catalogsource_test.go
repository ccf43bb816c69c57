package catalogsource

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/source"
)

// fill sets every field below v to something that is not zero. Times become whole seconds.
func fill(v reflect.Value, n *int64) {
	*n++
	if t, ok := v.Addr().Interface().(*metav1.Time); ok {
		*t = metav1.Unix(1_790_000_000+*n, 0)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.String:
		v.SetString(string(rune('a' + *n%26)))
	case reflect.Int32, reflect.Int64:
		v.SetInt(*n)
	case reflect.Bool:
		v.SetBool(true)
	default:
		panic(v.Kind())
	}
}

// If the round trip dropped a field of a status, every pass would write it again.
func TestStatusSurvivesRoundTrip(t *testing.T) {
	var want, got v1beta1.CatalogSource
	var n int64
	fill(reflect.ValueOf(&want.Status).Elem(), &n)
	Kind{}.SetStatus(&got, Kind{}.Source(&want).Observed)
	if !equality.Semantic.DeepEqual(want.Status, got.Status) {
		t.Error(cmp.Diff(want.Status, got.Status))
	}

	var zero v1beta1.CatalogSource
	Kind{}.SetStatus(&got, source.Status{})
	if !equality.Semantic.DeepEqual(zero.Status, got.Status) {
		t.Error(cmp.Diff(zero.Status, got.Status))
	}
}

func TestSource(t *testing.T) {
	c := &v1beta1.CatalogSource{Spec: v1beta1.CatalogSourceSpec{Image: "registry.example/a:b", Priority: 7}}
	c.Annotations = map[string]string{v1beta1.ImageTemplateAnnotation: "annotation", v1beta1.PollRequestedAnnotation: "now"}
	c.Spec.Registry = &v1beta1.RegistryAccess{
		PullSecrets: []v1beta1.SecretReference{{Name: "one"}, {Name: "two"}},
		CABundle:    &v1beta1.BundleReference{Kind: "Secret", Name: "ca", Key: "crt"},
		Proxy:       &v1beta1.SecretReference{Name: "proxy"},
	}
	got := Kind{}.Source(c)
	if got.Image.Ref != "registry.example/a:b" || got.Image.Template != "annotation" || got.Schedule.Request != "now" || got.Priority != 7 {
		t.Errorf("got %+v", got)
	}
	for secret, want := range map[string]bool{"one": true, "two": true, "ca": true, "proxy": true, "other": false} {
		if got.Access.UsesSecret(secret) != want {
			t.Errorf("Secret %s: used %t, want %t", secret, !want, want)
		}
	}
	if got.Access.UsesConfigMap("ca") {
		t.Error("a ConfigMap with the name of the Secret counts")
	}
	c.Spec.ImageTemplate = "field"
	if got := (Kind{}).Source(c).Image.Template; got != "field" {
		t.Errorf("the template is %q, want that of the field", got)
	}

	for name, test := range map[string]struct {
		change func(*v1beta1.CatalogSource)
		want   source.State
	}{
		"available": {func(*v1beta1.CatalogSource) {}, source.Available},
		"withdrawn": {func(c *v1beta1.CatalogSource) { c.Spec.Availability = v1beta1.AvailabilityUnavailable }, source.Withdrawn},
		"withdrawn and deleted": {func(c *v1beta1.CatalogSource) {
			c.Spec.Availability = v1beta1.AvailabilityUnavailable
			c.DeletionTimestamp = &metav1.Time{}
		}, source.Withdrawn},
		"deleted": {func(c *v1beta1.CatalogSource) { now := metav1.Now(); c.DeletionTimestamp = &now }, source.Deleting},
	} {
		c := &v1beta1.CatalogSource{}
		test.change(c)
		if got := (Kind{}).Source(c).State; got != test.want {
			t.Errorf("%s: state %d, want %d", name, got, test.want)
		}
	}
}
