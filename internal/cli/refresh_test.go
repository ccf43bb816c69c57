package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

func TestRefreshIsOver(t *testing.T) {
	tests := []struct {
		name, asked, requested, progressing, synced string
		done, failed                                bool
	}{
		{name: "an earlier request was handled", requested: "1", progressing: "Succeeded", synced: "Synced"},
		{name: "current", requested: "2", progressing: "Succeeded", synced: "Synced", done: true},
		{name: "some packages are not sound", requested: "2", progressing: "Succeeded", synced: "InvalidPackages", done: true},
		{name: "packages are examined", requested: "2", progressing: "Succeeded", synced: "Unpacking"},
		{name: "packages are not written", requested: "2", progressing: "Succeeded", synced: "SyncFailed"},
		{name: "an earlier failure", requested: "1", progressing: "Retrying", synced: "Synced"},
		{name: "failed for now", requested: "2", progressing: "Retrying", synced: "Synced", failed: true},
		{name: "somebody else asked since", asked: "3", requested: "3", progressing: "Succeeded", synced: "Synced", done: true},
		{name: "somebody else asked since and waits", asked: "3", requested: "0", progressing: "Succeeded", synced: "Synced"},
		{name: "as it was before it was asked for", asked: "1", requested: "1", progressing: "Succeeded", synced: "Synced"},
		{name: "failed until somebody helps", requested: "2", progressing: "Blocked", synced: "Synced", failed: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &v1beta1.CatalogSource{}
			c.Annotations = map[string]string{v1beta1.PollRequestedAnnotation: "2"}
			if tt.asked != "" {
				c.Annotations[v1beta1.PollRequestedAnnotation] = tt.asked
			}
			c.Status.Poll = &v1beta1.PollStatus{Requested: tt.requested}
			c.Status.Conditions = []metav1.Condition{
				{Type: v1beta1.ProgressingCondition, Reason: tt.progressing}, {Type: v1beta1.PackagesSyncedCondition, Reason: tt.synced},
			}
			got := (&refresh{request: "2", earlier: "1"}).judge(c)
			if got.done != tt.done || (got.err != nil) != tt.failed {
				t.Errorf("got %+v", got)
			}
		})
	}
	if (&refresh{}).judge(nil).err == nil {
		t.Error("a catalog that was removed is waited for")
	}
}

func TestRefreshTellsWhatChanged(t *testing.T) {
	r := &refresh{env: &env{stdout: &term.Terminal{Writer: &strings.Builder{}}}, catalog: &v1beta1.CatalogSource{}}
	r.catalog.Name = "sample"
	for name, c := range map[string]struct {
		changes content.Changes
		left    []leftOut
		want    string
	}{
		"usual": {content.Changes{Added: []string{"b", "a\x1b[2J"}, Removed: []string{"c"}}, nil,
			"  + a\uFFFD[2J\n  + b\n  - c\n2 packages added, 0 changed, 1 removed\n"},
		"lost": {content.Changes{Added: []string{"a", "b"}, Changed: []string{"c", "d"}}, []leftOut{{"a", "no\nhead"}, {"c", "no channel"}},
			"  + b\n  ~ d\n  ! a: left out: no head\n  ! c: left out: no channel\n1 package added, 1 changed, 0 removed; 2 packages are left out\n"},
		"lost before": {content.Changes{Changed: []string{"c", "d"}}, []leftOut{{"x", "no head"}},
			"  ~ c\n  ~ d\n0 packages added, 2 changed, 0 removed; 1 package is left out, which kubectl catalog describe sample names\n"},
	} {
		if diff := cmp.Diff(c.want, r.describe(c.changes, c.left)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A poll is not asked for, nor waited for, where nobody would make it.
func TestRefreshAtRest(t *testing.T) {
	suspended, unavailable := missingImage(""), missingImage("")
	suspended.Spec.Suspend, unavailable.Spec.Availability = true, v1beta1.AvailabilityUnavailable
	for want, c := range map[string]v1beta1.CatalogSource{"is suspended": suspended, "is not offered": unavailable} {
		server := cluster(t, nil, c)
		if code, stdout, stderr := run(t, "refresh", "mine", "--wait", "--server", server); code != exitFailure || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d: %s%s", want, code, stdout, stderr)
		}
		if code, stdout, stderr := run(t, "refresh", "--all", "--wait", "--server", server); code != exitDone || stdout+stderr != "" {
			t.Errorf("all: %s: exit code %d: %s%s", want, code, stdout, stderr)
		}
		r := &refresh{request: "now"}
		if found := r.judge(&c); found.err == nil || !strings.Contains(found.err.Error(), want) {
			t.Errorf("meanwhile: %s: %+v", want, found)
		}
		if got := scheduleOf(&c); !strings.HasPrefix(got, "not while it ") {
			t.Errorf("%s: it is polled %s", want, got)
		}
	}
}
