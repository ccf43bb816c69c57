package catalogs

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/lookup"
	"github.com/operator-catalogs/catalogd/internal/cli/output"
	"github.com/operator-catalogs/catalogd/internal/cli/status"
)

func TestLineOfChange(t *testing.T) {
	at := time.Date(2026, 11, 22, 9, 30, 0, 0, time.Local)
	changes := &content.Changes{Added: []string{"alpha"}, Changed: []string{"beta", "gamma"}, Removed: []string{"delta"}}
	for _, c := range []struct {
		name     string
		terminal output.Terminal
		change   catalogChange
		want     string
	}{
		{"first", output.Terminal{}, catalogChange{Type: content.Digest, Digest: "sha256:0123456789abcdef"}, "0123456789ab  served"},
		{"changes", output.Terminal{}, catalogChange{Digest: "sha256:0123", Changes: changes}, "0123  +alpha ~beta ~gamma -delta"},
		{
			"lost",
			output.Terminal{},
			catalogChange{Digest: "sha256:0123", Changes: changes, Invalid: []lookup.InvalidPackage{{Name: "omega", Reason: "no head"}}},
			"0123  !omega +alpha ~beta ~gamma -delta",
		},
		{"coloured", output.Terminal{Colors: true}, catalogChange{Digest: "sha256:0123", Changes: changes},
			"0123  \x1b[32m+alpha\x1b[0m \x1b[33m~beta\x1b[0m \x1b[33m~gamma\x1b[0m \x1b[31m-delta\x1b[0m"},
		{
			"just wide enough",
			output.Terminal{Width: 72},
			catalogChange{Digest: "sha256:0123", Changes: changes},
			"0123  +alpha ~beta ~gamma -delta",
		},
		{"too many", output.Terminal{Width: 70}, catalogChange{Digest: "sha256:0123", Changes: changes}, "0123  +1 ~2 -1: +alpha ~beta …"},
		{"at least one", output.Terminal{Width: 10}, catalogChange{Digest: "sha256:0123", Changes: changes}, "0123  +1 ~2 -1: +alpha …"},
		{"none", output.Terminal{}, catalogChange{Digest: "sha256:0123", Changes: &content.Changes{}}, "0123  no package changed"},
		{"removed", output.Terminal{}, catalogChange{Type: content.Removed}, "no longer served"},
		{
			"hostile",
			output.Terminal{},
			catalogChange{Digest: "sha256:0123", Changes: &content.Changes{Added: []string{"a\x1b[2J\n"}}},
			"0123  +a\uFFFD[2J",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.change.Time, c.change.Catalog = at, "sample"
			p := changePrinter{to: &c.terminal}
			if got, want := p.line(c.change), "2026-11-22 09:30:00  sample            "+c.want; got != want {
				t.Errorf("got\n%q, want\n%q", got, want)
			}
		})
	}
}

// A failure is reported once with its reason, and so is the recovery.
func TestFailuresAreReportedOnce(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	began := time.Date(2026, 11, 22, 9, 30, 0, 0, time.Local)
	known := &failures{known: map[types.UID]string{}, since: began.Add(time.Hour)}
	p := changePrinter{to: &output.Terminal{}}
	for i, step := range []struct {
		event           watch.EventType
		status          metav1.ConditionStatus
		reason, message string
		served          bool
		want            string // "": no line
	}{
		{watch.Added, yes, "Succeeded", "", true, ""},
		{watch.Modified, no, "Blocked", "Cannot unpack\n1.", true, "update failed: Cannot unpack 1."},
		{watch.Modified, no, "Blocked", "Cannot unpack\n1.", true, ""},
		{watch.Modified, no, "Unpacking", "", true, ""},
		{watch.Modified, no, "Blocked", "Cannot unpack 2.", true, "update failed: Cannot unpack 2."},
		{watch.Modified, yes, "Succeeded", "", true, "recovered"},
		{watch.Modified, yes, "Succeeded", "", true, ""},
		{watch.Modified, no, "UserSpecifiedUnavailable", "As spec.availability says.", false, ""},
		{watch.Deleted, no, "Blocked", "", false, ""},
		{watch.Added, no, "ImageNotFound", "There is none.", false, "unavailable: There is none."},
		{watch.Deleted, no, "ImageNotFound", "There is none.", false, ""},
		{watch.Added, yes, "Succeeded", "", true, ""},
	} {
		c := &status.Catalog{}
		c.Name = "mine"
		c.Status.Conditions = []metav1.Condition{
			{
				Type:               v1beta1.ReadyCondition,
				Status:             step.status,
				Reason:             step.reason,
				Message:            step.message,
				LastTransitionTime: metav1.NewTime(began),
			},
			{Type: v1beta1.ServingCondition, Status: map[bool]metav1.ConditionStatus{true: yes, false: no}[step.served]},
		}
		got := ""
		if change := known.update(step.event, c); change != nil {
			got = p.line(*change)
			if change.Type == trouble && change.Reason != step.reason {
				t.Errorf("step %d: reason %q, want %q", i, change.Reason, step.reason)
			}
		}
		if step.want != "" {
			at := time.Now()
			if step.status == no && step.message != "Cannot unpack 2." { // began before the command
				at = began
			}
			step.want = fmt.Sprintf("%s  mine              %s", at.Format(time.DateOnly), step.want)
			got = got[:len(time.DateOnly)] + got[len(time.DateTime):]
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("step %d: %s", i, diff)
		}
	}
}
