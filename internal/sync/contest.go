package sync

import (
	"context"
	"fmt"
	"strings"
	stdsync "sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/operator-catalogs/catalogd/internal/source"
)

// Contested is a Kind whose objects another program may maintain, too. Two that write the same status would undo each
// other's writes forever, so this one stops.
type Contested interface {
	// Rival returns what shows that another program maintains the objects of this kind now; "" if nothing does.
	Rival(context.Context, client.Reader) (string, error)
}

// rivalAge limits how long an answer of Rival holds.
const rivalAge = time.Minute

// contests has what is known of other programs that maintain objects of a kind. The zero value is ready for use.
type contests struct {
	objects stdsync.Map // contest by name

	mu    stdsync.Mutex
	rival string
	asked time.Time
}

// contest is what happened to an object while this process led.
type contest struct {
	uid     types.UID
	note    string // why this program leaves the object to another; empty: it does not
	lost    bool   // another program wrote the status after this one
	request string // the request for a poll at that time: only a later one overrules the other program
}

// of returns the contest about an object, and whether there was a pass over it.
func (c *contests) of(name string, uid types.UID) (contest, bool) {
	found, ok := c.objects.Load(name)
	if !ok || found.(contest).uid != uid {
		return contest{uid: uid}, false
	}
	return found.(contest), true
}

// lose notes that another program wrote the status of an object after this one.
func (c *contests) lose(src source.Source) {
	now, _ := c.of(src.Name, src.UID)
	now.lost, now.request = true, src.Schedule.Request
	c.objects.Store(src.Name, now)
}

func (c *contests) rivalNow(ctx context.Context, kind Contested, live client.Reader, now time.Time) (_ string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked.IsZero() || now.Sub(c.asked) >= rivalAge {
		if c.rival, err = kind.Rival(ctx, live); err != nil {
			return "", err
		}
		c.asked = now
	}
	return c.rival, nil
}

// yields reports whether this replica leaves an object to another program, and tells about a change of that. again means that
// it overrules what the other wrote: the other was uninstalled, or somebody asks for that.
func (c *controller) yields(ctx context.Context, src source.Source, object client.Object) (stop, again bool, err error) {
	kind, ok := c.kind.(Contested)
	if !ok {
		return false, false, nil
	}
	rival, err := c.contests.rivalNow(ctx, kind, c.Live, c.Clock.Now())
	if err != nil || !c.leads() {
		return rival != "", false, err
	}
	before, known := c.contests.of(src.Name, src.UID)
	now, again := c.next(before, known, src, rival)
	c.contests.objects.Store(src.Name, now)
	if now.note != before.note {
		c.Metrics.Contested(src.Name, now.note != "")
	}
	if now.note != before.note && now.note != "" {
		c.Recorder.Eventf(object, nil, corev1.EventTypeWarning, "Contested", "WriteStatus", "%s", now.note)
		logf.FromContext(ctx).Info("leaving the object to another program", "reason", now.note)
	}
	return now.note != "", again, nil
}

// next returns the contest about an object after the one before, and whether this program overrules another.
func (c *controller) next(before contest, known bool, src source.Source, rival string) (now contest, again bool) {
	foreign := src.Observed.URL != "" && src.Observed.URL != c.baseURL(src.Name)
	// Our finalizer, and an object that is not ours any more, must not wait for the other program.
	lost := before.lost && src.State != source.Deleting && c.Config.selects(src.Labels)
	switch {
	case rival != "":
		return contest{uid: src.UID, note: rival + ". This catalogd leaves the object to it: remove one of the two"}, false
	case lost && (src.Schedule.Request == "" || src.Schedule.Request == before.request):
		before.note = fmt.Sprintf("Another program changed the status of this object after catalogd. This catalogd leaves the object "+
			"to it: remove that program, then run `kubectl catalog refresh %s/%s`", strings.ToLower(src.Kind.Kind), src.Name)
		return before, false
	}
	return contest{uid: src.UID}, before.note != "" || !known && foreign
}
