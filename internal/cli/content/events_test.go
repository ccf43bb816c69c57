package content

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

type received struct{ Kind, Data, ID string }

func readAll(r io.Reader) ([]received, *events, error) {
	e := newEvents(r)
	var all []received
	for {
		kind, data, err := e.next()
		if err != nil {
			return all, e, err
		}
		all = append(all, received{kind, string(data), e.id})
	}
}

func TestEvents(t *testing.T) {
	for _, c := range []struct {
		name, stream string
		want         []received
		retry        time.Duration
	}{
		{name: "none"},
		{"two", "event: a\nid: 1\ndata: x\n\nevent: b\ndata: y\n\n", []received{{"a", "x", "1"}, {"b", "y", "1"}}, 0},
		{"line ends", "event: a\r\ndata: x\r\n\r\ndata: y\n\n", []received{{"a", "x", ""}, {"", "y", ""}}, 0},
		{"data of several lines", "data: x\ndata\ndata:y\n\n", []received{{"", "x\n\ny", ""}}, 0},
		{"one space is taken away", "data:  x \n\n", []received{{"", " x ", ""}}, 0},
		{"comments", ":\n\n: hello\ndata: x\n: x\n\n", []received{{"", "x", ""}}, 0},
		{"unknown fields", "date: x\ndata: y\n\n", []received{{"", "y", ""}}, 0},
		{"no data, no event", "event: a\nid: 1\n\ndata: x\n\n", []received{{"", "x", "1"}}, 0},
		{"an id with NUL is none", "id: 1\ndata: x\n\nid: 2\x00\ndata: y\n\n", []received{{"", "x", "1"}, {"", "y", "1"}}, 0},
		{"an empty id", "id: 1\ndata: x\n\nid\ndata: y\n\n", []received{{"", "x", "1"}, {"", "y", ""}}, 0},
		{"broken off", "data: x\n\nid: 2\ndata: y\n", []received{{"", "x", ""}}, 0},
		{"broken off within a line", "data: x\n\ndata: y\n\ndata", []received{{"", "x", ""}, {"", "y", ""}}, 0},
		{"retry", "retry: 250\n\n", nil, 250 * time.Millisecond},
		{"retry that is no number", "retry: 250\nretry: 1s\nretry: -1\nretry: 99999999999999999999\n\n", nil, 250 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(c.stream), iotest.OneByteReader(strings.NewReader(c.stream))} {
				got, e, err := readAll(r)
				if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Error(diff)
				}
				if e.retry != c.retry {
					t.Errorf("retry is %s, want %s", e.retry, c.retry)
				}
			}
		})
	}
}

// endless is a line, or lines, that never end an event.
type endless string

func (e endless) Read(p []byte) (int, error) {
	n := 0
	for n+len(e) <= len(p) {
		n += copy(p[n:], e)
	}
	return n, nil
}

func TestEventsAreLimited(t *testing.T) {
	for _, text := range []endless{"x", "data: xxxxxxxxxxxxxxxxxxxxxxxxxx\n"} {
		if _, _, err := readAll(text); !errors.Is(err, bufio.ErrTooLong) {
			t.Errorf("%.6q...: %v", string(text), err)
		}
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("retry: 5000\n\nevent: digest\nid: sha256:1\ndata: {\"catalog\":\"a\"}\n\n:\n\nevent: removed\ndata: {}\n\n")
	f.Add("data: x\r\n\r\nid: 1\r\ndata\n\n")
	f.Fuzz(func(t *testing.T, stream string) {
		whole, a, _ := readAll(strings.NewReader(stream))
		parts, b, _ := readAll(iotest.OneByteReader(strings.NewReader(stream)))
		if diff := cmp.Diff(whole, parts); diff != "" || a.retry != b.retry {
			t.Errorf("it depends on how the stream comes: %s", diff)
		}
		for _, e := range whole {
			if strings.Contains(e.Kind+e.ID, "\n") {
				t.Errorf("an event spans lines: %q", e)
			}
		}
	})
}
