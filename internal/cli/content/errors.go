package content

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Limits of the text of an error in bytes: read, and shown if it comes from another server.
const (
	maxErrorBody = 64 << 10
	maxAlien     = 200
)

// Error is an unsuccessful reply of the content service, or of the API server on the way to it.
type Error struct {
	Code      int    // of HTTP
	Message   string // a sentence for people, with the remedy
	APIServer bool   // whether the API server sent it

	alien      bool           // whether neither the content service nor the API server sent it
	retryAfter time.Duration  // 0 if the service sets none
	query      []QueryError   // the errors of a query, if any
	reply      *http.Response // of the content service, with its body; nil if another server sent it
}

func (e *Error) Error() string { return e.Message }

// hasCode reports whether a GraphQL error has this code.
func (e *Error) hasCode(code string) bool {
	return slices.ContainsFunc(e.query, func(q QueryError) bool { return q.Extensions.Code == code })
}

// IsNotFound reports whether the content service answered that something does not exist.
func IsNotFound(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Code == http.StatusNotFound && !e.APIServer && !e.alien || e.hasCode(notFound))
}

// IsRefused reports whether the user may not read what was requested.
func IsRefused(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Code == http.StatusForbidden || e.Code == http.StatusUnauthorized)
}

// failure returns the error of a reply. The service sends text with the status in its first line, GraphQL a JSON
// object, and the API server a Status.
func failure(s *Service, resp *http.Response) error {
	if to := resp.Header.Get("Location"); to != "" && resp.StatusCode/100 == 3 {
		return &Error{
			Code: resp.StatusCode,
			Message: fmt.Sprintf(
				"the content service at %s redirects to %s, which is not followed, to protect credentials: "+
					"if that is catalogd, use --server-url", s, to),
		}
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	var status metav1.Status
	if err := json.Unmarshal(body, &status); err == nil && status.Kind == "Status" {
		return &Error{Code: resp.StatusCode, Message: viaAPIServer(s, resp.StatusCode, status.Message), APIServer: true}
	}
	var graphql struct{ Errors []QueryError }
	reply := *resp
	reply.Body, reply.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if err := json.Unmarshal(body, &graphql); err == nil && slices.ContainsFunc(graphql.Errors, QueryError.isCoded) {
		return &Error{Code: resp.StatusCode, Message: messages(graphql.Errors), query: graphql.Errors, reply: &reply}
	}
	first, rest, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
	e := &Error{
		Code:       resp.StatusCode,
		Message:    fmt.Sprintf("the content service returned %d: %s", resp.StatusCode, strings.TrimSpace(rest)),
		retryAfter: retryAfter(resp.Header),
		reply:      &reply,
	}
	if status := fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode)); first != status {
		e.Message, e.alien = fmt.Sprintf("%s: it returned %s: %s", noService(s), status,
			cmp.Or(first[:min(len(first), maxAlien)], "(empty response)")), true
		e.reply = nil
	}
	return e
}

// noService returns the message about a server that is not a content service.
func noService(s *Service) string {
	return fmt.Sprintf("the server at %s is not a content service of catalogd", s)
}

// decode reads a JSON reply.
func decode(s *Service, resp *http.Response, out any) error {
	err := json.NewDecoder(resp.Body).Decode(out)
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("%s: %w", noService(s), err)
	}
	if err != nil {
		return fmt.Errorf("reading the response of %s: %w", s, err)
	}
	return nil
}

func viaAPIServer(s *Service, code int, message string) string {
	switch code {
	case http.StatusForbidden:
		message += "; to read catalogs through the API server, ask an administrator for a binding to the Role catalogd-cli-user"
	case http.StatusServiceUnavailable:
		message += "; no replica of catalogd is ready: check the pods in its namespace"
	case http.StatusNotFound:
		message += "; is catalogd installed in that namespace?"
	}
	return fmt.Sprintf("reaching the content service at %s through the API server: %s", s, message)
}

// unreachable returns the error of a request without a reply. It drops the URL that net/http adds, which has the
// whole query.
func unreachable(s *Service, err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	return fmt.Errorf("the content service at %s cannot be reached: %w", s, err)
}
