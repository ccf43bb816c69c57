package cli

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

// TestTroubles follows a catalog: once each time it gets into trouble it is told of, with why, and once when it is well again.
func TestTroubles(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	began := time.Date(2026, 11, 22, 9, 30, 0, 0, time.Local)
	known := &troubles{known: map[string]string{}, since: began.Add(time.Hour)}
	e := &env{stdout: &term.Terminal{}}
	for i, step := range []struct {
		event           watch.EventType
		status          metav1.ConditionStatus
		reason, message string
		served          bool
		want            string // in words; empty: nothing
	}{
		{watch.Added, yes, "Succeeded", "", true, ""},
		{watch.Modified, no, "Blocked", "Cannot unpack\n1.", true, "cannot be brought up to date: Cannot unpack 1."},
		{watch.Modified, no, "Blocked", "Cannot unpack\n1.", true, ""},
		{watch.Modified, no, "Unpacking", "", true, ""},
		{watch.Modified, no, "Blocked", "Cannot unpack 2.", true, "cannot be brought up to date: Cannot unpack 2."},
		{watch.Modified, yes, "Succeeded", "", true, "is well again"},
		{watch.Modified, yes, "Succeeded", "", true, ""},
		{watch.Modified, no, "UserSpecifiedUnavailable", "As spec.availability says.", false, ""},
		{watch.Deleted, no, "Blocked", "", false, ""},
		{watch.Added, no, "ImageNotFound", "There is none.", false, "cannot be used: There is none."},
		{watch.Deleted, no, "ImageNotFound", "There is none.", false, ""},
		{watch.Added, yes, "Succeeded", "", true, ""},
	} {
		c := &v1beta1.CatalogSource{}
		c.Name = "mine"
		c.Status.Conditions = []metav1.Condition{
			{Type: v1beta1.ReadyCondition, Status: step.status, Reason: step.reason, Message: step.message, LastTransitionTime: metav1.NewTime(began)},
			{Type: v1beta1.ServingCondition, Status: map[bool]metav1.ConditionStatus{true: yes, false: no}[step.served]},
		}
		got := ""
		if change := known.change(step.event, c); change != nil {
			got = e.changeLine(*change)
			if change.Type == inTroubleNow && change.Reason != step.reason {
				t.Errorf("step %d: reason %q, want %q", i, change.Reason, step.reason)
			}
		}
		if step.want != "" {
			at := time.Now()
			if step.status == no && step.message != "Cannot unpack 2." { // it may be old when it is heard of
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
