package cli

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/operator-catalogs/catalogd/apis/v1beta1"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

// Types of the lines of watch that come of the status of a catalog, not of its feed.
const (
	inTroubleNow = "trouble"   // it cannot be used, or not be brought up to date
	recovered    = "recovered" // from trouble
)

// troubles knows which catalogs are in trouble, and finds out when that changes.
type troubles struct {
	known map[string]string // what was told of each
	since time.Time         // when it began: what is older is told with its own time
}

// isTroubled tells whether a person should know of how a catalog is. Who suspends or withdraws one does.
func isTroubled(c *v1beta1.CatalogSource) bool {
	ready := condition(c, v1beta1.ReadyCondition)
	return isSeen(c) && ready.Status == metav1.ConditionFalse &&
		!slices.Contains([]string{v1beta1.UnpackingReason, v1beta1.UnavailableReason, v1beta1.UserSpecifiedUnavailableReason}, ready.Reason)
}

// change is what there is to tell of a catalog as it is now; nil if there is nothing new.
func (t *troubles) change(event watch.EventType, c *v1beta1.CatalogSource) *feedChange {
	was, isKnown := t.known[c.Name]
	ready := condition(c, v1beta1.ReadyCondition)
	telling := feedChange{Type: recovered, Time: time.Now().Truncate(time.Second), Catalog: c.Name}
	switch {
	case event == watch.Deleted:
		delete(t.known, c.Name)
		return nil
	case isTroubled(c) && was != ready.Message:
		t.known[c.Name] = ready.Message
		if !isKnown && ready.LastTransitionTime.Time.Before(t.since) {
			telling.Time = ready.LastTransitionTime.Time
		}
		telling.Type, telling.Reason, telling.Message = inTroubleNow, ready.Reason, whole(ready.Message)
		telling.isServed = condition(c, v1beta1.ServingCondition).Status == metav1.ConditionTrue
		return &telling
	case isKnown && isSeen(c) && ready.Status == metav1.ConditionTrue:
		delete(t.known, c.Name)
		return &telling
	}
	return nil
}

// troubleWords is such a change for people.
func (e *env) troubleWords(c feedChange) string {
	switch {
	case c.Type == recovered:
		return e.stdout.Paint(term.Green, "is well again")
	case c.isServed:
		return e.stdout.Paint(term.Red, "cannot be brought up to date") + ": " + term.Line(c.Message)
	}
	return e.stdout.Paint(term.Red, "cannot be used") + ": " + term.Line(c.Message)
}
