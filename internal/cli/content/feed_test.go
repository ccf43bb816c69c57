package content

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// A turn is the response to one request for a feed.
type turn func(w http.ResponseWriter, r *http.Request)

func sends(text string) turn {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, text)
	}
}

func refuses(code int) turn {
	return func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, fmt.Sprintf("%d %s\nno", code, http.StatusText(code)), code)
	}
}

// hangs sends text and then nothing until the client disconnects.
func hangs(text string) turn {
	return func(w http.ResponseWriter, r *http.Request) {
		sends(text)(w, r)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

// serveTurns uses a turn for each request, and returns the received Last-Event-IDs.
func serveTurns(t *testing.T, turns ...turn) (*Service, *[]string) {
	t.Helper()
	var ids []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ids = append(ids, r.Header.Get("Last-Event-ID"))
		if r.URL.Path != "/catalogs/community/api/v1/watch" || len(ids) > len(turns) {
			refuses(http.StatusTeapot)(w, r)
			return
		}
		turns[len(ids)-1](w, r)
	}))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return &Service{base: u, http: &http.Client{Timeout: 10 * time.Second}}, &ids
}

func digestOf(id, rest string) string {
	return fmt.Sprintf("retry: 1\n\nevent: digest\nid: %s\ndata: {\"catalog\":\"community\",\"digest\":%q%s}\n\n", id, id, rest)
}

const removedText = "event: removed\ndata: {\"catalog\":\"community\"}\n\n"

func TestWatch(t *testing.T) {
	one := Event{Type: Digest, ID: "1", Catalog: "community", Digest: "1"}
	two := Event{
		Type:    Digest,
		ID:      "2",
		Catalog: "community",
		Digest:  "2",
		Changes: &Changes{Previous: "1", Added: []string{"a"}, Changed: []string{}, Removed: []string{"b"}},
	}
	twoText := digestOf("2", `,"previous":"1","added":["a"],"changed":[],"removed":["b"]`)
	gone := Event{Type: Removed, Catalog: "community"}
	lost := Event{Type: Lost, Catalog: "community"}
	for _, c := range []struct {
		name  string
		since string
		turns []turn
		want  []Event
		ids   []string
		code  int // of the error
	}{
		{"one feed", "", []turn{sends(digestOf("1", "") + twoText + removedText)}, []Event{one, two, gone}, []string{""}, 0},
		{
			"continued",
			"",
			[]turn{sends(digestOf("1", "")), sends(twoText), sends(removedText)},
			[]Event{one, two, gone},
			[]string{"", "1", "2"},
			0,
		},
		{"continued from an earlier call", "1", []turn{sends(digestOf("1", "") + removedText)}, []Event{one, gone}, []string{"1"}, 0},
		{
			"continued without a change",
			"",
			[]turn{sends(digestOf("1", "")), sends(digestOf("1", "") + twoText + removedText)},
			[]Event{one, two, gone},
			[]string{"", "1"},
			0,
		},
		{
			"broken off in an event",
			"",
			[]turn{sends(digestOf("1", "") + twoText[:len(twoText)-1]), sends(twoText + removedText)},
			[]Event{one, two, gone},
			[]string{"", "1"},
			0,
		},
		{
			"an event of a later release",
			"",
			[]turn{sends("event: news\ndata: 1\n\n" + digestOf("1", "") + removedText)},
			[]Event{one, gone},
			[]string{""},
			0,
		},
		{
			"unreachable for some time",
			"",
			[]turn{sends(digestOf("1", "")), refuses(503), refuses(429), sends(twoText + removedText)},
			[]Event{one, lost, two, gone},
			[]string{"", "1", "1", "1"},
			0,
		},
		{"removed while disconnected", "", []turn{sends(digestOf("1", "")), refuses(404)}, []Event{one, gone}, []string{"", "1"}, 0},
		{
			"unreachable behind a gateway",
			"",
			[]turn{sends(digestOf("1", "")), http.NotFound, sends(twoText + removedText)},
			[]Event{one, lost, two, gone},
			[]string{"", "1", "1"},
			0,
		},
		{"forbidden later", "", []turn{sends(digestOf("1", "")), refuses(403)}, []Event{one}, []string{"", "1"}, 403},
		{"not found at first", "", []turn{refuses(404)}, nil, []string{""}, 404},
		{"unreachable at first", "", []turn{refuses(503)}, nil, []string{""}, 503},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, ids := serveTurns(t, c.turns...)
			var got []Event
			f := &feed{service: s.Untimed(), catalog: "community", id: c.since, wait: time.Millisecond, silence: silence, each: func(e Event) error {
				got = append(got, e)
				return nil
			}}
			err := f.watch(t.Context())
			var refused *Error
			if errors.As(err, &refused); (err != nil) != (c.code != 0) || refused != nil && refused.Code != c.code {
				t.Errorf("error is %v, want code %d", err, c.code)
			}
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(Event{}, "Err")); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.ids, *ids); diff != "" {
				t.Errorf("Last-Event-ID: %s", diff)
			}
		})
	}
}

// The wait is within limits, whatever the server sets.
func TestWatchWaitsBetweenConnections(t *testing.T) {
	for retry, want := range map[string]time.Duration{
		"": firstWait, "retry: 0": firstWait, "retry: 1": minWait, "retry: 3000": 3 * time.Second, "retry: 99999999": maxWait,
	} {
		f := &feed{wait: firstWait, minWait: minWait}
		if err := f.read(strings.NewReader(retry + "\n\n")); err != nil || f.wait != want {
			t.Errorf("%q: waits %s, want %s; %v", retry, f.wait, want, err)
		}
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	s, _ := serveTurns(t, hangs(digestOf("1", "")))
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Watch(ctx, "community", "", func(Event) error {
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestWatchReturnsErrorOfCallback(t *testing.T) {
	enough := errors.New("enough")
	s, _ := serveTurns(t, hangs(digestOf("1", "")))
	if err := s.Watch(t.Context(), "community", "", func(Event) error { return enough }); !errors.Is(err, enough) {
		t.Error(err)
	}
}

func TestWatchRefusesOtherMediaTypes(t *testing.T) {
	s, _ := serveTurns(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") })
	if err := s.Watch(t.Context(), "community", "", func(Event) error { return nil }); err == nil {
		t.Error("an HTML page was accepted as a feed")
	}
}

// Request timeouts do not apply to feeds. Only silent connections are closed.
func TestWatchEndsSilentConnectionsOnly(t *testing.T) {
	later := func(w http.ResponseWriter, r *http.Request) {
		hangsFor := time.After(300 * time.Millisecond)
		sends(digestOf("1", ""))(w, r)
		for open := true; open; {
			select {
			case <-hangsFor:
				open = false
			case <-time.After(20 * time.Millisecond):
				fmt.Fprint(w, ":\n\n")
			}
			w.(http.Flusher).Flush()
		}
		fmt.Fprint(w, removedText)
	}
	s, ids := serveTurns(t, hangs(digestOf("1", "")), later)
	s.http.Timeout = 100 * time.Millisecond
	var got []string
	f := &feed{service: s.Untimed(), catalog: "community", wait: time.Millisecond, silence: 150 * time.Millisecond, each: func(e Event) error {
		got = append(got, e.Type)
		return nil
	}}
	if err := f.watch(t.Context()); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{Digest, Removed}, got); diff != "" {
		t.Error(diff)
	}
	if len(*ids) != 2 {
		t.Errorf("%d connections, want 2: the first is silent, the second is not", len(*ids))
	}
}
