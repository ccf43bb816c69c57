package content

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"
)

// Types of events.
const (
	Digest  = "digest"  // a version is served
	Removed = "removed" // the catalog is not served any more; the last event of a feed
	Lost    = "lost"    // the service cannot be reached; Watch goes on trying
)

// An Event of a catalog's feed.
type Event struct {
	Type         string    `json:"-"`
	ID           string    `json:"-"` // of Digest: the version, by which a feed goes on
	Catalog      string    `json:"catalog"`
	Digest       string    `json:"digest"`
	URL          string    `json:"url"`
	LastModified time.Time `json:"lastModified"`
	*Changes               // nil where the version that was had is not known: at first, and when it is no longer kept
	Err          error     `json:"-"` // of Lost
}

// Changes are the packages in which a version differs from the one before.
type Changes struct {
	Previous string   `json:"previous"`
	Added    []string `json:"added"`
	Changed  []string `json:"changed"`
	Removed  []string `json:"removed"`
}

const (
	firstWait = 5 * time.Second  // before coming again, unless the service says another time
	minWait   = time.Second      // whatever it says: a feed that ends as soon as it is had would be asked for without a pause
	maxWait   = time.Minute      // each time it cannot be reached the wait doubles, up to here
	silence   = 90 * time.Second // after which a connection is taken to be dead: the service sends something every 25 s
)

// errRemoved ends a feed.
var errRemoved = errors.New("the catalog is not served any more")

// Watch calls each for the version of a catalog that is served and for each that follows, until the catalog is
// removed, ctx ends (that is an
// error) or each returns an error, which is returned. since is the ID of the event seen last, if any: what changed
// from there is told first.
// A feed that ends or breaks is continued; one that cannot be had at first, or not any more for a reason that will stay, is an error.
func (s *Service) Watch(ctx context.Context, catalog, since string, each func(Event) error) error {
	f := &feed{service: s.untimed(), catalog: catalog, id: since, each: each, wait: firstWait, minWait: minWait, silence: silence}
	return f.watch(ctx)
}

// untimed returns the same service without the limit on how long a request takes, which a feed would reach.
func (s *Service) untimed() *Service {
	client := *s.http
	client.Timeout = 0
	return &Service{base: s.base, http: &client, tokens: s.tokens}
}

// feed is what Watch knows.
type feed struct {
	service *Service
	catalog string
	each    func(Event) error
	id      string // of the last event that is known; of an earlier call, at first
	told    string // of the last event that each was called for
	wait    time.Duration
	minWait time.Duration
	silence time.Duration
}

func (f *feed) watch(ctx context.Context) error {
	err := f.run(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errRemoved):
		return nil
	}
	return err
}

func (f *feed) run(ctx context.Context) error {
	stream, err := f.open(ctx)
	for err == nil {
		err = f.read(stream)
		stream.Close()
		if err == nil {
			stream, err = f.reopen(ctx)
		}
	}
	return err
}

// stream is a reply that comes as long as the service lives. Nothing within the time of silence breaks it off.
type stream struct {
	io.ReadCloser
	alive  *time.Timer
	cancel context.CancelFunc
	after  time.Duration
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.alive.Reset(s.after)
	return n, err
}

func (s *stream) Close() error {
	s.alive.Stop()
	s.cancel()
	return s.ReadCloser.Close()
}

func (f *feed) open(ctx context.Context) (*stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	alive := time.AfterFunc(f.silence, cancel)
	header := http.Header{"Accept": {"text/event-stream"}}
	if f.id != "" {
		header.Set("Last-Event-ID", f.id)
	}
	resp, err := f.service.Get(ctx, Path(f.catalog, "", "watch"), nil, header) //nolint:bodyclose // the stream is closed by who reads it
	if err != nil {
		alive.Stop()
		cancel()
		return nil, err
	}
	opened := &stream{ReadCloser: resp.Body, alive: alive, cancel: cancel, after: f.silence}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "text/event-stream" {
		opened.Close()
		return nil, fmt.Errorf("%s answers %q where the changes of catalog %q should come: is it the content service of catalogd?", f.service,
			kind, f.catalog)
	}
	return opened, nil
}

// read hands events on until the stream ends. Its error ends the feed.
func (f *feed) read(from io.Reader) error {
	events := newEvents(from)
	for {
		kind, data, err := events.next()
		if events.retry > 0 {
			f.wait = min(max(events.retry, f.minWait), maxWait)
		}
		switch {
		case errors.Is(err, bufio.ErrTooLong):
			return fmt.Errorf("an event of catalog %q is longer than %d MiB", f.catalog, maxLine>>20)
		case err != nil:
			return nil // it broke, or ended as feeds do
		}
		if kind != Digest && kind != Removed {
			continue // of a later release
		}
		event := Event{Type: kind}
		if err := json.Unmarshal(data, &event); err != nil {
			return fmt.Errorf("reading an event of catalog %q: %w", f.catalog, err)
		}
		if kind == Digest {
			if events.id == f.told && f.told != "" {
				continue // what a feed that goes on begins with
			}
			event.ID, f.id, f.told = events.id, events.id, events.id
		}
		if err := f.each(event); err != nil {
			return err
		}
		if kind == Removed {
			return errRemoved
		}
	}
}

// reopen goes on behind the last event, once the service lets it.
func (f *feed) reopen(ctx context.Context) (*stream, error) {
	wait := f.wait
	for told := false; ; {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		opened, err := f.open(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
			return opened, err
		case IsNotFound(err):
			if err := f.each(Event{Type: Removed, Catalog: f.catalog}); err != nil {
				return nil, err
			}
			return nil, errRemoved
		case !passes(err):
			return nil, err
		case !told:
			told = true
			if err := f.each(Event{Type: Lost, Catalog: f.catalog, Err: err}); err != nil {
				return nil, err
			}
		}
		wait = min(2*wait, maxWait)
	}
}

// passes reports whether an error is temporary.
func passes(err error) bool {
	code := http.StatusServiceUnavailable // not even an answer
	if ours, ok := errors.AsType[*Error](err); ok {
		if code = ours.Code; ours.alien && code == http.StatusNotFound { // of a gateway whose service is away
			return true
		}
	}
	return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests
}
