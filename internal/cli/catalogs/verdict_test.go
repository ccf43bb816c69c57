package catalogs

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/apis/olmv1"
	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
	"github.com/operator-catalogs/catalogd/internal/registry"
)

func TestVerdict(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	deleted := metav1.NewTime(time.Unix(0, 0))
	tests := []struct {
		name                        string
		ready, progressing, serving metav1.Condition
		edit                        func(*status.Catalog)
		style                       output.Style
		text, remedy                string // substrings
	}{
		{
			name:   "new",
			edit:   func(c *status.Catalog) { c.Status = v1beta1.CatalogSourceStatus{} },
			style:  output.Yellow,
			text:   "is new",
			remedy: "--namespace catalogd-system",
		},
		{
			name:   "changed",
			ready:  metav1.Condition{Status: yes},
			edit:   func(c *status.Catalog) { c.Generation++ },
			style:  output.Yellow,
			text:   "was changed",
			remedy: "get pods",
		},
		{
			name:   "removed",
			ready:  metav1.Condition{Status: yes},
			edit:   func(c *status.Catalog) { c.DeletionTimestamp = &deleted },
			style:  output.Yellow,
			text:   "is being deleted",
			remedy: "get pods",
		},
		{name: "ready", ready: metav1.Condition{Status: yes}, style: output.Green, text: "is ready"},
		{name: "empty", ready: metav1.Condition{Status: yes},
			edit:  func(c *status.Catalog) { c.Status.Content = &v1beta1.CatalogContent{} },
			style: output.Yellow, text: "is served, but empty", remedy: "lint"},
		{name: "with invalid packages", ready: metav1.Condition{Status: yes}, edit: func(c *status.Catalog) {
			c.Spec.Image, c.Status.Content = "host/a:b", &v1beta1.CatalogContent{InvalidPackageCount: 1}
		}, style: output.Yellow, text: "without 1 invalid package", remedy: "kubectl catalog lint host/a:b shows"},
		{
			name:   "suspended",
			ready:  metav1.Condition{Status: yes},
			edit:   func(c *status.Catalog) { c.Spec.Suspend = true },
			style:  output.Yellow,
			text:   "suspended",
			remedy: "resume mine",
		},
		{name: "suspended at once", ready: metav1.Condition{Status: no, Reason: "Unavailable"},
			progressing: metav1.Condition{Status: no, Reason: "Suspended"},
			edit:        func(c *status.Catalog) { c.Spec.Suspend = true }, style: output.Yellow, text: "was never unpacked",
			remedy: "resume mine"},
		{name: "unavailable by spec", ready: metav1.Condition{
			Status: no, Reason: "UserSpecifiedUnavailable",
		}, progressing: metav1.Condition{Status: no, Reason: "UserSpecifiedUnavailable"},
			style: output.Yellow, text: "is unavailable, as set", remedy: "Available"},
		{name: "unpacking", ready: metav1.Condition{Status: no, Reason: "Unpacking"},
			progressing: metav1.Condition{Status: yes, Reason: "Unpacking"},
			style:       output.Yellow, text: "is being unpacked", remedy: "wait"},
		{name: "all packages invalid", ready: metav1.Condition{Status: no, Reason: "InvalidPackages"},
			progressing: metav1.Condition{Status: yes, Reason: "Succeeded"},
			serving:     metav1.Condition{Status: yes}, style: output.Red, text: "all of its packages are invalid"},
		{name: "blocked", ready: metav1.Condition{Status: no, Reason: "Unauthorized"},
			progressing: metav1.Condition{Status: no, Reason: "Blocked"},
			style:       output.Red, text: "is blocked until somebody", remedy: "edit catalogsource mine"},
		{name: "blocked and served", ready: metav1.Condition{Status: no, Reason: "BlobTooLarge"},
			progressing: metav1.Condition{Status: no, Reason: "Blocked"},
			serving:     metav1.Condition{Status: yes}, style: output.Red, text: "served with its previous content"},
		{name: "blocked by invalid content", ready: metav1.Condition{Status: no, Reason: "Blocked"},
			progressing: metav1.Condition{Status: no, Reason: "Blocked"},
			edit:        func(c *status.Catalog) { c.Spec.Image = "host/a:b" }, style: output.Red, text: "is blocked until somebody",
			remedy: "kubectl catalog lint host/a:b lists all errors; after pushing a corrected image: kubectl catalog refresh mine --wait"},
		{name: "blocked by an invalid reference", ready: metav1.Condition{
			Status: no, Reason: "Blocked", Message: "the image reference cannot be read: " + registry.ReferenceForm,
		},
			progressing: metav1.Condition{Status: no, Reason: "Blocked"}, style: output.Red, text: "is blocked until somebody",
			remedy: "correct spec.image: kubectl edit catalogsource mine"},
		{name: "blocked by an invalid template", ready: metav1.Condition{
			Status: no, Reason: "Blocked", Message: "it cannot be read: " + registry.ReferenceForm,
		},
			edit: func(c *status.Catalog) { c.Spec.ImageTemplate = "host/A" }, progressing: metav1.Condition{Status: no, Reason: "Blocked"},
			style: output.Red, text: "is blocked until somebody", remedy: "correct spec.imageTemplate"},
		{name: "image not found", ready: metav1.Condition{Status: no, Reason: "ImageNotFound"},
			progressing: metav1.Condition{Status: yes, Reason: "Retrying"},
			style:       output.Red, text: "catalogd retries", remedy: "correct spec.image: kubectl edit catalogsource mine"},
		{name: "retrying", ready: metav1.Condition{
			Status: no, Reason: "RegistryUnreachable",
		}, progressing: metav1.Condition{Status: yes, Reason: "Retrying"},
			style: output.Red, text: "catalogd retries", remedy: "refresh mine"},
		{name: "retrying and served", ready: metav1.Condition{Status: no, Reason: "RateLimited"},
			progressing: metav1.Condition{Status: yes, Reason: "Retrying"},
			serving:     metav1.Condition{Status: yes}, style: output.Yellow, text: "served with its previous content"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &status.Catalog{}
			c.Name, c.Generation, c.Status.ObservedGeneration = "mine", 2, 2
			tt.ready.Type, tt.progressing.Type, tt.serving.Type = v1beta1.ReadyCondition, v1beta1.ProgressingCondition, v1beta1.ServingCondition
			c.Status.Conditions = []metav1.Condition{tt.ready, tt.progressing, tt.serving}
			if tt.edit != nil {
				tt.edit(c)
			}
			got := newVerdict(c, "catalogd-system")
			if got.style != tt.style || !strings.Contains(got.text, tt.text) ||
				!strings.Contains(got.remedy, tt.remedy) || (got.remedy == "") != (tt.remedy == "") {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// The verdict on content is not older than the content, even if the catalog was ready before.
func TestVerdictSince(t *testing.T) {
	at := func(minute int) metav1.Time { return metav1.NewTime(time.Unix(int64(60*minute), 0)) }
	condition := func(of string, is metav1.ConditionStatus, reason string, since metav1.Time) metav1.Condition {
		return metav1.Condition{Type: of, Status: is, Reason: reason, LastTransitionTime: since}
	}
	unpacked := at(3)
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		suspend    bool
		want       time.Time
	}{
		"content newer than the condition": {
			[]metav1.Condition{condition(v1beta1.ReadyCondition, "True", "Available", at(1))}, false, at(3).Time,
		},
		"condition newer than the content": {
			[]metav1.Condition{condition(v1beta1.ReadyCondition, "True", "Available", at(5))}, false, at(5).Time,
		},
		"suspended": {[]metav1.Condition{condition(v1beta1.ReadyCondition, "True", "Available", at(5))}, true, time.Time{}},
		"blocked after it was retried": {[]metav1.Condition{condition(v1beta1.ReadyCondition, "False", "Blocked", at(5)),
			condition(v1beta1.ProgressingCondition, "False", "Blocked", at(6))}, false, at(6).Time},
	} {
		c := &status.Catalog{}
		c.Spec.Suspend = test.suspend
		c.Status.Conditions = test.conditions
		c.Status.Content = &v1beta1.CatalogContent{InvalidPackageCount: 1, UnpackedAt: &unpacked}
		if got := newVerdict(c, "catalogd-system").since; !got.Equal(test.want) {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestScheduleText(t *testing.T) {
	every := func(d time.Duration) v1beta1.CatalogSourceSpec {
		return v1beta1.CatalogSourceSpec{Image: "c:v1", PollingInterval: &metav1.Duration{Duration: d}}
	}
	at := func(schedule string) v1beta1.CatalogSourceSpec {
		return v1beta1.CatalogSourceSpec{Image: "c:v1", PollingSchedule: schedule}
	}
	tests := []struct {
		spec v1beta1.CatalogSourceSpec
		want string
	}{
		{v1beta1.CatalogSourceSpec{Image: "c:v1"}, "about every 15m, or as set by catalogd's --default-polling-interval"},
		{v1beta1.CatalogSourceSpec{Image: "c@sha256:00"}, "never: the image has a digest"},
		{v1beta1.CatalogSourceSpec{Image: "c:v1", Suspend: true}, "never while suspended"},
		{every(time.Minute), "about every 1m"},
		{every(time.Hour), "about every 1h"},
		{every(90 * time.Second), "about every 1m30s"},
		{every(10 * time.Hour), "about every 10h"},
		{at("0 3 * * *"), "every day at 03:00 (UTC)"},
		{at("CRON_TZ=Europe/Prague  5 13 * * 7"), "every Sunday at 13:05 (Europe/Prague)"},
		{at("*/10 * * * *"), "every 10 minutes of the hour (UTC)"},
		{at("@daily"), "every day at 00:00 (UTC)"},
		{at("@every 36h"), "every 36h"},
		{at("0 3 1 */2 mon"), `cron expression "0 3 1 */2 mon" (UTC)`},
	}
	for _, tt := range tests {
		c := &status.Catalog{}
		c.Spec = tt.spec
		if got := scheduleText(c); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// The remedies for a ClusterCatalog name its own fields and conditions.
func TestVerdictOnClusterCatalog(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	condition := func(of string, is metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: of, Status: is, Reason: reason, Message: message}
	}
	unpacked := condition("Progressing", yes, "Succeeded", "")
	for name, tt := range map[string]struct {
		conditions   []metav1.Condition
		foreign      bool
		text, remedy string // the start
	}{
		"new":      {nil, true, "is new", "if this persists, check that catalogd runs with --cluster-catalogs"},
		"ready":    {[]metav1.Condition{condition("Serving", yes, "Available", ""), unpacked}, false, "is ready", ""},
		"not ours": {[]metav1.Condition{condition("Serving", yes, "Available", ""), unpacked}, true, "is maintained by another program", ""},
		"unpacking": {
			[]metav1.Condition{condition("Serving", no, "Unavailable", "")}, false, "is being unpacked",
			"wait: kubectl wait --for=condition=Serving clustercatalog/a.b",
		},
		"unavailable": {
			[]metav1.Condition{condition("Serving", no, "UserSpecifiedUnavailable", ""), unpacked}, false,
			"is unavailable, as set in spec.availabilityMode",
			`kubectl patch clustercatalog a.b --type=merge -p '{"spec":{"availabilityMode":"Available"}}'`,
		},
		"name taken": {
			[]metav1.Condition{
				condition("Serving", no, "Unavailable", ""), condition("Progressing", no, "Blocked", "The name a.b belongs to CatalogSource a.b"),
			}, true, "is blocked until somebody fixes the cause", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := &olmv1.ClusterCatalog{}
			o.Name, o.Status.Conditions = "a.b", tt.conditions
			if !tt.foreign {
				o.Annotations = map[string]string{v1beta1.ClaimedByAnnotation: "catalogd-system"}
			}
			got := newVerdict(status.Of(o), "catalogd-system")
			if !strings.HasPrefix(got.text, tt.text) || !strings.HasPrefix(got.remedy, tt.remedy) || (got.remedy == "") != (tt.remedy == "") {
				t.Errorf("got %+v", got)
			}
		})
	}
}
