package poll

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// explained is an error with a text for people, without what changes from one attempt to the next (local ports, times) and
// without addresses of redirects, which may carry a token.
type explained struct {
	message string
	cause   error
}

func (e *explained) Error() string { return e.message }
func (e *explained) Unwrap() error { return e.cause }

// explain says what went wrong when the registry was asked for ref.
func explain(ref name.Reference, err error) error {
	registry := ref.Context().RegistryStr()
	if answer, ok := errors.AsType[*transport.Error](err); ok {
		return &explained{fmt.Sprintf("finding the digest of %s: %s", ref, answered(ref, answer.StatusCode)), err}
	}
	if reason := unreachable(err); reason != "" {
		return &explained{fmt.Sprintf("finding the digest of %s: registry %s cannot be reached: %s", ref, registry, reason), err}
	}
	return &explained{fmt.Sprintf("finding the digest of %s: %s", ref, withoutURL(err)), err}
}

func answered(ref name.Reference, status int) string {
	registry, text := ref.Context().RegistryStr(), fmt.Sprintf("%d %s", status, http.StatusText(status))
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Sprintf("registry %s wants credentials for repository %s (%s)", registry, ref.Context().RepositoryStr(), text)
	case http.StatusNotFound:
		return fmt.Sprintf("registry %s has no such image or tag (%s)", registry, text)
	case http.StatusTooManyRequests:
		return fmt.Sprintf("registry %s refuses more requests for now (%s)", registry, text)
	default:
		return fmt.Sprintf("registry %s answered %s", registry, text)
	}
}

// unreachable returns why no answer came, or "" if err is of another kind.
func unreachable(err error) string {
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		return lookupFailure(lookup)
	}
	if _, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		return "its certificate is not valid (expired, or not meant for servers)"
	}
	var timeout net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return "the request was cancelled"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "it closed the connection without an answer"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err.Error() // op itself names the local port
	}
	return ""
}

// lookupFailure leaves out the name server's address and the local port.
func lookupFailure(err *net.DNSError) string {
	switch {
	case err.IsNotFound:
		return fmt.Sprintf("there is no host %s", err.Name)
	case err.IsTimeout:
		return fmt.Sprintf("looking up host %s took too long", err.Name)
	default:
		return fmt.Sprintf("looking up host %s failed", err.Name)
	}
}

func withoutURL(err error) string {
	if request, ok := errors.AsType[*url.Error](err); ok {
		return request.Err.Error()
	}
	return err.Error()
}
