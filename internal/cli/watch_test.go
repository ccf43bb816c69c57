package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/operator-catalogs/catalogd/internal/cli/content"
	term "github.com/operator-catalogs/catalogd/internal/cli/output"
)

func TestLineOfChange(t *testing.T) {
	at := time.Date(2026, 11, 22, 9, 30, 0, 0, time.Local)
	changes := &content.Changes{Added: []string{"alpha"}, Changed: []string{"beta", "gamma"}, Removed: []string{"delta"}}
	for _, c := range []struct {
		name     string
		terminal term.Terminal
		change   feedChange
		want     string
	}{
		{"first", term.Terminal{}, feedChange{Type: content.Digest, Digest: "sha256:0123456789abcdef"}, "0123456789ab  is served"},
		{"changes", term.Terminal{}, feedChange{Digest: "sha256:0123", Changes: changes}, "0123  +alpha ~beta ~gamma -delta"},
		{"lost", term.Terminal{}, feedChange{Digest: "sha256:0123", Changes: changes, LeftOut: []leftOut{{"omega", "no head"}}}, "0123  !omega +alpha ~beta ~gamma -delta"},
		{"coloured", term.Terminal{Colours: true}, feedChange{Digest: "sha256:0123", Changes: changes},
			"0123  \x1b[32m+alpha\x1b[0m \x1b[33m~beta\x1b[0m \x1b[33m~gamma\x1b[0m \x1b[31m-delta\x1b[0m"},
		{"as wide as it has to be", term.Terminal{Width: 72}, feedChange{Digest: "sha256:0123", Changes: changes}, "0123  +alpha ~beta ~gamma -delta"},
		{"too many", term.Terminal{Width: 70}, feedChange{Digest: "sha256:0123", Changes: changes}, "0123  +1 ~2 -1: +alpha ~beta …"},
		{"at least one", term.Terminal{Width: 10}, feedChange{Digest: "sha256:0123", Changes: changes}, "0123  +1 ~2 -1: +alpha …"},
		{"none", term.Terminal{}, feedChange{Digest: "sha256:0123", Changes: &content.Changes{}}, "0123  no package differs"},
		{"removed", term.Terminal{}, feedChange{Type: content.Removed}, "is not served any more"},
		{"hostile", term.Terminal{}, feedChange{Digest: "sha256:0123", Changes: &content.Changes{Added: []string{"a\x1b[2J\n"}}}, "0123  +a\uFFFD[2J"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.change.Time, c.change.Catalog = at, "sample"
			e := &env{stdout: &c.terminal}
			if got, want := e.changeLine(c.change), "2026-11-22 09:30:00  sample            "+c.want; got != want {
				t.Errorf("got\n%q, want\n%q", got, want)
			}
		})
	}
}

// A catalog that cannot be followed is told of, and the others are followed; it is an error only where there is no other.
func TestWatchWithoutOneThatFails(t *testing.T) {
	feed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: digest\nid: 1\ndata: {\"catalog\":\"fine\",\"digest\":\"sha256:0123\"}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer feed.Close()
	for name, bases := range map[string]map[string]string{
		"one of two": {"fine": feed.URL + "/catalogs/fine", "wrong": "ftp://wrong"},
		"the only":   {"wrong": "ftp://wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			server := apiServer(t, bases)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			came := make(chan string, 10)
			e := newEnv(genericiooptions.NewTestIOStreamsDiscard(), func(string) string { return "" }, "test")
			e.kube.APIServer, e.stderr = &server, &term.Terminal{Writer: writerFunc(func(text []byte) { came <- string(text) })}
			ended := make(chan error, 1)
			go func() {
				ended <- e.eachEvent(ctx, nil, func(_ context.Context, _ *content.Service, event content.Event) (func() error, error) {
					return func() error { came <- event.Catalog; return nil }, nil
				}, nil)
			}()
			if len(bases) == 1 {
				if err := <-ended; err == nil || !strings.Contains(err.Error(), `where catalog "wrong"`) {
					t.Errorf("it ended with %v", err)
				}
				return
			}
			first, second := <-came, <-came
			if both := first + second; !strings.Contains(both, "fine") || !strings.Contains(both, "wrong: ") {
				t.Errorf("got %q, then %q", first, second)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(text []byte) (int, error) {
	f(text)
	return len(text), nil
}

// Where what there is to tell cannot be written, it is the end of all feeds, and not tried again.
func TestWatchEndsWhereNobodyReads(t *testing.T) {
	closed := errors.New("the pipe is closed")
	w := &watcher{env: &env{stderr: &term.Terminal{Writer: io.Discard}}, came: true, running: 2}
	w.each = func(context.Context, *content.Service, content.Event) (func() error, error) {
		return func() error { return closed }, nil
	}
	f := &watchedFeed{}
	err := w.show(t.Context(), nil, f, content.Event{Type: content.Digest, ID: "1"})
	if err = w.ended(t.Context(), "a", f, err); !errors.Is(err, closed) {
		t.Errorf("it ends with %v, want %v", err, closed)
	}
}

// An event that could not be told is told again, with all that changed since the one before.
func TestWatchLosesNoEvent(t *testing.T) {
	failure := errors.New("the list could not be had")
	w := &watcher{each: func(context.Context, *content.Service, content.Event) (func() error, error) {
		return func() error { return nil }, failure
	}}
	f := &watchedFeed{last: "1", failed: "same"}
	if err := w.show(t.Context(), nil, f, content.Event{Type: content.Digest, ID: "2"}); !errors.Is(err, failure) || f.last != "1" || f.failed != "same" {
		t.Errorf("%v, %+v", err, f)
	}
	failure = nil
	if err := w.show(t.Context(), nil, f, content.Event{Type: content.Digest, ID: "2"}); err != nil || f.last != "2" || f.failed != "" {
		t.Errorf("%v, %+v", err, f)
	}
}

// A server that is named by --server-url may say what it likes of what it has.
func TestWatchOfAHostileName(t *testing.T) {
	var errs strings.Builder
	w := &watcher{env: &env{stderr: &term.Terminal{Writer: &errs}}, came: true}
	const name = "a\x1b[2Jb"
	lost := w.show(t.Context(), nil, &watchedFeed{}, content.Event{Type: content.Lost, Catalog: name, Err: errors.New("away")})
	failed := w.ended(t.Context(), name, &watchedFeed{}, errors.New("gone\a"))
	if want := "a\ufffd[2Jb: away; trying again\na\ufffd[2Jb: gone\ufffd; trying again\n"; lost != nil || failed != nil || errs.String() != want {
		t.Errorf("%v, %v: %q", lost, failed, errs.String())
	}
}

// That a catalog is not served any more is told once, though it may be asked for before its status says so.
func TestWatchTellsOfARemovalOnce(t *testing.T) {
	var errs strings.Builder
	w := &watcher{env: &env{stderr: &term.Terminal{Writer: &errs}}, each: func(context.Context, *content.Service, content.Event) (func() error, error) {
		return func() error { return nil }, nil
	}}
	f := &watchedFeed{}
	gone := &content.Error{Code: http.StatusNotFound, Message: "not here"}
	for _, kind := range []string{content.Removed, content.Digest} {
		if err := errors.Join(w.show(t.Context(), nil, f, content.Event{Type: kind}), w.ended(t.Context(), "mine", f, gone)); err != nil {
			t.Error(err)
		}
		if want := map[string]string{content.Removed: "", content.Digest: "mine: not here; trying again\n"}[kind]; errs.String() != want {
			t.Errorf("after %s: %q", kind, errs.String())
		}
	}
}
