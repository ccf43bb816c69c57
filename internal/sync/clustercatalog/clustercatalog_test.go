package clustercatalog

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/apis/olmv1"
	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/source"
	"github.com/operator-catalogs/catalogd/internal/sync/fault"
	"github.com/operator-catalogs/catalogd/internal/sync/status"
)

var (
	kind   = Kind{Namespace: "catalogd-system", BaseURL: "https://catalogd.catalogd-system.svc", Registry: "catalogd-cluster-catalogs"}
	digest = "sha256:a5d4f4467250074216eb1ba1c36e06a3ab797d81c431427fc2aca97ecaf4e9d8"
	now    = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
)

const base = "https://catalogd.catalogd-system.svc/catalogs/catalog"

func catalogOf(ref string) *olmv1.ClusterCatalog {
	c := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: "catalog", Generation: 2}}
	c.Spec.Source.Type = olmv1.SourceTypeImage
	if ref != "" {
		c.Spec.Source.Image = &olmv1.ImageSource{Ref: ref}
	}
	return c
}

func conditions(pairs ...string) (out []metav1.Condition) {
	for i := 0; i < len(pairs); i += 3 {
		out = append(out, metav1.Condition{Type: pairs[i], Status: metav1.ConditionStatus(pairs[i+1]), Reason: pairs[i+2]})
	}
	return out
}

func servedStatus() olmv1.ClusterCatalogStatus {
	return olmv1.ClusterCatalogStatus{
		Conditions:     conditions("Progressing", "True", "Succeeded", "Serving", "True", "Available"),
		ResolvedSource: &olmv1.ResolvedCatalogSource{Type: "Image", Image: &olmv1.ResolvedImageSource{Ref: "my.org/someimage@" + digest}},
		URLs:           &olmv1.ClusterCatalogURLs{Base: base},
		LastUnpacked:   &metav1.Time{Time: now},
	}
}

// The cases of operator-controller's TestCatalogdControllerReconcile that are about the status, as data. The others are about
// finalizers: TestClaim, and the tests of internal/sync.
func TestStatusAsUpstream(t *testing.T) {
	failedAs := func(err error) func(source.Source) source.Status {
		return func(src source.Source) source.Status {
			r := status.Results{Image: status.Image{Ref: src.Image.Ref}, Attempted: true, Fault: err}
			if src.Observed.URL != "" {
				r.Served = &status.Served{Digest: src.Observed.Digest, URL: src.Observed.URL, Since: src.Observed.Changed}
			}
			return status.Concluded(src, r)
		}
	}
	serve := func(src source.Source) source.Status {
		return status.Concluded(src, status.Results{
			Image: status.Image{Ref: src.Image.Ref}, Attempted: true, Current: true,
			Served: &status.Served{Digest: digest, URL: base, Since: now.Add(time.Millisecond)},
		})
	}
	unavailable := conditions("Progressing", "True", "Succeeded", "Serving", "False", "UserSpecifiedUnavailable")
	for _, test := range []struct {
		name   string
		before olmv1.ClusterCatalogStatus
		pass   func(source.Source) source.Status
		want   olmv1.ClusterCatalogStatus
	}{
		{
			name: "invalid source type", pass: failedAs(fault.Block(errors.New("invalid image reference"))),
			want: olmv1.ClusterCatalogStatus{Conditions: conditions("Progressing", "False", "Blocked", "Serving", "False", "Unavailable")},
		},
		{
			name: "unpacking fails", pass: failedAs(errors.New("mockpuller error")),
			want: olmv1.ClusterCatalogStatus{Conditions: conditions("Progressing", "True", "Retrying", "Serving", "False", "Unavailable")},
		},
		{
			name: "unpacking fails for good", pass: failedAs(fault.Block(errors.New("mockpuller terminal error"))),
			want: olmv1.ClusterCatalogStatus{Conditions: conditions("Progressing", "False", "Blocked", "Serving", "False", "Unavailable")},
		},
		{name: "unpacked", pass: serve, want: servedStatus()},
		{
			name: "storage fails", pass: failedAs(errors.New("mockstore store error")),
			want: olmv1.ClusterCatalogStatus{Conditions: conditions("Progressing", "True", "Retrying", "Serving", "False", "Unavailable")},
		},
		{
			name: "storage fails later", before: servedStatus(), pass: failedAs(errors.New("mockstore store error")),
			want: func() olmv1.ClusterCatalogStatus {
				s := servedStatus()
				s.Conditions[0].Reason = "Retrying"
				return s
			}(),
		},
		{
			name: "availability set to disabled", before: servedStatus(), pass: status.Withdrawn,
			want: olmv1.ClusterCatalogStatus{Conditions: unavailable},
		},
		{
			name: "availability set to enabled again", before: olmv1.ClusterCatalogStatus{Conditions: unavailable}, pass: serve,
			want: servedStatus(),
		},
		{
			name: "deleted, and kept by another finalizer", before: servedStatus(), pass: status.Deleted,
			want: olmv1.ClusterCatalogStatus{Conditions: conditions("Progressing", "True", "Succeeded", "Serving", "False", "Unavailable")},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := catalogOf("my.org/someimage:latest")
			c.Status = test.before
			kind.SetStatus(c, test.pass(kind.Source(c)))
			if diff := cmp.Diff(test.want, c.Status,
				cmpopts.IgnoreFields(metav1.Condition{}, "Message", "LastTransitionTime", "ObservedGeneration"),
				cmpopts.SortSlices(func(a, b metav1.Condition) bool { return a.Type < b.Type }), cmpopts.EquateApproxTime(0)); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			again := c.DeepCopy()
			kind.SetStatus(again, kind.Source(c).Observed)
			if diff := cmp.Diff(c, again); diff != "" {
				t.Errorf("what was read and written again (-before +after):\n%s", diff)
			}
		})
	}
}

func TestMessages(t *testing.T) {
	c := catalogOf("my.org/someimage:latest")
	kind.SetStatus(c, status.Concluded(kind.Source(c), status.Results{
		Image: status.Image{Ref: "my.org/someimage:latest"}, Attempted: true, Current: true,
		Served: &status.Served{Digest: digest, URL: base, Since: now},
	}))
	kind.SetStatus(c, status.Concluded(kind.Source(c), status.Results{
		Image: status.Image{Ref: "my.org/someimage:latest"}, Attempted: true, Fault: errors.New("no route to host"),
		Served: &status.Served{Digest: digest, URL: base, Since: now},
	}))
	got := map[string]string{}
	for _, cond := range c.Status.Conditions {
		got[cond.Type] = fmt.Sprintf("%s/%s %s (%d)", cond.Status, cond.Reason, cond.Message, cond.ObservedGeneration)
	}
	if diff := cmp.Diff(map[string]string{
		"Progressing": "True/Retrying No route to host. The previous content is still served. (2)",
		"Serving":     "True/Available Serving desired content from resolved source (2)",
	}, got); diff != "" {
		t.Error(diff)
	}
}

// The reference of the resolved source changes if and only if the digest does.
func TestResolvedSource(t *testing.T) {
	other := "sha256:" + "b5d4f4467250074216eb1ba1c36e06a3ab797d81c431427fc2aca97ecaf4e9d8"
	for _, test := range []struct{ name, image, digest, want string }{
		{"another tag", "my.org/someimage:next", digest, "my.org/someimage@" + digest},
		{"another repository", "my.org/other:latest", digest, "my.org/someimage@" + digest},
		{"another digest", "my.org/other:latest", other, "my.org/other@" + other},
		{"by digest", "my.org/other@" + other, other, "my.org/other@" + other},
		{"short name", "busybox", other, "index.docker.io/library/busybox@" + other},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := catalogOf("my.org/someimage:latest")
			c.Status = servedStatus()
			s := kind.Source(c).Observed
			s.Image, s.Digest = test.image, test.digest
			kind.SetStatus(c, s)
			if got := c.Status.ResolvedSource.Image.Ref; got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestClaim(t *testing.T) {
	theirs := metav1.ManagedFieldsEntry{Manager: "catalogd", Operation: "Update", Subresource: "status"}
	ours := metav1.ManagedFieldsEntry{Manager: v1beta1.FieldManager, Operation: "Apply", Subresource: "status"}
	user := metav1.ManagedFieldsEntry{Manager: "kubectl", Operation: "Apply"}
	const again = "claimed again"
	for _, test := range []struct {
		name   string
		change func(*olmv1.ClusterCatalog)
		want   func(*olmv1.ClusterCatalog)
	}{
		{"new", func(*olmv1.ClusterCatalog) {}, func(*olmv1.ClusterCatalog) {}},
		{
			"left by OLM v1's catalogd",
			func(c *olmv1.ClusterCatalog) { c.ManagedFields = []metav1.ManagedFieldsEntry{user, theirs, ours} },
			func(c *olmv1.ClusterCatalog) { c.ManagedFields = []metav1.ManagedFieldsEntry{user, ours} },
		},
		{
			"written by another program after it was claimed",
			func(c *olmv1.ClusterCatalog) {
				kind.Claim(c, false)
				c.ManagedFields = []metav1.ManagedFieldsEntry{user, theirs}
			},
			func(c *olmv1.ClusterCatalog) { c.ManagedFields = []metav1.ManagedFieldsEntry{user, theirs} },
		},
		{
			again,
			func(c *olmv1.ClusterCatalog) {
				kind.Claim(c, false)
				c.ManagedFields = []metav1.ManagedFieldsEntry{user, theirs}
			},
			func(c *olmv1.ClusterCatalog) { c.ManagedFields = []metav1.ManagedFieldsEntry{user} },
		},
		{
			"another label", func(c *olmv1.ClusterCatalog) {
				c.Labels = map[string]string{"a": "b", olmv1.MetadataNameLabel: "other"}
			},
			func(c *olmv1.ClusterCatalog) { c.Labels["a"] = "b" },
		},
		{
			"unavailable",
			func(c *olmv1.ClusterCatalog) {
				kind.Claim(c, false)
				c.Spec.AvailabilityMode = olmv1.AvailabilityModeUnavailable
			},
			func(c *olmv1.ClusterCatalog) {
				c.Spec.AvailabilityMode = olmv1.AvailabilityModeUnavailable
				c.Finalizers = []string{}
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, want := catalogOf("my.org/someimage:latest"), catalogOf("my.org/someimage:latest")
			want.Finalizers = []string{"olm.operatorframework.io/delete-server-cache"}
			want.Labels = map[string]string{"olm.operatorframework.io/metadata.name": "catalog"}
			want.Annotations = map[string]string{"catalogd.operatorframework.io/claimed-by": "catalogd-system"}
			test.change(got)
			kind.Claim(got, test.name == again)
			test.want(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSource(t *testing.T) {
	c := catalogOf("my.org/someimage:latest")
	c.Spec.Priority = 5
	got := kind.Source(c)
	if !got.Schedule.Once || got.Image.Ref != "my.org/someimage:latest" || got.Priority != 5 || got.State != source.Available {
		t.Errorf("got %+v", got)
	}
	c.Spec.Source.Image.PollIntervalMinutes = new(3)
	c.Annotations = map[string]string{
		v1beta1.SuspendAnnotation: "true", v1beta1.PollRequestedAnnotation: "now", v1beta1.PollHandledAnnotation: "then",
	}
	if got := kind.Source(c); !reflect.DeepEqual(got.Schedule, source.Schedule{Interval: 3 * time.Minute, Suspend: true, Request: "now"}) ||
		got.Observed.Requested != "then" {
		t.Errorf("got %+v", got)
	}
	c.Spec.AvailabilityMode = olmv1.AvailabilityModeUnavailable
	if got := kind.Source(c).State; got != source.Withdrawn {
		t.Errorf("state %d", got)
	}
	c.DeletionTimestamp = &metav1.Time{Time: now}
	if got := kind.Source(c).State; got != source.Deleting {
		t.Errorf("state %d", got)
	}
	// A digest that another catalogd serves does not count.
	c = catalogOf("my.org/someimage:latest")
	c.Status = servedStatus()
	c.Status.URLs.Base = "https://catalogd-service.olmv1-system.svc/catalogs/catalog"
	if got := kind.Source(c).Observed; got.Digest != "" || got.URL != c.Status.URLs.Base || !got.Changed.IsZero() {
		t.Errorf("got %+v", got)
	}
	// The image of the status is the tag if the status is about this generation.
	c = catalogOf("my.org/other:latest")
	c.Status = servedStatus()
	for generation, want := range map[int64]string{1: "my.org/someimage@" + digest, 2: "my.org/other:latest"} {
		c.Status.Conditions[0].ObservedGeneration = generation
		if got := kind.Source(c).Observed.Image; got != want {
			t.Errorf("generation %d: image %s, want %s", generation, got, want)
		}
	}
}

func TestIsMirror(t *testing.T) {
	owner := &v1beta1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1"}}
	c := catalogOf("")
	if kind.IsMirror(c) {
		t.Error("a catalog without owner is a mirror")
	}
	c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, v1beta1.GroupVersion.WithKind("CatalogSource"))}
	if !kind.IsMirror(c) {
		t.Error("a catalog of a CatalogSource is no mirror")
	}
	c.OwnerReferences[0].APIVersion = "operators.coreos.com/v1alpha1"
	if kind.IsMirror(c) {
		t.Error("a catalog of OLM v0's CatalogSource is a mirror")
	}
}
