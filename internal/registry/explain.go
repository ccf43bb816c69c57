package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Kind is what sort of failure an Error is, for those who choose a remedy or a time to try again by it.
type Kind string

// The kinds of an Error.
const (
	Unreachable       Kind = "Unreachable"       // no answer: no such host, no connection, no answer in time
	Unauthorized      Kind = "Unauthorized"      // 401 or 403, of the registry or of its token server
	NotFound          Kind = "NotFound"          // 404
	RateLimited       Kind = "RateLimited"       // 429, or a request held back because of an earlier one
	Answered          Kind = "Answered"          // another status, or an answer that makes no sense
	Untrusted         Kind = "Untrusted"         // its certificate cannot be verified
	ClientCertificate Kind = "ClientCertificate" // it wants a client certificate, or refuses the one it was shown
	Proxy             Kind = "Proxy"             // the proxy is out of reach, or refuses
	PlainHTTP         Kind = "PlainHTTP"         // it speaks HTTP only, and that is not allowed
	Blocked           Kind = "Blocked"           // Config.ConfFile forbids the image
	Damaged           Kind = "Damaged"           // what came is truncated, or not what its size or digest say
	Stalled           Kind = "Stalled"           // a transfer that came to a halt was cut
	Configuration     Kind = "Configuration"     // Access itself cannot be used: no request was made
)

// Error is a failure of a registry, or on the way to it. Its text is a sentence for people that stays the same while the
// cause does: it has neither local ports nor times, nor the text of answers and the addresses of redirects, which may
// carry a token. Unwrap gives the cause, whose text may well have all of them.
type Error struct {
	Kind       Kind
	Host       string // the registry, host[:port], as its references name it; "" with Configuration
	Repository string // "namespace/name"; "" with Configuration
	File       string // with Unauthorized, from Client.Try: the CredentialsFile that was refused; "": nothing was sent

	text   string
	reason string // text without what was being done; "": text
	all    []*Error
	cause  error
}

// All returns the failures of each endpoint, of an Error that Client.Try made of several; else e alone.
func (e *Error) All() []*Error {
	if len(e.all) > 0 {
		return e.all
	}
	return []*Error{e}
}

func (e *Error) Error() string { return e.text }

// Unwrap returns the cause; nil if there is none besides e.
func (e *Error) Unwrap() error { return e.cause }

// GoString keeps %#v from spelling out the cause.
func (e *Error) GoString() string { return fmt.Sprintf("&registry.Error{%s: %q}", e.Kind, e.text) }

// failure returns an Error about ref, with a text that the caller vouches for.
func failure(kind Kind, ref name.Reference, cause error, text string) *Error {
	return &Error{
		Kind: kind, Host: ref.Context().RegistryStr(), Repository: ref.Context().RepositoryStr(),
		text: text, cause: cause,
	}
}

// KindOf returns the kind of the first Error in err's chain; "" if there is none.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return ""
}

// Explain makes what go-containerregistry returned an Error: "finding the digest: registry quay.io answered 503 Service
// Unavailable". doing is the gerund it begins with, ref the image as the registry that was asked calls it (Endpoint.Ref).
// The error of a cancelled context stays one, and is no Error; one that was explained before is returned as it is.
func Explain(doing string, ref name.Reference, err error) error {
	if err == nil || KindOf(err) != "" {
		return err
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", doing, context.Canceled)
	}
	// The order matters, as an error may be two: a registry on loopback is tried by HTTPS and by HTTP, and the error holds
	// both, of which the one of HTTPS tells more.
	for _, diagnose := range [...]func(name.Reference, error) (Kind, string){
		proxyFault, distrust, clientCertificate, answered, notTaken, plainHTTP, interrupted, misunderstood, unreachable,
	} {
		if kind, text := diagnose(ref, err); kind != "" {
			explained := failure(kind, ref, err, doing+": "+text)
			explained.reason = text
			return explained
		}
	}
	return failure(Answered, ref, err, fmt.Sprintf("%s: registry %s gave an answer that makes no sense", doing, ref.Context().RegistryStr()))
}

// proxyFault and the functions below are diagnoses: what an err about ref is, in a sentence; "" if it is of another kind.
func proxyFault(ref name.Reference, err error) (Kind, string) {
	fault, ok := errors.AsType[*proxyError](err)
	switch {
	case !ok:
		return "", ""
	case fault.status == http.StatusProxyAuthRequired:
		return Proxy, fmt.Sprintf("proxy %s wants credentials, or does not accept those it was given (%s)", fault.host, statusText(fault.status))
	case fault.status != 0:
		return Proxy, fmt.Sprintf("proxy %s does not connect to registry %s (%s)", fault.host, ref.Context().RegistryStr(), statusText(fault.status))
	}
	reason := "it does not answer as a proxy does"
	if distrusted := untrusted(fault.err); distrusted != "" {
		reason = "its certificate cannot be trusted: " + distrusted
	} else if unanswered := noAnswer(fault.err); unanswered != "" {
		reason = unanswered
	}
	return Proxy, fmt.Sprintf("proxy %s cannot be used: %s", fault.host, reason)
}

// clientCertificate tells by the TLS alert (RFC 8446, section 6.2), for which crypto/tls has no exported type. Some
// servers answer a missing certificate as they answer a bad one, and those of TLS 1.2 with a mere handshake failure.
func clientCertificate(ref name.Reference, err error) (Kind, string) {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Op != "remote error" {
		return "", ""
	}
	registry, alert := ref.Context().RegistryStr(), strings.TrimPrefix(op.Err.Error(), "tls: ")
	switch alert {
	case "certificate required":
		return ClientCertificate, fmt.Sprintf("registry %s wants a client certificate", registry)
	case "bad certificate":
		return ClientCertificate, fmt.Sprintf("registry %s wants a client certificate, or does not accept the one it was shown (%s)", registry, alert)
	case "unsupported certificate", "revoked certificate", "expired certificate", "unknown certificate", "unknown certificate authority", "access denied":
		return ClientCertificate, fmt.Sprintf("registry %s does not accept the client certificate (%s)", registry, alert)
	case "handshake failure":
		return ClientCertificate, fmt.Sprintf("registry %s broke off the TLS handshake (%s), as one that wants a client certificate does", registry, alert)
	default:
		return Unreachable, fmt.Sprintf("registry %s cannot be reached: it broke off the TLS handshake (%s)", registry, alert)
	}
}

func answered(ref name.Reference, err error) (Kind, string) {
	answer, ok := errors.AsType[*transport.Error](err)
	if !ok {
		return "", ""
	}
	return refused(ref, answer.StatusCode)
}

func notTaken(ref name.Reference, err error) (Kind, string) {
	if answer, ok := errors.AsType[*answerError](err); ok {
		return Answered, fmt.Sprintf("registry %s %s", ref.Context().RegistryStr(), answer.says)
	}
	return "", ""
}

// refused says what an answer means.
func refused(ref name.Reference, status int) (Kind, string) {
	registry, text := ref.Context().RegistryStr(), statusText(status)
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return Unauthorized, fmt.Sprintf("registry %s wants credentials for repository %s (%s)", registry, ref.Context().RepositoryStr(), text)
	case http.StatusNotFound:
		return NotFound, fmt.Sprintf("registry %s has no such image or tag (%s)", registry, text)
	case http.StatusTooManyRequests:
		return RateLimited, fmt.Sprintf("registry %s refuses more requests for now (%s)", registry, text)
	default:
		return Answered, fmt.Sprintf("registry %s answered %s", registry, text)
	}
}

// statusText is "503 Service Unavailable", or the number alone if it has no name.
func statusText(status int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
}

// plainHTTP overlooks that HTTPS did not work where HTTP was tried too: then what came of that tells more.
func plainHTTP(ref name.Reference, err error) (Kind, string) {
	registry := ref.Context().RegistryStr()
	guard, guarded := errors.AsType[*plainHTTPError](err)
	switch {
	case guarded && guard.host != registry:
		return PlainHTTP, fmt.Sprintf("registry %s sends us to %s by plain HTTP, which is not allowed for it", registry, guard.host)
	case errors.Is(err, http.ErrSchemeMismatch) && (guarded || ref.Context().Scheme() == "https"):
		return PlainHTTP, fmt.Sprintf("registry %s speaks plain HTTP only, which is not allowed for it", registry)
	default: // a guard that kept from asking the registry itself stands beside the error of HTTPS, which is the one to tell
		return "", ""
	}
}

func interrupted(ref name.Reference, err error) (Kind, string) {
	registry := ref.Context().RegistryStr()
	if paused, ok := errors.AsType[*pausedError](err); ok {
		if paused.host == canonicalHost(registry) {
			return refused(ref, paused.status) // what it answered still holds
		}
		return RateLimited, fmt.Sprintf("registry %s refuses more requests for now (%s asked for patience)", registry, paused.host)
	}
	switch {
	case errors.Is(err, errStalled):
		return Stalled, fmt.Sprintf("registry %s sent next to nothing for too long, and the transfer was cut", registry)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Damaged, fmt.Sprintf("registry %s closed the connection too early", registry)
	default:
		return "", ""
	}
}

// misunderstood tells by the text, as go-containerregistry has no types for these. A text that changes there falls through
// to a vaguer sentence here.
func misunderstood(ref name.Reference, err error) (Kind, string) {
	text := err.Error()
	for _, known := range [...]struct {
		part string
		kind Kind
		says string
	}{
		{"error verifying", Damaged, "what registry %s sent is not what its digest says"},
		{"does not match requested digest", Damaged, "what registry %s sent is not what its digest says"},
		{"does not match expected size", Damaged, "what registry %s sent is not of the size that the manifest says"},
		{"did not include Docker-Content-Digest header", Answered, "registry %s does not say which digest the image has (no header Docker-Content-Digest)"},
		{"did not include Content-Type header", Answered, "registry %s does not say of which type the manifest is (no header Content-Type)"},
		{"did not include Content-Length header", Answered, "registry %s does not say of which size the manifest is (no header Content-Length)"},
		{"invalid realm in www-authenticate", Answered, "registry %s names a token server that is not asked, as its address is private or not HTTPS"},
		{"refusing token-server redirect", Answered, "the token server of registry %s sends us to an address that is not asked, as it is private or not HTTPS"},
		{"missing realm", Answered, "registry %s wants a token and does not say from where"},
		{"no token in bearer response", Answered, "the token server of registry %s gives no token"},
		{"stopped after 10 redirects", Answered, "registry %s redirects without end"},
		{"SSRF protection", Answered, "registry %s sends us to a private address, which is not asked"},
	} {
		if strings.Contains(text, known.part) {
			return known.kind, fmt.Sprintf(known.says, ref.Context().RegistryStr())
		}
	}
	return "", ""
}

func unreachable(ref name.Reference, err error) (Kind, string) {
	if reason := noAnswer(err); reason != "" {
		return Unreachable, fmt.Sprintf("registry %s cannot be reached: %s", ref.Context().RegistryStr(), reason)
	}
	return "", ""
}

// noAnswer returns why no answer came, or "" if err is of another kind.
func noAnswer(err error) string {
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		return lookupFailure(lookup)
	}
	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case ok && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, io.EOF):
		return "it closed the connection without an answer"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return innermost(op).Err.Error() // op itself names the local port
	}
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = request.Err
	}
	if text := err.Error(); strings.HasPrefix(text, "tls: ") { // crypto/tls speaks of versions and records, not of content
		return "the TLS handshake failed: " + strings.TrimPrefix(text, "tls: ")
	}
	return ""
}

// Check says what to look at when e is of kind Unreachable; "" if that cannot be told.
func (e *Error) Check() string {
	if e.Kind != Unreachable {
		return ""
	}
	if lookup, ok := errors.AsType[*net.DNSError](e); ok {
		if lookup.IsNotFound {
			return fmt.Sprintf("Check how %s is written, and whether catalogd's name server knows it", lookup.Name)
		}
		return "Check catalogd's name server"
	}
	timeout, ok := errors.AsType[net.Error](e)
	switch {
	case errors.Is(e, syscall.ECONNREFUSED):
		return fmt.Sprintf("Check the port, and whether %s runs", e.Host)
	case errors.Is(e, syscall.EHOSTUNREACH), errors.Is(e, syscall.ENETUNREACH):
		return fmt.Sprintf("Check the network between catalogd and %s, and whether a proxy leads there (spec.registry.proxy)", e.Host)
	case ok && timeout.Timeout(), errors.Is(e, context.DeadlineExceeded):
		return fmt.Sprintf("Check the firewalls and network policies between catalogd and %s, and whether a proxy leads there (spec.registry.proxy)", e.Host)
	}
	return ""
}

// innermost skips the errors that wrap another of their type, as those of a proxy do.
func innermost(op *net.OpError) *net.OpError {
	for {
		inner, ok := errors.AsType[*net.OpError](op.Err)
		if !ok {
			return op
		}
		op = inner
	}
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
