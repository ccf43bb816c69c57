package content

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"
)

// Types of events.
const (
	Digest  = "digest"  // a version is served
	Removed = "removed" // the catalog is no longer served; the last event of a feed
	Lost    = "lost"    // the service is unreachable; Watch retries
)

// An Event is an event of a catalog's feed.
type Event struct {
	Type         string    `json:"-"`
	ID           string    `json:"-"` // of Digest: the version, from which a feed can continue
	Catalog      string    `json:"catalog"`
	Digest       string    `json:"digest"`
	URL          string    `json:"url"`
	LastModified time.Time `json:"lastModified"`
	*Changes               // nil if the previous version is unknown or no longer stored
	Err          error     `json:"-"` // of Lost
}

// Changes are the packages in which a version differs from the previous one.
type Changes struct {
	Previous string   `json:"previous"`
	Added    []string `json:"added"`
	Changed  []string `json:"changed"`
	Removed  []string `json:"removed"`
}

const (
	firstWait = 5 * time.Second  // before a reconnect, unless the service sets another time
	minWait   = time.Second      // lower limit of the service's time
	maxWait   = time.Minute      // upper limit; the wait doubles after each failed reconnect
	silence   = 90 * time.Second // a silent connection is closed after this time; the service sends something every 25 s
)

// errRemoved ends a feed.
var errRemoved = errors.New("the catalog is no longer served")

// Watch calls each for the served version of a catalog and for every following one, until the catalog is removed. It
// returns an error if ctx ends or each returns one. since is the ID of the last known event, if any: the changes since
// then come first. Watch reconnects when a feed ends or breaks. It returns the error of the first connection, and any later
// one that is permanent.
func (s *Service) Watch(ctx context.Context, catalog, since string, each func(Event) error) error {
	f := &feed{service: s.Untimed(), catalog: catalog, id: since, each: each, wait: firstWait, minWait: minWait, silence: silence}
	return f.watch(ctx)
}

// Untimed returns the same service without a request timeout, which a feed would exceed, and without the report of missing catalogs.
func (s *Service) Untimed() *Service {
	client := *s.http
	client.Timeout = 0
	return &Service{base: s.base, http: &client, tokens: s.tokens}
}

// feed is the state of Watch.
type feed struct {
	service  *Service
	catalog  string
	each     func(Event) error
	id       string // of the last known event
	reported string // ID of the last event that each was called for
	opened   bool   // whether a connection succeeded
	lost     bool   // whether the last connection failed
	wait     time.Duration
	minWait  time.Duration
	silence  time.Duration
}

func (f *feed) watch(ctx context.Context) error {
	for wait := time.Duration(0); ; {
		err := f.connect(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errRemoved):
			return nil
		case err != nil:
			return err
		case f.lost:
			wait = min(2*wait, maxWait)
		default:
			wait = f.wait
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// connect reads events until the connection ends or breaks. Its error ends the feed.
func (f *feed) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	alive := time.AfterFunc(f.silence, cancel)
	defer alive.Stop()
	header := http.Header{"Accept": {"text/event-stream"}}
	if f.id != "" {
		header.Set("Last-Event-ID", f.id)
	}
	resp, err := f.service.Get(ctx, Path(f.catalog, "", "watch"), nil, header) //nolint:bodyclose // closed below
	if err != nil {
		return f.failed(err)
	}
	defer resp.Body.Close()
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "text/event-stream" {
		return fmt.Errorf("the feed of catalog %q from %s has the media type %q: check that this is the content service of catalogd",
			f.catalog, f.service, kind)
	}
	f.opened, f.lost = true, false
	return f.read(readerFunc(func(p []byte) (int, error) {
		alive.Reset(f.silence)
		return resp.Body.Read(p)
	}))
}

// readerFunc adapts a function to io.Reader.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// failed handles the error of a connection. It returns nil if the next one may succeed.
func (f *feed) failed(err error) error {
	switch {
	case !f.opened:
		return err
	case IsNotFound(err):
		return cmp.Or(f.each(Event{Type: Removed, Catalog: f.catalog}), errRemoved)
	case !isTemporary(err):
		return err
	case f.lost:
		return nil
	}
	f.lost = true
	return f.each(Event{Type: Lost, Catalog: f.catalog, Err: err})
}

// read reports events until the stream ends. Its error ends the feed.
func (f *feed) read(from io.Reader) error {
	events := newEvents(from)
	for {
		kind, data, err := events.next()
		if events.retry > 0 {
			f.wait = min(max(events.retry, f.minWait), maxWait)
		}
		switch {
		case errors.Is(err, bufio.ErrTooLong):
			return fmt.Errorf("an event of catalog %q exceeds the limit of %d MiB", f.catalog, maxLine>>20)
		case err != nil:
			return nil // the connection broke, or ended normally
		}
		if kind != Digest && kind != Removed {
			continue // of a later release
		}
		event := Event{Type: kind}
		if err := json.Unmarshal(data, &event); err != nil {
			return fmt.Errorf("reading an event of catalog %q: %w", f.catalog, err)
		}
		if kind == Digest {
			if events.id == f.reported && f.reported != "" {
				continue // a continued feed begins with the last event
			}
			event.ID, f.id, f.reported = events.id, events.id, events.id
		}
		if err := f.each(event); err != nil {
			return err
		}
		if kind == Removed {
			return errRemoved
		}
	}
}

// isTemporary reports whether a later request may succeed.
func isTemporary(err error) bool {
	refused, ok := errors.AsType[*Error](err)
	if !ok {
		return true // no response
	}
	return refused.Code >= http.StatusInternalServerError || refused.Code == http.StatusTooManyRequests ||
		refused.alien && refused.Code == http.StatusNotFound // from a gateway whose service is away
}

// maxLine limits a line of a feed. The longest one names the changed packages.
const maxLine = 16 << 20

// events reads server-sent events (WHATWG HTML, section 9.2.6). Lines end in LF or CR LF.
type events struct {
	lines *bufio.Scanner
	id    string        // of the last event that had one
	retry time.Duration // how long to wait before a reconnect, as set by the server; 0: not set
}

func newEvents(r io.Reader) *events {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	return &events{lines: lines}
}

// next returns the type and the data of the next event that has data. The data is valid until the next call. The error at
// the end of the stream is io.EOF; an incomplete event is dropped.
func (e *events) next() (kind string, data []byte, err error) {
	id := e.id
	for e.lines.Scan() {
		line := e.lines.Bytes()
		if len(line) == 0 {
			e.id = id
			if data != nil {
				return kind, data[:len(data)-1], nil
			}
			kind = ""
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":")) // without a name it is a comment
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			kind = string(value)
		case "data":
			if len(data)+len(value) >= maxLine {
				return "", nil, bufio.ErrTooLong
			}
			data = append(append(data, value...), '\n')
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				id = string(value)
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				e.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
	if err := e.lines.Err(); err != nil {
		return "", nil, err
	}
	return "", nil, io.EOF
}
