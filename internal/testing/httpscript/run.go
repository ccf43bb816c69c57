package httpscript

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Check is an additional check of every reply. The body is decoded.
type Check func(t *testing.T, req *http.Request, resp *http.Response, body []byte)

// Run sends the requests of steps to the service at url (without trailing slash), each in a subtest.
func Run(t *testing.T, url string, steps []*Step, checks ...Check) {
	t.Helper()
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	r := &runner{url: url, transport: transport, checks: checks, kept: map[string]string{}}
	for _, s := range steps {
		t.Run(fmt.Sprintf("line %d: %s", s.Line, s.Request[0]), func(t *testing.T) { r.run(t, s) })
	}
}

type runner struct {
	url       string
	transport *http.Transport
	checks    []Check
	kept      map[string]string
}

// timeout bounds a step, so that a missing reply fails it.
const timeout = time.Minute

func (r *runner) run(t *testing.T, s *Step) {
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	req := r.request(ctx, t, s)
	resp, body := r.send(t, req, s.events) //nolint:bodyclose // send closes it
	if resp.StatusCode != s.status {
		t.Fatalf("status %d, want %d; header %v, body:\n%s", resp.StatusCode, s.status, resp.Header, body)
	}
	r.checkHeaders(t, s, resp.Header)
	r.checkBody(t, s, string(body))
	for _, check := range r.checks {
		check(t, r.request(ctx, t, s), resp, body)
	}
	if req.Method == http.MethodGet {
		head := r.request(ctx, t, s)
		head.Method = http.MethodHead
		r.checkHead(t, head, resp)
	}
}

func (r *runner) request(ctx context.Context, t *testing.T, s *Step) *http.Request {
	t.Helper()
	method, target, _ := strings.Cut(s.Request[0], " ")
	var body io.Reader = http.NoBody
	if s.requestBody != nil {
		body = strings.NewReader(r.known(strings.Join(s.requestBody, "\n"), nil))
	}
	req, err := http.NewRequestWithContext(ctx, method, r.url+r.expand(t, target), body)
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range s.Request[1:] {
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Add(name, r.expand(t, value))
	}
	return req
}

// send follows no redirect.
func (r *runner) send(t *testing.T, req *http.Request, events int) (*http.Response, []byte) {
	t.Helper()
	resp, err := r.transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := decoder(resp)
	if err != nil {
		t.Fatal(err)
	}
	var data []byte
	if events > 0 {
		data, err = readEvents(body, events)
	} else {
		data, err = io.ReadAll(body)
	}
	if err != nil {
		t.Fatalf("reading the body: %v, after %d bytes", err, len(data))
	}
	return resp, data
}

func decoder(resp *http.Response) (io.Reader, error) {
	if resp.StatusCode == http.StatusNotModified || resp.Request.Method == http.MethodHead {
		return resp.Body, nil
	}
	switch encoding := resp.Header.Get("Content-Encoding"); encoding {
	case "":
		return resp.Body, nil
	case "gzip":
		return gzip.NewReader(resp.Body)
	case "zstd":
		return zstd.NewReader(resp.Body, zstd.WithDecoderConcurrency(1))
	default:
		return nil, fmt.Errorf("unknown Content-Encoding %q", encoding)
	}
}

// readEvents reads until the end of the given number of events.
func readEvents(body io.Reader, events int) ([]byte, error) {
	var data []byte
	in, isEvent := bufio.NewReader(body), false
	for events > 0 {
		line, err := in.ReadString('\n')
		data = append(data, line...)
		if err != nil {
			return data, err
		}
		switch {
		case strings.HasPrefix(line, "event:"):
			isEvent = true
		case line == "\n" && isEvent:
			events, isEvent = events-1, false
		}
	}
	return data, nil
}

var reference = regexp.MustCompile(`@[a-zA-Z]+`)

// expand replaces every reference; an unknown reference is an error.
func (r *runner) expand(t *testing.T, s string) string {
	t.Helper()
	return reference.ReplaceAllStringFunc(s, func(name string) string {
		if r.kept[name] == "" {
			t.Errorf("%s is used before a reply set it", name)
		}
		return r.kept[name]
	})
}

// known replaces known references and leaves all other text, such as e-mail addresses. quote, if not nil, quotes
// each value.
func (r *runner) known(s string, quote func(string) string) string {
	return reference.ReplaceAllStringFunc(s, func(name string) string {
		value, ok := r.kept[name]
		switch {
		case !ok:
			return name
		case quote != nil:
			return quote(value)
		}
		return value
	})
}

func (r *runner) regexp(t *testing.T, expr string) *regexp.Regexp {
	t.Helper()
	re, err := regexp.Compile(r.known(expr, regexp.QuoteMeta))
	if err != nil {
		t.Fatal(err)
	}
	return re
}

func (r *runner) checkHeaders(t *testing.T, s *Step, got http.Header) {
	t.Helper()
	for _, header := range s.headers {
		name, want, _ := strings.Cut(header, ": ")
		value := strings.Join(got.Values(name), ", ")
		if ref := reference.FindString(want); ref == want && r.kept[ref] == "" {
			r.kept[ref] = value
			if value == "" {
				t.Errorf("no header %s", name)
			}
			continue
		}
		if expr, ok := strings.CutPrefix(want, "~ "); ok {
			if !r.regexp(t, expr).MatchString(value) {
				t.Errorf("%s: got %q, which does not match %s", name, value, expr)
			}
			continue
		}
		if want == "-" {
			want = ""
		}
		if want = r.expand(t, want); value != want {
			t.Errorf("%s: got %q, want %q", name, value, want)
		}
	}
}

func (r *runner) checkBody(t *testing.T, s *Step, body string) {
	t.Helper()
	if s.body != nil {
		want := r.known(strings.Join(s.body, "\n")+"\n", nil)
		if diff := cmp.Diff(want, body); diff != "" {
			t.Errorf("body (-want +got):\n%s", diff)
		}
	}
	for _, expr := range s.matches {
		if !r.regexp(t, expr).MatchString(body) {
			t.Errorf("body does not match %s:\n%s", expr, body)
		}
	}
	for _, expr := range s.matchesNot {
		if r.regexp(t, expr).MatchString(body) {
			t.Errorf("body matches %s:\n%s", expr, body)
		}
	}
	lines := slices.Collect(strings.Lines(body))
	if s.count >= 0 && len(lines) != s.count {
		t.Errorf("got %d blobs, want %d", len(lines), s.count)
	}
	if s.blobs != nil {
		var got []string
		for _, line := range lines {
			got = append(got, describe(t, line))
		}
		if diff := cmp.Diff(s.blobs, got); diff != "" {
			t.Errorf("blobs (-want +got):\n%s", diff)
		}
	}
}

func describe(t *testing.T, line string) string {
	t.Helper()
	var blob struct{ Schema, Package, Name string }
	if err := json.Unmarshal([]byte(line), &blob); err != nil {
		t.Fatalf("line %q: %v", line, err)
	}
	fields := []string{blob.Schema, blob.Package, blob.Name}
	for i, field := range fields {
		if field == "" {
			fields[i] = "-"
		}
	}
	return strings.Join(fields, " ")
}

// checkHead compares the reply to a HEAD with that to the same GET (RFC 9110, section 9.3.2). HEAD may omit the
// length of a generated body.
func (r *runner) checkHead(t *testing.T, req *http.Request, get *http.Response) {
	t.Helper()
	head, body := r.send(t, req, 0) //nolint:bodyclose // send closes it
	if len(body) > 0 {
		t.Errorf("HEAD: a body of %d bytes", len(body))
	}
	want, got := get.Header.Clone(), head.Header.Clone()
	for _, h := range []http.Header{want, got} {
		h.Del("Date")
		if strings.HasPrefix(h.Get("Content-Type"), "multipart/byteranges") {
			h.Del("Content-Type") // its boundary is random
		}
		if head.Header.Get("Content-Length") == "" {
			h.Del("Content-Length")
		}
	}
	if diff := cmp.Diff(want, got); head.StatusCode != get.StatusCode || diff != "" {
		t.Errorf("HEAD: status %d, want %d as GET has; headers (-GET +HEAD):\n%s", head.StatusCode, get.StatusCode, diff)
	}
}
