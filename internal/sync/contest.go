package sync

import (
	"context"
	"fmt"
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
	// Disclaim undoes Claim as far as the other program's writes are concerned, so that the next Claim overrules them.
	Disclaim(client.Object)
}

// rivalAge limits how long an answer of Rival holds.
const rivalAge = time.Minute

// contests has what is known of other programs that maintain objects of a kind. The zero value is ready for use.
type contests struct {
	mu    stdsync.Mutex
	rival string
	asked time.Time
	lost  map[types.UID]bool // objects whose status the other program wrote after this one
	told  map[types.UID]string
}

// yields reports whether another program maintains an object, and says so once. If somebody requests a poll of an object
// whose status was contested, it is claimed anew.
func (c *controller) yields(ctx context.Context, src source.Source, object client.Object) (bool, error) {
	kind, ok := c.kind.(Contested)
	if !ok {
		return false, nil
	}
	c.contests.mu.Lock()
	defer c.contests.mu.Unlock()
	now := c.Clock.Now()
	if c.contests.asked.IsZero() || now.Sub(c.contests.asked) >= rivalAge {
		rival, err := kind.Rival(ctx, c.Live)
		if err != nil {
			return false, err
		}
		c.contests.rival, c.contests.asked = rival, now
	}
	if c.contests.lost[src.UID] && src.PollRequested() {
		delete(c.contests.lost, src.UID)
		kind.Disclaim(object)
	}
	note := ""
	switch {
	case src.State == source.Deleting && c.contests.rival == "": // our finalizer must not wait for the other program
	case c.contests.rival != "":
		note = c.contests.rival + ". This catalogd leaves the object to it: remove one of the two"
	case c.contests.lost[src.UID]:
		note = fmt.Sprintf("Another program changed the status of this object after catalogd. This catalogd leaves the object to it: "+
			"remove that program, then run `kubectl catalog refresh %s`", src.Name)
	}
	c.Metrics.Contested(src.Name, note != "")
	if note != "" && c.contests.told[src.UID] != note {
		c.Recorder.Eventf(object, nil, corev1.EventTypeWarning, "Contested", "WriteStatus", "%s", note)
		logf.FromContext(ctx).Info("leaving the object to another program", "reason", note)
	}
	c.contests.told = with(c.contests.told, src.UID, note)
	return note != "", nil
}

// lose notes that another program wrote the status of an object after this one.
func (c *controller) lose(uid types.UID) {
	c.contests.mu.Lock()
	defer c.contests.mu.Unlock()
	c.contests.lost = with(c.contests.lost, uid, true)
}

// with sets a key of a map, and returns the map; m may be nil.
func with[V any](m map[types.UID]V, key types.UID, value V) map[types.UID]V {
	if m == nil {
		m = map[types.UID]V{}
	}
	m[key] = value
	return m
}
