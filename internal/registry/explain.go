package registry

import (
	"cmp"
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

// Kind classifies an Error, so that callers can choose a remedy or a retry time.
type Kind string

// The kinds of an Error.
const (
	Unreachable       Kind = "Unreachable"       // no response: unknown host, no connection, timeout
	Unauthorized      Kind = "Unauthorized"      // 401 or 403 from the registry or its token server
	NotFound          Kind = "NotFound"          // 404
	RateLimited       Kind = "RateLimited"       // 429, or a request held back after an earlier one
	Answered          Kind = "Answered"          // another status, or an invalid response
	Untrusted         Kind = "Untrusted"         // the registry's certificate cannot be verified
	ClientCertificate Kind = "ClientCertificate" // the registry requires a client certificate, or rejected ours
	Proxy             Kind = "Proxy"             // the proxy is unreachable or refuses
	PlainHTTP         Kind = "PlainHTTP"         // the registry supports only HTTP, which is not allowed
	Blocked           Kind = "Blocked"           // Config.ConfFile blocks the image
	Damaged           Kind = "Damaged"           // content is truncated, or has the wrong size or digest
	Stalled           Kind = "Stalled"           // a stalled transfer was canceled
	Configuration     Kind = "Configuration"     // Access is invalid; no request was sent
	Forbidden         Kind = "Forbidden"         // Access.Confined does not allow the image, or an address on the way to it
)

// Error is a failure of a registry, or on the way to it. Its text is a sentence for people that is stable while
// the cause is: it contains no local ports, times, response bodies or redirect addresses, which may carry a
// token. Unwrap returns the cause, whose text may contain them.
type Error struct {
	Kind       Kind
	Host       string // the registry, host[:port]; "" for Configuration
	Repository string // "namespace/name"; "" for Configuration
	File       string // for Unauthorized from Client.Try: the rejected CredentialsFile; "": none was sent

	text   string
	reason string // text without the failed action; "": text
	all    []*Error
	cause  error
}

// All returns the failures of all endpoints tried by Client.Try; else only e.
func (e *Error) All() []*Error {
	if len(e.all) > 0 {
		return e.all
	}
	return []*Error{e}
}

func (e *Error) Error() string { return e.text }

// Unwrap returns the cause, or nil.
func (e *Error) Unwrap() error { return e.cause }

// GoString keeps %#v from printing the cause.
func (e *Error) GoString() string { return fmt.Sprintf("&registry.Error{%s: %q}", e.Kind, e.text) }

// failure returns an Error about ref. The text must contain no secret.
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

// Explain converts an error of go-containerregistry to an Error: "finding the digest: registry quay.io answered
// 503 Service Unavailable". doing is the gerund that begins the text; ref is the image as the asked registry
// names it (Endpoint.Ref). The error of a canceled context stays one and is no Error. An Error is returned
// unchanged.
func Explain(doing string, ref name.Reference, err error) error {
	if err == nil || KindOf(err) != "" {
		return err
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", doing, context.Canceled)
	}
	kind, text := diagnose(ref, err)
	if errors.Is(err, errForbidden) {
		kind, text = Forbidden, fmt.Sprintf("registry %s leads to an address that is not allowed", ref.Context().RegistryStr())
	}
	explained := failure(kind, ref, err, doing+": "+text)
	explained.reason = text
	return explained
}

// diagnose returns the kind and the text of a failure. Order matters: a registry on loopback is tried with HTTPS and
// with HTTP; err holds both failures, and that of HTTPS is the more specific.
func diagnose(ref name.Reference, err error) (Kind, string) {
	registry := ref.Context().RegistryStr()
	if fault, ok := errors.AsType[*proxyError](err); ok {
		return Proxy, proxyFault(registry, fault)
	}
	if reason := untrusted(err); reason != "" {
		return Untrusted, fmt.Sprintf("the certificate of registry %s is not trusted: %s", registry, reason)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		return tlsAlert(registry, strings.TrimPrefix(op.Err.Error(), "tls: "))
	}
	if answer, ok := errors.AsType[*transport.Error](err); ok {
		return refused(ref, answer.StatusCode)
	}
	if answer, ok := errors.AsType[*answerError](err); ok {
		return Answered, fmt.Sprintf("registry %s %s", registry, answer.says)
	}
	if long, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return Answered, fmt.Sprintf("registry %s sent a response that exceeds the limit of %d MiB", registry, long.Limit>>20)
	}
	guard, isGuarded := errors.AsType[*plainHTTPError](err)
	if isGuarded && guard.host != registry {
		return PlainHTTP, fmt.Sprintf("registry %s redirects to %s over plain HTTP, which is not allowed for it", registry, guard.host)
	}
	if errors.Is(err, http.ErrSchemeMismatch) && (isGuarded || ref.Context().Scheme() == "https") {
		return PlainHTTP, fmt.Sprintf("registry %s supports only plain HTTP, which is not allowed for it", registry)
	}
	if paused, ok := errors.AsType[*pausedError](err); ok {
		if paused.host == canonicalHost(registry) {
			return refused(ref, paused.status) // its earlier response still holds
		}
		return RateLimited, fmt.Sprintf("registry %s is rate limiting requests (Retry-After of %s)", registry, paused.host)
	}
	return transferFault(registry, err)
}

// transferFault is diagnose for errors without a type of their own.
func transferFault(registry string, err error) (Kind, string) {
	switch {
	case errors.Is(err, errStalled):
		return Stalled, fmt.Sprintf("registry %s stalled, and the transfer was canceled", registry)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Damaged, fmt.Sprintf("registry %s closed the connection early", registry)
	}
	for _, known := range untyped {
		if strings.Contains(err.Error(), known.part) {
			return known.kind, fmt.Sprintf(known.says, registry)
		}
	}
	if reason := noAnswer(err); reason != "" {
		return Unreachable, fmt.Sprintf("registry %s cannot be reached: %s", registry, reason)
	}
	return Answered, fmt.Sprintf("registry %s sent an invalid response", registry)
}

func proxyFault(registry string, fault *proxyError) string {
	switch {
	case fault.status == http.StatusProxyAuthRequired:
		return fmt.Sprintf("proxy %s requires credentials, or rejected those given (%s)", fault.host, statusText(fault.status))
	case fault.status != 0:
		return fmt.Sprintf("proxy %s refused to connect to registry %s (%s)", fault.host, registry, statusText(fault.status))
	}
	reason := noAnswer(fault.err)
	if distrusted := untrusted(fault.err); distrusted != "" {
		reason = "its certificate is not trusted: " + distrusted
	}
	return fmt.Sprintf("proxy %s cannot be used: %s", fault.host, cmp.Or(reason, "it does not respond as a proxy"))
}

// tlsAlert explains an alert (RFC 8446, section 6.2), for which crypto/tls has no exported type. Some servers send
// the alert for a bad certificate when there is none; those with TLS 1.2 send a handshake failure.
func tlsAlert(registry, alert string) (Kind, string) {
	switch alert {
	case "certificate required":
		return ClientCertificate, fmt.Sprintf("registry %s requires a client certificate", registry)
	case "bad certificate":
		return ClientCertificate, fmt.Sprintf("registry %s requires a client certificate, or rejected the one presented (%s)", registry, alert)
	case "unsupported certificate", "revoked certificate", "expired certificate", "unknown certificate",
		"unknown certificate authority", "access denied":
		return ClientCertificate, fmt.Sprintf("registry %s rejected the client certificate (%s)", registry, alert)
	case "handshake failure":
		return ClientCertificate, fmt.Sprintf("registry %s aborted the TLS handshake (%s); it may require a client certificate", registry, alert)
	default:
		return Unreachable, fmt.Sprintf("registry %s cannot be reached: it aborted the TLS handshake (%s)", registry, alert)
	}
}

// refused classifies an HTTP error status.
func refused(ref name.Reference, status int) (Kind, string) {
	registry, text := ref.Context().RegistryStr(), statusText(status)
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return Unauthorized, fmt.Sprintf("registry %s requires credentials for repository %s (%s)", registry, ref.Context().RepositoryStr(), text)
	case http.StatusNotFound:
		return NotFound, fmt.Sprintf("registry %s has no such image or tag (%s)", registry, text)
	case http.StatusTooManyRequests:
		return RateLimited, fmt.Sprintf("registry %s is rate limiting requests (%s)", registry, text)
	default:
		return Answered, fmt.Sprintf("registry %s answered %s", registry, text)
	}
}

// statusText returns "503 Service Unavailable", or only the number if the status has no name.
func statusText(status int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
}

// untyped are parts of the texts of go-containerregistry's untyped errors. If one changes there, a less specific
// message is used.
var untyped = []struct {
	part string
	kind Kind
	says string
}{
	{"error verifying", Damaged, "content from registry %s does not match its digest"},
	{"does not match requested digest", Damaged, "content from registry %s does not match its digest"},
	{"does not match expected size", Damaged, "content from registry %s does not match the size in its manifest"},
	{"did not include Docker-Content-Digest header", Answered, "registry %s sent no digest of the image (no header Docker-Content-Digest)"},
	{"did not include Content-Type header", Answered, "registry %s sent no type of the manifest (no header Content-Type)"},
	{"did not include Content-Length header", Answered, "registry %s sent no size of the manifest (no header Content-Length)"},
	{"invalid realm in www-authenticate", Answered,
		"registry %s names a token server whose address is private or not HTTPS, which is not allowed"},
	{"refusing token-server redirect", Answered,
		"the token server of registry %s redirects to an address that is private or not HTTPS, which is not allowed"},
	{"missing realm", Answered, "registry %s requires a token but names no token server"},
	{"no token in bearer response", Answered, "the token server of registry %s returned no token"},
	{"stopped after 10 redirects", Answered, "registry %s redirects too often"},
	{"SSRF protection", Answered, "registry %s redirects to a private address, which is not allowed"},
}

// noAnswer returns why there was no response, or "" if err is of another kind.
func noAnswer(err error) string {
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		return lookupFailure(lookup)
	}
	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case ok && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "timed out"
	case errors.Is(err, io.EOF):
		return "it closed the connection without a response"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		for inner := op; ok; inner, ok = errors.AsType[*net.OpError](inner.Err) { // that of a proxy wraps another
			op = inner
		}
		return op.Err.Error() // op contains the local port
	}
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = request.Err
	}
	if text := err.Error(); strings.HasPrefix(text, "tls: ") { // its text contains no content
		return "the TLS handshake failed: " + strings.TrimPrefix(text, "tls: ")
	}
	return ""
}

// Check returns advice on what to check for an Error of kind Unreachable; "" if there is none. proxy is the setting that
// names a proxy.
func (e *Error) Check(proxy string) string {
	if e.Kind != Unreachable {
		return ""
	}
	if lookup, ok := errors.AsType[*net.DNSError](e); ok {
		if lookup.IsNotFound {
			return fmt.Sprintf("Check the spelling of %s, and whether catalogd's DNS server resolves it", lookup.Name)
		}
		return "Check catalogd's DNS server"
	}
	timeout, ok := errors.AsType[net.Error](e)
	switch {
	case errors.Is(e, syscall.ECONNREFUSED):
		return fmt.Sprintf("Check the port, and whether %s is running", e.Host)
	case errors.Is(e, syscall.EHOSTUNREACH), errors.Is(e, syscall.ENETUNREACH):
		return fmt.Sprintf("Check the network between catalogd and %s, and whether it requires a proxy (%s)", e.Host, proxy)
	case ok && timeout.Timeout(), errors.Is(e, context.DeadlineExceeded):
		return fmt.Sprintf(
			"Check the firewalls and network policies between catalogd and %s, and whether it requires a proxy (%s)", e.Host, proxy)
	}
	return ""
}

// lookupFailure leaves out the DNS server's address and the local port.
func lookupFailure(err *net.DNSError) string {
	switch {
	case err.IsNotFound:
		return fmt.Sprintf("host %s not found", err.Name)
	case err.IsTimeout:
		return fmt.Sprintf("looking up host %s timed out", err.Name)
	default:
		return fmt.Sprintf("looking up host %s failed", err.Name)
	}
}
