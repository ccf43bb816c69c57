package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/operator-catalogs/catalogd/internal/limit"
	"github.com/operator-catalogs/catalogd/internal/store"
	"github.com/operator-catalogs/catalogd/internal/testing/eventually"
)

// event is a server-sent event, or a comment, whose kind is ":".
type event struct {
	kind, id, data string
}

// events reads a feed.
type events struct {
	body io.ReadCloser
	in   *bufio.Reader
}

func watch(tb testing.TB, url string, headers ...string) *events {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute) // so that a feed that says nothing fails
	tb.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		tb.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := plain.Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		tb.Fatalf("%s: %s", url, resp.Status)
	}
	return newEvents(resp.Body)
}

func newEvents(body io.ReadCloser) *events { return &events{body: body, in: bufio.NewReader(body)} }

// next reads the next event, skipping retry.
func (e *events) next() (event, error) {
	var got event
	for {
		line, err := e.in.ReadString('\n')
		if err != nil {
			return got, err
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "event":
			got.kind = value
		case "id":
			got.id = value
		case "data":
			got.data = value
		case ":":
			got.kind = ":"
		case "":
			if got.kind != "" {
				return got, nil
			}
		}
	}
}

// digestData is a decoded digestEvent; nil lists are absent.
type digestData struct {
	Catalog, Digest, URL    string
	LastModified            time.Time
	Previous                string
	Added, Changed, Removed []string
}

func (e *events) wantDigest(tb testing.TB, want digestData) {
	tb.Helper()
	got, err := e.next()
	if err != nil {
		tb.Fatal(err)
	}
	var data digestData
	if err := json.Unmarshal([]byte(got.data), &data); err != nil {
		tb.Fatalf("%+v: %v", got, err)
	}
	want.URL = "https://catalogd.example/catalogs/" + want.Catalog + "/digests/" + want.Digest
	data.LastModified = time.Time{}
	if diff := cmp.Diff(want, data); got.kind != "digest" || got.id != want.Digest || diff != "" {
		tb.Fatalf("event %q with id %q, data (-want +got):\n%s", got.kind, got.id, diff)
	}
}

func packagesFS(version string, names ...string) fstest.MapFS {
	out := fstest.MapFS{}
	for _, name := range names {
		out[name+".json"] = validPackage(name, version)
	}
	return out
}

func TestWatch(t *testing.T) {
	st := openStore(t)
	one := packagesFS("1.0.0", "gone", "kept", "moved")
	commit(t, st, "c", "1", one)
	commit(t, st, "other", "9", one)
	base := startServer(t, newHandler(st)) + "/catalogs/c/api/v1/watch"
	feed := watch(t, base)
	feed.wantDigest(t, digestData{Catalog: "c", Digest: digestOf("1")})

	commit(t, st, "other", "8", packagesFS("2.0.0", "new")) // is none of this feed's business
	two := packagesFS("1.0.0", "kept", "new")
	two["moved.json"] = validPackage("moved", "2.0.0")
	commit(t, st, "c", "2", two)
	second := digestData{
		Catalog: "c", Digest: digestOf("2"), Previous: digestOf("1"),
		Added: []string{"new"}, Changed: []string{"moved"}, Removed: []string{"gone"},
	}
	feed.wantDigest(t, second)

	// A client that reconnects gets the events that it missed, if they are kept; the header takes precedence.
	watch(t, base, "Last-Event-ID", digestOf("1")).wantDigest(t, second)
	watch(t, base+"?since="+digestOf("1")).wantDigest(t, second)
	watch(t, base+"?since="+digestOf("2"), "Last-Event-ID", digestOf("1")).wantDigest(t, second)
	watch(t, base, "Last-Event-ID", digestOf("9")).wantDigest(t, digestData{Catalog: "c", Digest: digestOf("2")})

	// Back to what it was.
	commit(t, st, "c", "1", one)
	feed.wantDigest(t, digestData{
		Catalog: "c", Digest: digestOf("1"), Previous: digestOf("2"),
		Added: []string{"gone"}, Changed: []string{"moved"}, Removed: []string{"new"},
	})

	if err := st.Remove("c"); err != nil {
		t.Fatal(err)
	}
	got, err := feed.next()
	if want := (event{kind: "removed", data: `{"catalog":"c"}`}); err != nil || got != want {
		t.Errorf("after the catalog was removed: %+v, error %v, want %+v", got, err, want)
	}
	if got, err := feed.next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last event: %+v, error %v", got, err)
	}
}

// TestWatchAll follows all catalogs over additions, changes and removals.
func TestWatchAll(t *testing.T) {
	st := openStore(t)
	one := packagesFS("1.0.0", "a")
	commit(t, st, "b", "1", one)
	commit(t, st, "a", "2", one)
	base := startServer(t, newHandler(st)) + "/api/v1/watch"
	feed := watch(t, base)
	feed.wantDigest(t, digestData{Catalog: "a", Digest: digestOf("2")})
	feed.wantDigest(t, digestData{Catalog: "b", Digest: digestOf("1")})

	commit(t, st, "c", "3", one)
	feed.wantDigest(t, digestData{Catalog: "c", Digest: digestOf("3")})
	commit(t, st, "a", "4", packagesFS("1.0.0", "a", "new"))
	feed.wantDigest(t, digestData{
		Catalog: "a", Digest: digestOf("4"), Previous: digestOf("2"), Added: []string{"new"}, Changed: []string{}, Removed: []string{},
	})
	if err := st.Remove("b"); err != nil {
		t.Fatal(err)
	}
	got, err := feed.next()
	if want := (event{kind: "removed", data: `{"catalog":"b"}`}); err != nil || got != want {
		t.Errorf("after the catalog was removed: %+v, error %v, want %+v", got, err, want)
	}
	commit(t, st, "b", "1", one)
	feed.wantDigest(t, digestData{Catalog: "b", Digest: digestOf("1")})

	again := watch(t, base, "Last-Event-ID", digestOf("2"))
	again.wantDigest(t, digestData{Catalog: "a", Digest: digestOf("4")})
}

// TestWatchVersions checks that another configDir of the same image is another version, in events and for reconnecting clients.
func TestWatchVersions(t *testing.T) {
	st := openStore(t)
	source := store.Source{Image: "quay.io/example/c:v1", Digest: digestOf("1")}
	commitSource(t, st, "c", source, packagesFS("1.0.0", "a"))
	base := startServer(t, newHandler(st)) + "/catalogs/c/api/v1/watch"
	feed := watch(t, base)
	feed.wantDigest(t, digestData{Catalog: "c", Digest: digestOf("1")})
	source.ConfigDir = "/b"
	commitSource(t, st, "c", source, packagesFS("1.0.0", "b"))
	for _, feed := range []*events{feed, watch(t, base, "Last-Event-ID", digestOf("1"))} {
		got, err := feed.next()
		if err != nil {
			t.Fatal(err)
		}
		version := st.Catalogs()[0].Snapshot.Version()
		if got.id != version || got.id == digestOf("1") ||
			!strings.Contains(got.data, `"digest":"`+digestOf("1")+`","url":"https://catalogd.example/catalogs/c/digests/`+version+`"`) ||
			!strings.Contains(got.data, `"previous":"`+digestOf("1")+`","added":["b"],"changed":[],"removed":["a"]}`) {
			t.Errorf("of version %s: %+v", version, got)
		}
		again, err := watch(t, base+"?since="+got.id).next()
		if want := `"previous":"` + version + `","added":[],"changed":[],"removed":[]}`; err != nil || !strings.HasSuffix(again.data, want) {
			t.Errorf("after reconnecting: %+v, error %v, want %s", again, err, want)
		}
	}
}

// TestWatchersShareEvents checks that an event is encoded once for many feeds.
func TestWatchersShareEvents(t *testing.T) {
	st := openStore(t)
	commit(t, st, "c", "1", packagesFS("1.0.0", "a"))
	old := st.Catalogs()[0].Snapshot
	commit(t, st, "c", "2", packagesFS("1.0.0", "b"))
	s, c := newServer(testConfig(st)), st.Catalogs()[0]
	first, err := s.feeds.digestEvent(c, old)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.feeds.digestEvent(c, old); err != nil || &again[0] != &first[0] {
		t.Errorf("the same event is made twice: %s, error %v", again, err)
	}
	c.Since = c.Since.Add(time.Hour)
	if later, err := s.feeds.digestEvent(c, old); err != nil || bytes.Equal(later, first) {
		t.Errorf("served again at another time, it has the first time: %s, error %v", later, err)
	}
}

// TestEventCache requests each of many events for many feeds at once.
func TestEventCache(t *testing.T) {
	cache, feeds := newEventCache(), sync.WaitGroup{}
	for i := range 3 * int64(maxEvents) {
		var made atomic.Int64
		for range 20 {
			feeds.Go(func() {
				text, err := cache.get(eventKey{since: i}, func() ([]byte, error) { return fmt.Append(nil, made.Add(1)), nil })
				if err != nil || string(text) != "1" {
					t.Errorf("event %d: %q, error %v", i, text, err)
				}
			})
		}
		feeds.Wait()
	}
	if n := len(cache.events); n != maxEvents {
		t.Errorf("the cache holds %d events, want %d", n, maxEvents)
	}
}

// slowWriter is a client that takes each write when the test allows it.
type slowWriter struct {
	httptest.ResponseRecorder
	begun chan string
	taken chan struct{}
}

func (w *slowWriter) Write(p []byte) (int, error) {
	w.begun <- string(p)
	<-w.taken
	return len(p), nil
}

// TestWatchMergesForSlowReader commits three times while the client takes the first event. It must get one more event, relative to
// the first.
func TestWatchMergesForSlowReader(t *testing.T) {
	st := openStore(t)
	commit(t, st, "c", "1", packagesFS("1.0.0", "a", "b"))
	ctx, cancel := context.WithCancel(t.Context())
	w := &slowWriter{begun: make(chan string), taken: make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		newHandler(st).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/catalogs/c/api/v1/watch", nil))
	}()
	<-w.begun // retry
	w.taken <- struct{}{}
	if first := <-w.begun; !strings.Contains(first, "id: "+digestOf("1")) {
		t.Errorf("the first event is %s", first)
	}
	commit(t, st, "c", "2", packagesFS("1.0.0", "a", "b", "brief"))
	commit(t, st, "c", "3", packagesFS("1.0.0", "a"))
	commit(t, st, "c", "4", packagesFS("2.0.0", "a"))
	w.taken <- struct{}{}
	second := <-w.begun
	want := `"previous":"` + digestOf("1") + `","added":[],"changed":["a"],"removed":["b"]}`
	if !strings.Contains(second, "id: "+digestOf("4")) || !strings.Contains(second, want) {
		t.Errorf("after three changes comes\n%s\nwithout %s", second, want)
	}
	cancel()
	w.taken <- struct{}{}
	<-done
}

func TestWatchHeartbeat(t *testing.T) {
	st := openStore(t)
	commit(t, st, "c", "1", packagesFS("1.0.0", "a"))
	beats := make(chan time.Time)
	s := newServer(testConfig(st))
	s.feeds.heartbeat = func() <-chan time.Time { return beats }
	feed := watch(t, startServer(t, s)+"/catalogs/c/api/v1/watch")
	feed.wantDigest(t, digestData{Catalog: "c", Digest: digestOf("1")})
	for range 3 {
		beats <- time.Time{}
		line, err := feed.in.ReadString('\n')
		if err != nil || line != ":\n" {
			t.Fatalf("after a while of silence: %q, error %v, want a comment", line, err)
		}
		if line, err := feed.in.ReadString('\n'); err != nil || line != "\n" {
			t.Fatalf("after the comment: %q, error %v", line, err)
		}
	}
}

// A feed ends after its lifetime, so that access is checked again.
func TestWatchLifetime(t *testing.T) {
	st := openStore(t)
	commit(t, st, "c", "1", packagesFS("1.0.0", "a"))
	ends := make(chan time.Time)
	s := newServer(testConfig(st))
	s.feeds.lifetime = func() <-chan time.Time { return ends }
	feed := watch(t, startServer(t, s)+"/catalogs/c/api/v1/watch")
	feed.wantDigest(t, digestData{Catalog: "c", Digest: digestOf("1")})
	ends <- time.Time{}
	if rest, err := io.ReadAll(feed.in); err != nil || len(rest) > 0 {
		t.Errorf("at its end: %q, error %v, want neither", rest, err)
	}
}

// TestWatchEnds checks that a feed ends when the client disconnects or the process ends.
func TestWatchEnds(t *testing.T) {
	st := openStore(t)
	commit(t, st, "c", "1", packagesFS("1.0.0", "a"))
	ending := make(chan struct{})
	cfg := testConfig(st)
	cfg.Done = ending
	s := newServer(cfg)
	url := startServer(t, s) + "/catalogs/c/api/v1/watch"
	first, second := watch(t, url), watch(t, url)
	for _, feed := range []*events{first, second} {
		feed.wantDigest(t, digestData{Catalog: "c", Digest: digestOf("1")})
	}
	if err := first.body.Close(); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "the feed of the client that went away to end", func() bool { return s.feeds.slots.Used() == 1 })
	close(ending)
	if got, err := second.next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the process's end: %+v, error %v", got, err)
	}
	eventually.Holds(t, "all feeds to end", func() bool { return s.feeds.slots.Used() == 0 })
}

func TestWatchesAreBounded(t *testing.T) {
	st := openStore(t)
	commit(t, st, "c", "1", packagesFS("1.0.0", "a"))
	s := newServer(testConfig(st))
	s.feeds.slots = limit.NewSlots("change feeds", 2)
	url := startServer(t, s) + "/catalogs/c/api/v1/watch"
	first := watch(t, url)
	first.wantDigest(t, digestData{Catalog: "c", Digest: digestOf("1")})
	watch(t, url).wantDigest(t, digestData{Catalog: "c", Digest: digestOf("1")})
	resp, body := do(t, http.MethodGet, url, "")
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "1" || resp.Header.Get("X-Accel-Buffering") != "" {
		t.Errorf("the third: status %d, header %v, %q", resp.StatusCode, resp.Header, body)
	}
	if status := statusOf(t, url); status != http.StatusOK {
		t.Errorf("HEAD: status %d", status)
	}
	if err := first.body.Close(); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "a slot", func() bool { return s.feeds.slots.Used() == 1 })
	watch(t, url).wantDigest(t, digestData{Catalog: "c", Digest: digestOf("1")})
}

// deadlineRecorder records the order of writes and deadlines.
type deadlineRecorder struct {
	http.ResponseWriter
	did []string
}

func (w *deadlineRecorder) Write(p []byte) (int, error) {
	w.did = append(w.did, "write")
	return w.ResponseWriter.Write(p)
}

func (w *deadlineRecorder) Flush() { w.did = append(w.did, "flush") }

func (w *deadlineRecorder) SetWriteDeadline(t time.Time) error {
	if !t.IsZero() {
		return errors.New("a deadline")
	}
	w.did = append(w.did, "lift")
	return nil
}

// TestWatchClearsDeadline checks that a silent feed has no write deadline, but a write has one.
func TestWatchClearsDeadline(t *testing.T) {
	st := openStore(t)
	commit(t, st, "c", "1", packagesFS("1.0.0", "a"))
	ending := make(chan struct{})
	close(ending)
	cfg := testConfig(st)
	cfg.Done = ending
	w := &deadlineRecorder{ResponseWriter: httptest.NewRecorder()}
	New(cfg).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/catalogs/c/api/v1/watch", nil))
	want := []string{"write", "flush", "lift", "write", "flush", "lift"}
	if diff := cmp.Diff(want, w.did); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestWatchOfVanishedCatalog removes the catalog after the request was admitted.
func TestWatchOfVanishedCatalog(t *testing.T) {
	s := newServer(testConfig(openStore(t)))
	w := httptest.NewRecorder()
	s.feeds.follow(httptest.NewRequest(http.MethodGet, "/", nil), &feed{
		w: w, control: http.NewResponseController(w), current: func() []store.Catalog { return nil },
		sent: map[string]*store.Snapshot{}, had: map[string]*store.Snapshot{"c": nil}, endsEmpty: true,
	})
	if want := "retry: 5000\n\nevent: removed\ndata: {\"catalog\":\"c\"}\n\n"; w.Body.String() != want {
		t.Errorf("got %q, want %q", w.Body, want)
	}
}
