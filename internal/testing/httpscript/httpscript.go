// Package httpscript checks an HTTP service with a script of requests and expected replies. It only knows the URL of the
// service, so the same script works for a handler in a test and for the built program.
//
// Empty lines separate steps. Each line of a step begins with its kind:
//
//	> GET /path                 the request line; further lines of this kind are headers
//	+ {"query": "..."}          a line of the request's body
//	< 200                       the status; further lines of this kind are expected headers:
//	                            "Name: value", "Name: ~ REGEXP", or "Name: -" for an absent one
//	| text                      a line of the body, which must consist of these lines
//	~ REGEXP                    matches the body
//	!~ REGEXP                   does not match the body
//	blobs N                     the body is N lines of JSON
//	blob SCHEMA PACKAGE NAME    the body consists of these lines of JSON, in this order; "-" is an empty field
//	events N                    the connection is closed after N server-sent events
//	# text                      a comment
//
// "@name" as the whole value of an expected header stores the value of the reply under a new name. Everywhere else, it is
// replaced by the stored value: in requests, expected headers, bodies and regular expressions.
//
// Bodies are decoded (gzip, zstd) before they are checked. Only the Accept-Encoding of a step is sent. For each GET, HEAD
// must have the same status and headers.
package httpscript

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Step is a request with the expected reply.
type Step struct {
	Line    int      // where it begins, from 1
	Request []string // the request line, then headers

	requestBody []string
	status      int
	headers     []string // "Name: value"
	body        []string // exact lines
	matches     []string // regular expressions; compiled late, as they may contain references
	matchesNot  []string
	blobs       []string // "SCHEMA PACKAGE NAME"
	count       int      // of JSON lines; -1: not checked
	events      int      // 0: the body is read to its end
}

// Parse reads a script. Its errors name the line.
func Parse(script string) ([]*Step, error) {
	var steps []*Step
	var s *Step
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
			s = &Step{Line: i + 1, count: -1}
			steps = append(steps, s)
		case s == nil:
			return nil, fmt.Errorf("line %d: want a request: %q", i+1, line)
		}
		if err := s.add(kind, rest); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	for _, s := range steps {
		if s.status == 0 {
			return nil, fmt.Errorf("line %d: the step expects no status", s.Line)
		}
	}
	return steps, nil
}

func (s *Step) add(kind, rest string) (err error) {
	switch kind {
	case ">":
		s.Request = append(s.Request, rest)
	case "+":
		s.requestBody = append(s.requestBody, rest)
	case "<":
		if s.status != 0 {
			s.headers = append(s.headers, rest)
			return nil
		}
		s.status, err = strconv.Atoi(rest)
	case "|":
		s.body = append(s.body, rest)
	case "~":
		s.matches = append(s.matches, rest)
		_, err = regexp.Compile(rest)
	case "!~":
		s.matchesNot = append(s.matchesNot, rest)
		_, err = regexp.Compile(rest)
	case "blob":
		s.blobs = append(s.blobs, rest)
	case "blobs":
		s.count, err = strconv.Atoi(rest)
	case "events":
		s.events, err = strconv.Atoi(rest)
	default:
		err = fmt.Errorf("unknown kind of line %q", kind)
	}
	return err
}
