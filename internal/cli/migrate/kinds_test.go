package migrate

import (
	"cmp"
	"reflect"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/operator-catalogs/catalogd/apis/olmv1"
	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

// Every field of a CatalogSource is converted or named as lost.
func TestToClusterCatalogNamesEachField(t *testing.T) {
	for field := range reflect.TypeFor[v1beta1.CatalogSourceSpec]().Fields() {
		from := &v1beta1.CatalogSource{}
		from.Name, from.Spec.Image, from.Status.Image = "x", "r.example/a:b", "r.example/a:v1"
		value := reflect.ValueOf(&from.Spec).Elem().FieldByIndex(field.Index)
		switch value.Kind() {
		case reflect.Pointer:
			value.Set(reflect.New(field.Type.Elem()))
		case reflect.Slice:
			value.Set(reflect.MakeSlice(field.Type, 1, 1))
		case reflect.Bool:
			value.SetBool(true)
		case reflect.Int32:
			value.SetInt(7)
		default:
			value.SetString(cmp.Or(map[string]string{"Image": "r.example/a:b", "Availability": "Unavailable"}[field.Name], "x"))
		}
		c, err := ToClusterCatalog(from, "x")
		if err != nil {
			t.Errorf("%s: %v", field.Name, err)
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		named := false
		for _, f := range c.Fields {
			named = named || f.Name == "spec."+name
		}
		if !named {
			t.Errorf("spec.%s is not named: %v", name, c.Fields)
		}
	}
}

func TestToClusterCatalog(t *testing.T) {
	for name, tt := range map[string]struct {
		spec    v1beta1.CatalogSourceSpec
		ref     string
		minutes *int
		note    string // of one of the fields
	}{
		"default": {v1beta1.CatalogSourceSpec{Image: "r.example/a:b"}, "r.example/a:b", ptr.To(15), "catalogd's default"},
		"no tag":  {v1beta1.CatalogSourceSpec{Image: "r.example/a"}, "r.example/a:latest", ptr.To(15), "need a registry, and a tag"},
		"no host": {v1beta1.CatalogSourceSpec{Image: "a:b"}, "index.docker.io/library/a:b", ptr.To(15), "need a registry, and a tag"},
		"digest":  {v1beta1.CatalogSourceSpec{Image: "r.example/a@" + digest}, "r.example/a@" + digest, nil, ""},
		"rounded": {
			v1beta1.CatalogSourceSpec{Image: "r.example/a:b", PollingInterval: every(90 * time.Second)}, "r.example/a:b", ptr.To(2),
			"rounded up from 1m30s",
		},
		"schedule": {
			v1beta1.CatalogSourceSpec{Image: "r.example/a:b", PollingSchedule: "@daily"}, "r.example/a:b", ptr.To(15),
			"the schedule is lost (@daily)",
		},
		"template": {
			v1beta1.CatalogSourceSpec{ImageTemplate: "r.example/a:v{kube_minor_version}"}, "r.example/a:v36", ptr.To(15),
			"the template is lost",
		},
	} {
		t.Run(name, func(t *testing.T) {
			from := &v1beta1.CatalogSource{Spec: tt.spec}
			from.Status.Image = "r.example/a:v36"
			c, err := ToClusterCatalog(from, "x")
			if err != nil {
				t.Fatal(err)
			}
			want := olmv1.CatalogSource{Type: "Image", Image: &olmv1.ImageSource{Ref: tt.ref, PollIntervalMinutes: tt.minutes}}
			if diff := gocmp.Diff(want, c.To.(*olmv1.ClusterCatalog).Spec.Source); diff != "" {
				t.Error(diff)
			}
			notes := ""
			for _, f := range c.Fields {
				notes += f.Note + "\n"
			}
			if !strings.Contains(notes, tt.note) {
				t.Errorf("no note %q in %q", tt.note, notes)
			}
		})
	}
	unresolved := &v1beta1.CatalogSource{Spec: v1beta1.CatalogSourceSpec{ImageTemplate: "r.example/a:v{kube_minor_version}"}}
	if _, err := ToClusterCatalog(unresolved, "x"); err == nil {
		t.Error("a template that is not resolved is converted")
	}
}

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func every(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

// Labels and annotations are kept, except those of tools and of catalogd.
func TestToCatalogSource(t *testing.T) {
	from := &olmv1.ClusterCatalog{}
	from.Name = "a.b"
	from.Labels = map[string]string{"team": "x", olmv1.MetadataNameLabel: "a.b", "app.kubernetes.io/managed-by": "Helm"}
	from.Annotations = map[string]string{
		"note": "y", v1beta1.ClaimedByAnnotation: "catalogd-system", v1beta1.SuspendAnnotation: "true", v1beta1.PollHandledAnnotation: "1",
	}
	from.Spec.Source.Image = &olmv1.ImageSource{Ref: "r.example/a:b"}
	if _, err := ToCatalogSource(from, "a.b"); err == nil || !strings.Contains(err.Error(), "--name a-b") {
		t.Errorf("a name with dots: %v", err)
	}
	c, err := ToCatalogSource(from, "ab")
	if err != nil {
		t.Fatal(err)
	}
	want := &v1beta1.CatalogSource{Spec: v1beta1.CatalogSourceSpec{
		Image: "r.example/a:b", PollingInterval: every(365 * 24 * time.Hour), Suspend: true, OLMv1: true,
	}}
	want.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("CatalogSource"))
	want.Name, want.Labels, want.Annotations = "ab", map[string]string{"team": "x"}, map[string]string{"note": "y"}
	if diff := gocmp.Diff(want, c.To); diff != "" {
		t.Error(diff)
	}
	lost := false
	for _, f := range c.Fields {
		lost = lost || f.IsLost() && strings.HasPrefix(f.Note, "app.kubernetes.io/managed-by: ")
	}
	if !lost {
		t.Errorf("the label of a tool is not named: %v", c.Fields)
	}
}
