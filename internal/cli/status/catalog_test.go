package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/operator-catalogs/catalogd/apis/olmv1"
	"github.com/operator-catalogs/catalogd/apis/v1beta1"
)

func TestParseName(t *testing.T) {
	for text, want := range map[string]struct {
		kind Kind
		name string
	}{
		"x":                                    {"", "x"},
		"catd/x":                               {CatalogSource, "x"},
		"catalogsource/x":                      {CatalogSource, "x"},
		"CatalogSources/x":                     {CatalogSource, "x"},
		"clustercatalog/x.y":                   {ClusterCatalog, "x.y"},
		"clustercatalogs/x":                    {ClusterCatalog, "x"},
		"catd.catalogd.operatorframework.io/x": {CatalogSource, "x"},
		"clustercatalogs.olm.operatorframework.io/x":             {ClusterCatalog, "x"},
		"clustercatalogs.v1.olm.operatorframework.io/x":          {ClusterCatalog, "x"},
		"catalogsources.v1beta1.catalogd.operatorframework.io/x": {CatalogSource, "x"},
	} {
		if kind, name, err := ParseName(text); err != nil || kind != want.kind || name != want.name {
			t.Errorf("%s: %q, %q, %v", text, kind, name, err)
		}
	}
	for _, text := range []string{"pod/x", "/x", "catalogsources.olm.operatorframework.io/x"} {
		if _, _, err := ParseName(text); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

// Commands see a ClusterCatalog in the states of a CatalogSource.
func TestStatesOfClusterCatalog(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	condition := func(of string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: of, Status: status, Reason: reason, Message: message, ObservedGeneration: 1}
	}
	serving := condition("Serving", yes, "Available", "")
	absent := condition("Serving", no, "Unavailable", "")
	for name, tt := range map[string]struct {
		conditions  []metav1.Condition
		suspend     bool
		ready       metav1.ConditionStatus
		reason      string
		progressing string
		failing     bool
		served      bool
	}{
		"new":       {ready: metav1.ConditionUnknown},
		"unpacking": {conditions: []metav1.Condition{absent}, ready: no, reason: "Unpacking", progressing: "Unpacking"},
		"ready": {
			[]metav1.Condition{serving, condition("Progressing", yes, "Succeeded", "")},
			false, yes, "Succeeded", "Succeeded", false, true,
		},
		"retrying": {
			[]metav1.Condition{serving, condition("Progressing", yes, "Retrying", "x")},
			false, no, "Retrying", "Retrying", true, true,
		},
		"blocked": {
			[]metav1.Condition{absent, condition("Progressing", no, "Blocked", "x")},
			false, no, "Blocked", "Blocked", true, false,
		},
		"suspended": {
			[]metav1.Condition{absent, condition("Progressing", yes, "Succeeded", "x")},
			true, no, "Unavailable", "Suspended", false, false,
		},
		"not ours": {conditions: []metav1.Condition{absent, condition("Progressing", yes, "Succeeded", "x")}, ready: metav1.ConditionUnknown},
		"unavailable": {
			[]metav1.Condition{condition("Serving", no, "UserSpecifiedUnavailable", ""), condition("Progressing", yes, "Succeeded", "")},
			false, no, "UserSpecifiedUnavailable", "Succeeded", false, false,
		},
		"name taken": {
			[]metav1.Condition{absent, condition("Progressing", no, "Blocked", "The name x belongs to CatalogSource x, which is older: ...")},
			false, no, "NameTaken", "Blocked", true, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := &olmv1.ClusterCatalog{}
			o.Generation, o.Status.Conditions = 1, tt.conditions
			if tt.suspend {
				o.Annotations = map[string]string{v1beta1.SuspendAnnotation: "true"}
			}
			c := Of(o)
			ready := Ready(c)
			got := []any{ready.Status, ready.Reason, Condition(c, v1beta1.ProgressingCondition).Reason, IsFailing(c), IsServed(c)}
			if diff := cmp.Diff([]any{tt.ready, tt.reason, tt.progressing, tt.failing, tt.served}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFieldsOfClusterCatalog(t *testing.T) {
	unpacked := metav1.NewTime(time.Unix(1e9, 0))
	o := &olmv1.ClusterCatalog{}
	o.Name = "a.b"
	o.Annotations = map[string]string{v1beta1.SuspendAnnotation: "true", v1beta1.PollHandledAnnotation: "7"}
	o.Spec.Priority, o.Spec.AvailabilityMode = 3, olmv1.AvailabilityModeUnavailable
	o.Spec.Source.Image = &olmv1.ImageSource{Ref: "r.example/a:b", PollIntervalMinutes: ptr.To(5)}
	o.Status.ResolvedSource = &olmv1.ResolvedCatalogSource{Image: &olmv1.ResolvedImageSource{Ref: "r.example/a@sha256:12"}}
	o.Status.URLs = &olmv1.ClusterCatalogURLs{Base: "http://x/catalogs/a.b"}
	o.Status.LastUnpacked = &unpacked
	c := Of(o)
	spec := v1beta1.CatalogSourceSpec{
		Image: "r.example/a:b", PollingInterval: &metav1.Duration{Duration: 5 * time.Minute}, Priority: 3, Availability: "Unavailable",
		Suspend: true,
	}
	status := v1beta1.CatalogSourceStatus{
		Digest: "sha256:12", URLs: &v1beta1.CatalogSourceURLs{Base: "http://x/catalogs/a.b"},
		Poll: &v1beta1.PollStatus{LastChangeTime: &unpacked, Requested: "7"},
	}
	if diff := cmp.Diff([]any{spec, status, false}, []any{c.Spec, c.Status, c.Once}); diff != "" {
		t.Error(diff)
	}
	if o.Spec.Source.Image.PollIntervalMinutes = nil; !Of(o).Once {
		t.Error("without an interval, it is not polled once only")
	}
}
