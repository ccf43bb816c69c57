package catalogs

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
)

func TestRefreshProgress(t *testing.T) {
	tests := []struct {
		name, asked, requested, progressing, synced string
		done, failed                                bool
	}{
		{name: "an earlier request was handled", requested: "1", progressing: "Succeeded", synced: "Synced"},
		{name: "current", requested: "2", progressing: "Succeeded", synced: "Synced", done: true},
		{name: "invalid packages", requested: "2", progressing: "Succeeded", synced: "InvalidPackages", done: true},
		{name: "unpacking packages", requested: "2", progressing: "Succeeded", synced: "Unpacking"},
		{name: "publishing failed", requested: "2", progressing: "Succeeded", synced: "SyncFailed"},
		{name: "an earlier failure", requested: "1", progressing: "Retrying", synced: "Synced"},
		{name: "retrying", requested: "2", progressing: "Retrying", synced: "Synced", failed: true},
		{name: "replaced by a completed request", asked: "3", requested: "3", progressing: "Succeeded", synced: "Synced", done: true},
		{name: "replaced by a pending request", asked: "3", requested: "0", progressing: "Succeeded", synced: "Synced"},
		{name: "previous annotation", asked: "1", requested: "1", progressing: "Succeeded", synced: "Synced"},
		{name: "blocked", requested: "2", progressing: "Blocked", synced: "Synced", failed: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &status.Catalog{}
			c.Annotations = map[string]string{v1beta1.PollRequestedAnnotation: "2"}
			if tt.asked != "" {
				c.Annotations[v1beta1.PollRequestedAnnotation] = tt.asked
			}
			c.Status.Poll = &v1beta1.PollStatus{Requested: tt.requested}
			c.Status.Conditions = []metav1.Condition{
				{Type: v1beta1.ProgressingCondition, Reason: tt.progressing}, {Type: v1beta1.PackagesSyncedCondition, Reason: tt.synced},
			}
			got := (poll{request: "2", previous: "1"}).progress(c)
			if got.done != tt.done || (got.err != nil) != tt.failed {
				t.Errorf("got %+v", got)
			}
		})
	}
	if (poll{}).progress(nil).err == nil {
		t.Error("refresh waits for a deleted catalog")
	}
}

func TestRefreshPrintsChanges(t *testing.T) {
	for name, c := range map[string]struct {
		changes content.Changes
		left    []lookup.InvalidPackage
		want    string
	}{
		"usual": {content.Changes{Added: []string{"b", "a\x1b[2J"}, Removed: []string{"c"}}, nil,
			"  + a\uFFFD[2J\n  + b\n  - c\n2 packages added, 0 changed, 1 removed\n"},
		"lost": {content.Changes{Added: []string{"a", "b"}, Changed: []string{"c", "d"}}, []lookup.InvalidPackage{
			{Name: "a", Reason: "no\nhead"}, {Name: "c", Reason: "no channel"},
		},
			"  + b\n  ~ d\n  ! a: invalid: no head\n  ! c: invalid: no channel\n1 package added, 1 changed, 0 removed; 2 packages are invalid\n"},
		"lost before": {content.Changes{Changed: []string{"c", "d"}}, []lookup.InvalidPackage{{Name: "x", Reason: "no head"}},
			"  ~ c\n  ~ d\n0 packages added, 2 changed, 0 removed; 1 package is invalid (listed by kubectl catalog describe sample)\n"},
	} {
		if diff := cmp.Diff(c.want, changesText(&output.Terminal{}, "sample", c.changes, c.left)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestRefreshErrorNamesCatalogOnce(t *testing.T) {
	var c status.Catalog
	c.Name = "mine"
	r := poll{catalog: &c}
	if got := r.named(waitRequest{name: "mine", goal: "refreshed"}.timedOut(progress{})).Error(); strings.Count(got, "mine") != 1 ||
		strings.HasSuffix(got, ": ") {
		t.Error(got)
	}
	if got := r.named(context.DeadlineExceeded).Error(); got != `catalog "mine": context deadline exceeded` {
		t.Error(got)
	}
}

func TestRefreshDoesNotWaitForSuspendedCatalog(t *testing.T) {
	var suspended, unavailable status.Catalog
	suspended.Spec.Suspend, unavailable.Spec.Availability = true, v1beta1.AvailabilityUnavailable
	for want, c := range map[string]status.Catalog{"is suspended": suspended, "is unavailable": unavailable} {
		if got := (poll{request: "now"}).progress(&c); got.err == nil || !strings.Contains(got.err.Error(), want) {
			t.Errorf("%s: %+v", want, got)
		}
		if got := scheduleText(&c); !strings.HasPrefix(got, "never while ") {
			t.Errorf("%s: %s", want, got)
		}
	}
}
