package serve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/operator-catalogs/catalogd/internal/limit"
	"github.com/operator-catalogs/catalogd/internal/store"
)

const (
	heartbeatInterval = 25 * time.Second // between comments in a silent feed: many proxies close connections that are silent for 30 s
	minLifetime       = 30 * time.Minute // of a feed; at most twice as long. Access is checked when the client reconnects
	reconnectDelay    = 5 * time.Second  // of clients whose feed ended
	maxEvents         = 16               // kept encoded digest events
)

// digestEvent is the data of an event "digest".
type digestEvent struct {
	Catalog      string    `json:"catalog"`
	Digest       string    `json:"digest"`
	URL          string    `json:"url"` // of this version; the content is below it, at /api/v1
	LastModified time.Time `json:"lastModified"`
	*changes
}

// changes are the packages that differ between two versions; each list is sorted and never null.
type changes struct {
	Previous string   `json:"previous"` // the version that the client had
	Added    []string `json:"added"`
	Changed  []string `json:"changed"`
	Removed  []string `json:"removed"`
}

// removedEvent is the data of an event "removed". It is the last event of the feed of one catalog.
type removedEvent struct {
	Catalog string `json:"catalog"`
}

// feeds serves changes of catalogs as server-sent events (WHATWG HTML, section 9.2).
type feeds struct {
	*lookup
	slots     limit.Slots
	events    *eventCache
	done      <-chan struct{}
	heartbeat func() <-chan time.Time // receives when a feed has been silent for long
	lifetime  func() <-chan time.Time // receives when a feed that begins now must end
}

func newFeeds(l *lookup, slots limit.Slots, done <-chan struct{}) *feeds {
	return &feeds{
		lookup: l, slots: slots, events: newEventCache(), done: done,
		heartbeat: func() <-chan time.Time { return time.After(heartbeatInterval) },
		lifetime: func() <-chan time.Time {
			return time.After(minLifetime + rand.N(minLifetime)) //nolint:gosec // G404: not a secret; it spreads reconnects
		},
	}
}

// watch sends an event for the current version, then one for each new version. The id of an event is the version. A client
// that names its version, in Last-Event-ID or the parameter since, gets the changes from there if that version is still
// kept. For a slow reader several changes become one.
func (s *feeds) watch(w http.ResponseWriter, r *http.Request) error {
	values, err := parseParams(r, "since")
	if err != nil {
		return err
	}
	watched, err := s.catalog(r.PathValue("catalog"))
	if err != nil {
		return err
	}
	since := r.Header.Get("Last-Event-ID") // newer than the parameter, which a browser repeats when it reconnects
	if since == "" {
		since = values.Get("since")
	}
	return s.serve(w, r, func(f *feed) {
		had, _ := s.catalogs.CatalogAt(watched.Name, since)
		f.had = map[string]*store.Snapshot{watched.Name: had.Snapshot}
		f.current = func() []store.Catalog {
			c, ok := s.catalogs.Catalog(watched.Name)
			if !ok {
				return nil
			}
			return []store.Catalog{c}
		}
		f.endsEmpty = true
	})
}

// watchAll sends the events of watch for all catalogs, including catalogs that are added later. After a reconnect, it sends the
// current version of each catalog without changes, because an event id cannot name a version of each catalog.
func (s *feeds) watchAll(w http.ResponseWriter, r *http.Request) error {
	if _, err := parseParams(r); err != nil {
		return err
	}
	s.all(w) // names the missing catalogs
	return s.serve(w, r, func(f *feed) { f.current = s.catalogs.Catalogs })
}

// serve sends a feed. prepare sets its catalogs.
func (s *feeds) serve(w http.ResponseWriter, r *http.Request, prepare func(*feed)) error {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // keeps nginx from buffering events
	if r.Method == http.MethodHead {
		return nil
	}
	release, err := s.slots.Acquire()
	if err != nil {
		return err
	}
	defer release()
	f := &feed{w: w, control: http.NewResponseController(w), sent: map[string]*store.Snapshot{}}
	prepare(f)
	s.follow(r, f)
	return nil
}

// follow sends changes until the client disconnects, the catalog of the feed is removed, the lifetime of the feed ends or the process
// ends. While nothing changes, it holds only current snapshots.
func (s *feeds) follow(r *http.Request, feed *feed) {
	feed.send(fmt.Appendf(nil, "retry: %d\n\n", reconnectDelay.Milliseconds()), nil)
	ended := s.lifetime()
	for feed.err == nil {
		changed := s.catalogs.Changed()
		if s.sendChanges(feed) {
			continue // catalogs may have changed during the write
		}
		if feed.endsEmpty && len(feed.sent) == 0 {
			return
		}
		select {
		case <-changed:
		case <-s.heartbeat():
			feed.send([]byte(":\n\n"), nil)
		case <-ended:
			return
		case <-r.Context().Done():
			return
		case <-s.done:
			return
		}
	}
}

// sendChanges sends an event for each catalog that changed since its last event. It reports whether it sent any.
func (s *feeds) sendChanges(feed *feed) (changed bool) {
	removed := maps.Clone(feed.sent)
	maps.Copy(removed, feed.had)
	for _, c := range feed.current() {
		delete(removed, c.Name)
		before, ok := feed.sent[c.Name]
		if ok && c.Snapshot.Key() == before.Key() {
			continue
		}
		if !ok {
			before = feed.had[c.Name]
		}
		event, err := s.digestEvent(c, before)
		feed.send(event, err)
		feed.sent[c.Name], changed = c.Snapshot, true
	}
	feed.had = nil
	for _, name := range slices.Sorted(maps.Keys(removed)) {
		feed.send(encodeEvent("removed", "", removedEvent{Catalog: name}))
		delete(feed.sent, name)
		changed = true
	}
	return changed
}

// digestEvent returns the event for c after the version sent, nil if unknown. Feeds share equal events.
func (s *feeds) digestEvent(c store.Catalog, sent *store.Snapshot) ([]byte, error) {
	data := digestEvent{Catalog: c.Name, Digest: c.Snapshot.Info().Digest, URL: s.baseURL + versionPath(c), LastModified: c.Since}
	if sent == nil {
		return encodeEvent("digest", c.Snapshot.Version(), data)
	}
	key := eventKey{catalog: c.Name, from: sent.Key(), to: c.Snapshot.Key(), since: c.Since.UnixNano()}
	return s.events.get(key, func() ([]byte, error) {
		diff := c.Snapshot.ChangesSince(sent)
		data.changes = &changes{
			Previous: sent.Version(),
			Added:    append([]string{}, diff.Added...),
			Changed:  append([]string{}, diff.Changed...),
			Removed:  append([]string{}, diff.Removed...),
		}
		return encodeEvent("digest", c.Snapshot.Version(), data)
	})
}

// eventCache encodes each event once for all feeds: a catalog can have many packages and many watchers.
type eventCache struct {
	mu     sync.Mutex
	events map[eventKey]func() ([]byte, error) // at most maxEvents
}

type eventKey struct {
	catalog, from, to string // from and to are keys of snapshots
	since             int64  // Unix time in ns when to was first served
}

func newEventCache() *eventCache { return &eventCache{events: map[eventKey]func() ([]byte, error){}} }

func (c *eventCache) get(key eventKey, encode func() ([]byte, error)) ([]byte, error) {
	c.mu.Lock()
	event, ok := c.events[key]
	if !ok {
		for other := range c.events {
			if len(c.events) < maxEvents {
				break
			}
			delete(c.events, other) // any; a frequent one soon returns
		}
		event = sync.OnceValues(encode)
		c.events[key] = event
	}
	c.mu.Unlock()
	return event() // encoded without the lock, so other events do not wait
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

// feed is the change feed of one client. After the first error, it writes nothing.
type feed struct {
	w       io.Writer
	control *http.ResponseController
	err     error

	current   func() []store.Catalog     // the catalogs to follow
	sent      map[string]*store.Snapshot // the last sent version of each catalog
	had       map[string]*store.Snapshot // the version that the client had before; nil if unknown
	endsEmpty bool                       // it ends when its catalog is removed
}

// send writes and flushes text unless err is set. It then clears the deadline of the write, because a silent feed is not
// stalled.
func (f *feed) send(text []byte, err error) {
	if f.err = cmp.Or(f.err, err); f.err != nil {
		return
	}
	if _, f.err = f.w.Write(text); f.err != nil {
		return
	}
	if f.err = f.control.Flush(); f.err != nil {
		return
	}
	_ = f.control.SetWriteDeadline(time.Time{}) // some connections have none
}
