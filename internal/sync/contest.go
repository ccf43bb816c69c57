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
	lost stdsync.Map // by UID: objects whose status another program wrote after this one
	told stdsync.Map // by UID: the last note about an object

	mu    stdsync.Mutex
	rival string
	asked time.Time
}

// contest is what is known of an object; the zero contest is none.
type contest struct {
	note  string // why this program leaves the object to another; empty: it does not
	again bool   // whether somebody wants this program to overrule the other
}

// of returns the contest about an object of a kind.
func (c *contests) of(ctx context.Context, e *Engine, kind Kind, src source.Source) (contest, error) {
	contested, ok := kind.(Contested)
	if !ok {
		return contest{}, nil
	}
	rival, err := c.rivalNow(ctx, contested, e.Live, e.Clock.Now())
	if err != nil {
		return contest{}, err
	}
	_, lost := c.lost.Load(src.UID)
	switch {
	case rival != "":
		return contest{note: rival + ". This catalogd leaves the object to it: remove one of the two"}, nil
	case !lost, src.State == source.Deleting: // our finalizer must not wait for the other program
		return contest{}, nil
	case src.PollRequested():
		return contest{again: true}, nil
	}
	return contest{note: fmt.Sprintf("Another program changed the status of this object after catalogd. This catalogd leaves the object "+
		"to it: remove that program, then run `kubectl catalog refresh %s/%s`", strings.ToLower(src.Kind.Kind), src.Name)}, nil
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

// isNews reports whether a contest differs from the last one about an object.
func (c *contests) isNews(uid types.UID, now contest) bool {
	before, told := c.told.Swap(uid, now)
	return before != now && (told || now.note != "")
}

// yields reports whether an object is left to another program, and tells about a change of that.
func (c *controller) yields(ctx context.Context, src source.Source, object client.Object) (stop, again bool, err error) {
	now, err := c.contests.of(ctx, c.Engine, c.kind, src)
	if err != nil {
		return false, false, err
	}
	if now.again {
		c.contests.lost.Delete(src.UID)
	}
	if _, contested := c.kind.(Contested); contested && c.contests.isNews(src.UID, now) {
		c.Metrics.Contested(src.Name, now.note != "")
		if now.note != "" {
			c.Recorder.Eventf(object, nil, corev1.EventTypeWarning, "Contested", "WriteStatus", "%s", now.note)
			logf.FromContext(ctx).Info("leaving the object to another program", "reason", now.note)
		}
	}
	return now.note != "", now.again, nil
}
