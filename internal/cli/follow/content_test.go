package follow

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/operator-catalogs/catalogd/internal/cli/content"
	"github.com/operator-catalogs/catalogd/internal/cli/session/sessiontest"
)

func TestClosedOutputEndsAllFeeds(t *testing.T) {
	closed := errors.New("the pipe is closed")
	w := &feeds{session: sessiontest.New(t, io.Discard), started: true, running: 2}
	w.handler.Event = func(context.Context, *content.Service, content.Event) (func() error, error) {
		return func() error { return closed }, nil
	}
	f := &feed{}
	err := w.report(t.Context(), nil, f, content.Event{Type: content.Digest, ID: "1"})
	if err = w.ended(t.Context(), "a", f, err); !errors.Is(err, closed) {
		t.Errorf("it ends with %v, want %v", err, closed)
	}
}

// An event whose details could not be read is repeated, with all changes since the previous one.
func TestFailedEventIsRepeated(t *testing.T) {
	failure := errors.New("the list could not be had")
	w := &feeds{handler: Handler{Event: func(context.Context, *content.Service, content.Event) (func() error, error) {
		return func() error { return nil }, failure
	}}}
	f := &feed{last: "1", failure: "same"}
	if err := w.report(t.Context(), nil, f, content.Event{Type: content.Digest, ID: "2"}); !errors.Is(err, failure) ||
		f.last != "1" || f.failure != "same" {
		t.Errorf("%v, %+v", err, f)
	}
	failure = nil
	if err := w.report(t.Context(), nil, f, content.Event{Type: content.Digest, ID: "2"}); err != nil || f.last != "2" || f.failure != "" {
		t.Errorf("%v, %+v", err, f)
	}
}

// The server of --server-url may send any name.
func TestWatchRemovesControlCharacters(t *testing.T) {
	var errs strings.Builder
	w := &feeds{session: sessiontest.New(t, &errs), started: true}
	const name = "a\x1b[2Jb"
	lost := w.report(t.Context(), nil, &feed{}, content.Event{Type: content.Lost, Catalog: name, Err: errors.New("away")})
	failed := w.ended(t.Context(), name, &feed{}, errors.New("gone\a"))
	if want := "a\ufffd[2Jb: away; retrying\na\ufffd[2Jb: gone\ufffd; retrying\n"; lost != nil || failed != nil || errs.String() != want {
		t.Errorf("%v, %v: %q", lost, failed, errs.String())
	}
}

// The feed may be requested again before the status shows the removal.
func TestWatchReportsRemovalOnce(t *testing.T) {
	var errs strings.Builder
	w := &feeds{session: sessiontest.New(t, &errs), handler: Handler{Event: func(
		context.Context, *content.Service, content.Event,
	) (func() error, error) {
		return func() error { return nil }, nil
	}}}
	f := &feed{}
	gone := &content.Error{Code: http.StatusNotFound, Message: "not here"}
	for _, kind := range []string{content.Removed, content.Digest} {
		if err := errors.Join(w.report(t.Context(), nil, f, content.Event{Type: kind}), w.ended(t.Context(), "mine", f, gone)); err != nil {
			t.Error(err)
		}
		if want := map[string]string{content.Removed: "", content.Digest: "mine: not here; retrying\n"}[kind]; errs.String() != want {
			t.Errorf("after %s: %q", kind, errs.String())
		}
	}
}
