package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/exit"
	"github.com/operator-catalogs/catalogd/internal/cli/follow"
	"github.com/operator-catalogs/catalogd/internal/cli/session/sessiontest"
)

// A failing feed is reported, and the others continue. It is an error only without others.
func TestWatchToleratesFailingCatalog(t *testing.T) {
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
			s := sessiontest.New(t, writerFunc(func(text []byte) { came <- string(text) }), "--server", server)
			ended := make(chan error, 1)
			go func() {
				event := func(_ context.Context, _ *content.Service, event content.Event) (func() error, error) {
					return func() error { came <- event.Catalog; return nil }, nil
				}
				ended <- follow.Content(ctx, s, nil, follow.Handler{Event: event})
			}()
			if len(bases) == 1 {
				if err := <-ended; err == nil || !strings.Contains(err.Error(), `catalog "wrong"`) {
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

func TestWatchReturnsErrorOfFirstList(t *testing.T) {
	for _, args := range [][]string{{"list", "--watch"}, {"watch"}} {
		if code, _, stderr := run(t, args...); code != exit.Failure || !strings.Contains(stderr, "connection refused") {
			t.Errorf("%q: exit code %d: %s", args, code, stderr)
		}
	}
}
