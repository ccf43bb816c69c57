package serve

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestScript runs testdata/http.txt, which is described at its top, against a real server.
func TestScript(t *testing.T) {
	script, err := os.ReadFile("testdata/http.txt")
	if err != nil {
		t.Fatal(err)
	}
	steps, err := parseScript(string(script))
	if err != nil {
		t.Fatal(err)
	}
	url := startServer(t, newTestHandler(t))
	kept := make(map[string]string)
	for _, s := range steps {
		t.Run(fmt.Sprintf("line %d: %s", s.line, s.request[0]), func(t *testing.T) { s.run(t, url, kept) })
	}
}

// A step is a request and what its reply must be.
type step struct {
	line    int
	request []string // request line, headers
	status  int
	headers []string // "Name: value"
	body    []string // exact lines
	regexps []*regexp.Regexp
	blobs   []string // "SCHEMA PACKAGE NAME"
	count   int      // of JSON lines; -1: not checked
}

func parseScript(script string) (steps []*step, err error) {
	var s *step
	for i, line := range strings.Split(script, "\n") {
		if line == "" {
			s = nil
			continue
		}
		kind, rest, _ := strings.Cut(line, " ")
		switch {
		case strings.HasPrefix(kind, "#"):
			continue
		case s == nil && kind == ">":
			s = &step{line: i + 1, count: -1}
			steps = append(steps, s)
		case s == nil:
			return nil, fmt.Errorf("line %d: want a request: %q", i+1, line)
		}
		if err := s.add(kind, rest); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	return steps, nil
}

func (s *step) add(kind, rest string) (err error) {
	switch kind {
	case ">":
		s.request = append(s.request, rest)
	case "<":
		if s.status != 0 {
			s.headers = append(s.headers, rest)
			return nil
		}
		s.status, err = strconv.Atoi(rest)
	case "|":
		s.body = append(s.body, rest)
	case "~":
		var re *regexp.Regexp
		re, err = regexp.Compile(rest)
		s.regexps = append(s.regexps, re)
	case "blob":
		s.blobs = append(s.blobs, rest)
	case "blobs":
		s.count, err = strconv.Atoi(rest)
	default:
		err = fmt.Errorf("unknown kind of line %q", kind)
	}
	return err
}

func (s *step) run(t *testing.T, url string, kept map[string]string) {
	method, target, _ := strings.Cut(s.request[0], " ")
	req, err := http.NewRequest(method, url+target, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range s.request[1:] {
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Add(name, expand(t, value, kept))
	}
	resp, err := http.DefaultTransport.RoundTrip(req) // follows no redirect
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	body := string(data)
	if resp.StatusCode != s.status {
		t.Fatalf("status %d, want %d; header %v, body:\n%s", resp.StatusCode, s.status, resp.Header, body)
	}
	if err := wellFormed(resp.StatusCode, resp.Header, body, method); err != nil {
		t.Error(err)
	}
	s.checkHeaders(t, resp.Header, kept)
	s.checkBody(t, body)
}

var reference = regexp.MustCompile(`@[a-zA-Z]+`)

func expand(t *testing.T, value string, kept map[string]string) string {
	return reference.ReplaceAllStringFunc(value, func(name string) string {
		if kept[name] == "" {
			t.Errorf("%s is used before a reply set it", name)
		}
		return kept[name]
	})
}

func (s *step) checkHeaders(t *testing.T, got http.Header, kept map[string]string) {
	for _, header := range s.headers {
		name, want, _ := strings.Cut(header, ": ")
		value := got.Get(name)
		if ref := reference.FindString(want); ref == want && kept[ref] == "" {
			kept[ref] = value
			if value == "" {
				t.Errorf("no header %s", name)
			}
			continue
		}
		if want == "-" {
			want = ""
		}
		if want = expand(t, want, kept); value != want {
			t.Errorf("%s: got %q, want %q", name, value, want)
		}
	}
}

func (s *step) checkBody(t *testing.T, body string) {
	lines := slices.Collect(strings.Lines(body))
	if s.count >= 0 && len(lines) != s.count {
		t.Errorf("got %d blobs, want %d", len(lines), s.count)
	}
	if s.body != nil {
		if diff := cmp.Diff(strings.Join(s.body, "\n")+"\n", body); diff != "" {
			t.Errorf("body (-want +got):\n%s", diff)
		}
	}
	for _, re := range s.regexps {
		if !re.MatchString(body) {
			t.Errorf("body does not match %s:\n%s", re, body)
		}
	}
	if s.blobs != nil {
		var got []string
		for _, line := range lines {
			k := keysOf(t, line)
			got = append(got, orDash(k.Schema)+" "+orDash(k.Package)+" "+orDash(k.Name))
		}
		if diff := cmp.Diff(s.blobs, got); diff != "" {
			t.Errorf("blobs (-want +got):\n%s", diff)
		}
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// wellFormed checks what holds for every reply.
func wellFormed(status int, header http.Header, body, method string) error {
	if got := header.Get("X-Content-Type-Options"); got != "nosniff" {
		return fmt.Errorf("X-Content-Type-Options: got %q, want nosniff", got)
	}
	if status < http.StatusBadRequest {
		return nil
	}
	if got := header.Get("Content-Type"); got != "text/plain; charset=utf-8" {
		return fmt.Errorf("an error of Content-Type %q", got)
	}
	if header.Get("ETag") != "" || header.Get("Last-Modified") != "" || header.Get(DigestHeader) != "" {
		return fmt.Errorf("an error with headers of content: %v", header)
	}
	form := regexp.MustCompile(fmt.Sprintf(`^%d %s\n[^\n]+\n$`, status, regexp.QuoteMeta(http.StatusText(status))))
	if method != http.MethodHead && !form.MatchString(body) {
		return fmt.Errorf("the error is not a status line and a sentence: %q", body)
	}
	return nil
}
