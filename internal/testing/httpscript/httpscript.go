// Package httpscript checks a running HTTP service by a text: requests, and what the reply to each must be. It knows the service by its
// URL only, so that one text holds for a handler in a test and for the built program.
//
// Steps are parted by empty lines. Each line of one begins with its kind:
//
//	> GET /path                 the request line; further lines of this kind are headers
//	+ {"query": "..."}          a line of the request's body
//	< 200                       the status; further lines of this kind are headers that the reply has to have:
//	                            "Name: value", "Name: ~ REGEXP", or "Name: -" for one that it must not have
//	| text                      a line of the body, which has to be just these lines
//	~ REGEXP                    matches the body
//	!~ REGEXP                   does not match the body
//	blobs N                     the body is N lines of JSON
//	blob SCHEMA PACKAGE NAME    the body is just these lines of JSON, in this order; "-" is an empty field
//	events N                    the reply is read up to N server-sent events, and then hung up on
//	# text                      a comment
//
// "@name" as the whole value of a reply's header keeps that value under the name, if it is new. Anywhere else, and from then on, it stands for
// the value kept: in requests, in expected headers, bodies and regular expressions.
//
// Bodies are checked as they are after decoding (gzip, zstd). No Accept-Encoding is sent but what a step says. Beside what the steps say, it is
// checked that HEAD has the status and the headers of GET.
package httpscript

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A Step is a request and what its reply must be.
type Step struct {
	Line    int      // where it begins, from 1
	Request []string // the request line, then headers

	requestBody []string
	status      int
	headers     []string // "Name: value"
	body        []string // exact lines
	matches     []string // regular expressions; they may have references, so they are compiled late
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
