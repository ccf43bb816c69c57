package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/operator-catalogs/catalogd/internal/store"
)

const (
	maxWatches = 500              // change feeds at a time, half of the connections there are by default; each holds at most one old snapshot
	quiet      = 25 * time.Second // after which a comment is sent: proxies cut what is silent for 30 s, and clients that are gone are found
	lifetime   = 30 * time.Minute // of a feed, and as long again at most: whoever may no longer read is told no more when coming again
	retry      = 5 * time.Second  // how long a client that was cut off is to wait before it comes again
)

// digestEvent is the data of an event "digest".
type digestEvent struct {
	Catalog      string    `json:"catalog"`
	Digest       string    `json:"digest"`
	URL          string    `json:"url"` // below it is this content, at /api/v1; it does not move and ends in the version
	LastModified time.Time `json:"lastModified"`
	*changes
}

// changes are the packages in which a version differs from the one that the client had; sorted, and never null.
type changes struct {
	Previous string   `json:"previous"` // the version that the client had
	Added    []string `json:"added"`
	Changed  []string `json:"changed"`
	Removed  []string `json:"removed"`
}

// removedEvent is the data of an event "removed", after which a feed ends.
type removedEvent struct {
	Catalog string `json:"catalog"`
}

// watch serves the feed of a catalog's changes as server-sent events (WHATWG HTML, section 9.2): at once the version that is served, then
// each that comes after it. The id of an event is the version. A client that names the version it has, by Last-Event-ID or the parameter since, is told what changed from
// there, if that is still kept. One that reads slowly gets several changes as one. The feed ends after a while; clients come again.
func (s *server) watch(w http.ResponseWriter, r *http.Request) error {
	values, err := parseParams(r, "since")
	if err != nil {
		return err
	}
	current, err := s.catalog(r.PathValue("catalog"))
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	if r.Method == http.MethodHead {
		return nil
	}
	release, err := s.watches.take("change feeds")
	if err != nil {
		return err
	}
	defer release()
	since := r.Header.Get("Last-Event-ID") // newer than the parameter, which a browser that comes again still sends
	if since == "" {
		since = values.Get("since")
	}
	told, _ := s.Catalogs.CatalogAt(current.Name, since)
	feed := &feed{w: w, control: http.NewResponseController(w)}
	s.follow(r, feed, current.Name, told.Snapshot)
	return nil
}

// follow sends what changes until the client goes away, the catalog is removed or the process ends. told is what the client has; nil if
// that is not known. No other snapshot is held while nothing changes.
func (s *server) follow(r *http.Request, feed *feed, name string, told *store.Snapshot) {
	feed.send(fmt.Appendf(nil, "retry: %d\n\n", retry.Milliseconds()), nil)
	ended := s.lifetime()
	for first := true; feed.err == nil; {
		changed := s.Catalogs.Changed()
		c, ok := s.Catalogs.Catalog(name)
		if !ok {
			feed.send(encodeEvent("removed", "", removedEvent{Catalog: name}))
			return
		}
		if first || c.Snapshot.Key() != told.Key() {
			feed.send(s.digestEvent(c, told))
			told, first = c.Snapshot, false
			continue // it may have changed while this was sent
		}
		select {
		case <-changed:
		case <-s.heartbeat():
			feed.send([]byte(":\n\n"), nil)
		case <-ended:
			return
		case <-r.Context().Done():
			return
		case <-s.Done:
			return
		}
	}
}

// digestEvent is the event that tells of c to a feed that told of another snapshot last, or of none. All feeds that tell the same share it.
func (s *server) digestEvent(c store.Catalog, told *store.Snapshot) ([]byte, error) {
	data := digestEvent{Catalog: c.Name, Digest: c.Snapshot.Info().Digest, URL: s.BaseURL + fixedPath(c), LastModified: c.Since}
	if told == nil {
		return encodeEvent("digest", c.Snapshot.Version(), data)
	}
	key := eventKey{catalog: c.Name, from: told.Key(), to: c.Snapshot.Key(), since: c.Since.UnixNano()}
	return s.told.get(key, func() ([]byte, error) {
		diff := c.Snapshot.ChangesSince(told)
		data.changes = &changes{
			Previous: told.Version(),
			Added:    append([]string{}, diff.Added...),
			Changed:  append([]string{}, diff.Changed...),
			Removed:  append([]string{}, diff.Removed...),
		}
		return encodeEvent("digest", c.Snapshot.Version(), data)
	})
}

// maxEvents is how many events that tell what changed are kept: at a change, all feeds of the catalog want the same one.
const maxEvents = 16

// eventCache makes each event once, however many feeds tell it: a catalog may have many packages, and many watchers.
type eventCache struct {
	mu     sync.Mutex
	events map[eventKey]func() ([]byte, error) // at most maxEvents
	order  []eventKey                          // of events, the oldest first
}

type eventKey struct {
	catalog, from, to string // from and to are keys of snapshots
	since             int64  // when to was served first, in ns since 1970
}

func newEventCache() *eventCache {
	return &eventCache{events: make(map[eventKey]func() ([]byte, error))}
}

func (c *eventCache) get(key eventKey, encode func() ([]byte, error)) ([]byte, error) {
	c.mu.Lock()
	event, ok := c.events[key]
	if !ok {
		event = sync.OnceValues(encode)
		c.events[key] = event
		c.order = append(c.order, key)
		if len(c.order) > maxEvents {
			delete(c.events, c.order[0])
			c.order = slices.Delete(c.order, 0, 1)
		}
	}
	c.mu.Unlock()
	return event() // those who want another event do not wait for this one
}

func encodeEvent(kind, id string, data any) ([]byte, error) {
	encoded, err := json.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("encoding an event of a change feed: %w", err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "event: %s\n", kind)
	if id != "" {
		fmt.Fprintf(&b, "id: %s\n", id)
	}
	fmt.Fprintf(&b, "data: %s\n\n", encoded)
	return b.Bytes(), nil
}

// feed writes events. After the first error it writes nothing.
type feed struct {
	w       io.Writer
	control *http.ResponseController
	err     error
}

// send sends text at once, unless there is an error. A write has to get on, as any; silence after it is no stall, so the deadline that a
// write set is lifted.
func (f *feed) send(text []byte, err error) {
	if f.err != nil {
		return
	}
	if f.err = err; f.err != nil {
		return
	}
	if _, f.err = f.w.Write(text); f.err != nil {
		return
	}
	if f.err = f.control.Flush(); f.err != nil {
		return
	}
	_ = f.control.SetWriteDeadline(time.Time{}) // not every connection has one
}
