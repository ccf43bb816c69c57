package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/operator-catalogs/catalogd/internal/store"
)

const (
	maxWatches = 1000             // change feeds at a time: each holds a connection, and at most one old snapshot
	quiet      = 25 * time.Second // after which a comment is sent: proxies cut what is silent for 30 s, and clients that are gone are found
	lifetime   = 30 * time.Minute // of a feed, and as long again at most: whoever may no longer read is told no more when coming again
	retry      = 5 * time.Second  // how long a client that was cut off is to wait before it comes again
)

// digestEvent is the data of an event "digest".
type digestEvent struct {
	Catalog      string    `json:"catalog"`
	Digest       string    `json:"digest"`
	URL          string    `json:"url"` // below it is the content of this digest, at /api/v1; it does not move
	LastModified time.Time `json:"lastModified"`
	*changes
}

// changes are the packages in which a digest differs from the one that the client had; sorted, and never null.
type changes struct {
	Previous string   `json:"previous"`
	Added    []string `json:"added"`
	Changed  []string `json:"changed"`
	Removed  []string `json:"removed"`
}

// removedEvent is the data of an event "removed", after which a feed ends.
type removedEvent struct {
	Catalog string `json:"catalog"`
}

// watch serves the feed of a catalog's changes as server-sent events (WHATWG HTML, section 9.2): at once the digest that is served, then
// each that comes after it. A client that names the digest it has, by Last-Event-ID or the parameter since, is told what changed from
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
	feed.send(fmt.Sprintf("retry: %d\n\n", retry.Milliseconds()))
	ended := s.lifetime()
	for first := true; feed.err == nil; {
		changed := s.Catalogs.Changed()
		c, ok := s.Catalogs.Catalog(name)
		if !ok {
			feed.event("removed", "", removedEvent{Catalog: name})
			return
		}
		if first || c.Snapshot.Key() != told.Key() {
			feed.event("digest", c.Snapshot.Info().Digest, s.digestEvent(c, told))
			told, first = c.Snapshot, false
			continue // it may have changed while this was sent
		}
		select {
		case <-changed:
		case <-s.heartbeat():
			feed.send(":\n\n")
		case <-ended:
			return
		case <-r.Context().Done():
			return
		case <-s.Done:
			return
		}
	}
}

func (s *server) digestEvent(c store.Catalog, told *store.Snapshot) digestEvent {
	event := digestEvent{Catalog: c.Name, Digest: c.Snapshot.Info().Digest, URL: s.BaseURL + fixedPath(c), LastModified: c.Since}
	if told != nil {
		diff := c.Snapshot.ChangesSince(told)
		event.changes = &changes{
			Previous: told.Info().Digest,
			Added:    append([]string{}, diff.Added...),
			Changed:  append([]string{}, diff.Changed...),
			Removed:  append([]string{}, diff.Removed...),
		}
	}
	return event
}

// feed writes events. After the first error it writes nothing.
type feed struct {
	w       io.Writer
	control *http.ResponseController
	err     error
}

func (f *feed) event(kind, id string, data any) {
	encoded, err := json.Marshal(data)
	if err != nil {
		f.err = err
		return
	}
	text := "event: " + kind + "\n"
	if id != "" {
		text += "id: " + id + "\n"
	}
	f.send(text + "data: " + string(encoded) + "\n\n")
}

// send sends text at once. A write has to get on, as any; silence after it is no stall, so the deadline that a write set is lifted.
func (f *feed) send(text string) {
	if f.err != nil {
		return
	}
	if _, f.err = io.WriteString(f.w, text); f.err != nil {
		return
	}
	if f.err = f.control.Flush(); f.err != nil {
		return
	}
	_ = f.control.SetWriteDeadline(time.Time{}) // not every connection has one
}
