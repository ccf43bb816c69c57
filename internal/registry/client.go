package registry

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Client is one catalog's access to registries; Registries keeps it. Its methods may be called by several goroutines at a
// time. Printed or logged it shows no secret.
type Client struct {
	sum    [sha256.Size]byte // of what it was made from
	access Access
	conf   *conf
	pace   *pace

	secure   session
	insecure session // asks by plain HTTP too, and verifies no certificate
}

// session is what requests go through, with the tokens and connections they left.
type session struct {
	wire   *http.Transport
	puller *remote.Puller
	via    string // by which the pace knows where wire leads
}

// Endpoint is one place where an image can be had.
type Endpoint struct {
	Ref    name.Reference  // the image as it is called there
	Remote []remote.Option // to be given to go-containerregistry; sessions and tokens are those of the Client
}

func newClient(config Config, access Access, files shared, pace *pace) (*Client, error) {
	fault := func(err error) error {
		return &Error{Kind: Configuration, text: "setting up access to registries: " + err.Error(), cause: err}
	}
	if err := checkProxy(access.Proxy); err != nil {
		return nil, fault(err)
	}
	verify, err := tlsConfig(access, files.cas)
	if err != nil {
		return nil, fault(err)
	}
	c := &Client{access: access, conf: files.conf, pace: pace}
	if c.secure, err = newSession(config, access, verify, pace, false); err != nil {
		return nil, fault(err)
	}
	trust := verify.Clone()
	trust.InsecureSkipVerify = true // only for endpoints that the admin called insecure
	if c.insecure, err = newSession(config, access, trust, pace, true); err != nil {
		return nil, fault(err)
	}
	dialInsecurely(c.insecure.wire, verify)
	return c, nil
}

// newSession leaves go-containerregistry no retries of its own: when to ask again is for the pace and the caller to decide.
func newSession(config Config, access Access, trust *tls.Config, pace *pace, insecure bool) (session, error) {
	wire, via := newTransport(trust, access.Proxy), access.via(insecure)
	options := []remote.Option{
		remote.WithTransport(chain(wire, pace, via, insecure)),
		remote.WithAuthFromKeychain(access.Credentials),
		remote.WithUserAgent(config.UserAgent),
		remote.WithRetryBackoff(remote.Backoff{Steps: 1}),
		remote.WithRetryPredicate(func(error) bool { return false }),
		remote.WithRetryStatusCodes(),
	}
	if config.Jobs > 0 {
		options = append(options, remote.WithJobs(config.Jobs))
	}
	puller, err := remote.NewPuller(options...)
	return session{wire, puller, via}, err
}

// checkProxy does not repeat the address, which may have a password. SOCKS is refused, as net/http waits without an end for a
// proxy of that sort that is silent.
func checkProxy(proxy *url.URL) error {
	if proxy == nil {
		return nil
	}
	if proxy.Scheme != "http" && proxy.Scheme != "https" || proxy.Hostname() == "" {
		return errors.New("the address of the proxy must be of the form http://host:port or https://host:port")
	}
	return nil
}

// Fingerprint names what the Client was made from: another access, or another version of the shared files, has another. No
// secret can be told from it.
func (c *Client) Fingerprint() string { return hex.EncodeToString(c.sum[:]) }

// close closes idle connections; those in use are closed when they become idle. A nil Client has none.
func (c *Client) close() {
	if c != nil {
		c.secure.wire.CloseIdleConnections()
		c.insecure.wire.CloseIdleConnections()
	}
}

// String says whose access it is made from, without any secret.
func (c *Client) String() string { return fmt.Sprintf("registry.Client{%v}", c.access) }

// GoString is String, so that %#v shows no more.
func (c *Client) GoString() string { return c.String() }

// Try calls do with each endpoint of ref in turn until one succeeds, and returns that. It goes on to the next only after an
// *Error, which is a registry's fault; any other error, or the end of ctx, ends it. If all fail, the error is one *Error;
// with several endpoints its text has the reason of each, All the failures, and its kind is the first that an admin can mend in Access,
// else that of the last endpoint, which is the image's own registry.
func (c *Client) Try(ctx context.Context, ref name.Reference, do func(context.Context, Endpoint) error) (Endpoint, error) {
	endpoints, err := c.endpoints(ref)
	if err != nil {
		return Endpoint{}, err
	}
	var failures []*Error
	for _, endpoint := range endpoints {
		err := do(ctx, endpoint)
		if err == nil {
			return endpoint, nil
		}
		failed, ok := errors.AsType[*Error](err)
		if !ok || ctx.Err() != nil {
			return Endpoint{}, err
		}
		failures = append(failures, c.attribute(endpoint, failed, err))
	}
	return Endpoint{}, allOf(ref, failures)
}

// attribute returns err, in whose chain failed is, as one Error that also says whose credentials were refused.
func (c *Client) attribute(endpoint Endpoint, failed *Error, err error) *Error {
	whole := *failed
	whole.text, whole.reason, whole.cause = err.Error(), cmp.Or(failed.reason, failed.text), err
	if failed.Kind != Unauthorized {
		return &whole
	}
	more := ", and there are none for it"
	if file, ok := c.access.Credentials.For(endpoint.Ref.Context()); ok {
		whole.File = file
		more = ", and does not accept those of " + file
	}
	whole.text += more
	whole.reason += more
	return &whole
}

func allOf(ref name.Reference, failures []*Error) error {
	if len(failures) == 1 {
		return failures[0]
	}
	errs, reasons := make([]error, len(failures)), make([]string, len(failures))
	for i, failed := range failures {
		errs[i], reasons[i] = failed, failed.reason // which names the registry
	}
	whole := *failures[len(failures)-1]
	if i := slices.IndexFunc(failures, mendable); i >= 0 {
		whole = *failures[i]
	}
	whole.text = fmt.Sprintf("image %s can be had at none of its %d places: %s", ref, len(failures), strings.Join(reasons, "; "))
	whole.all, whole.cause = failures, errors.Join(errs...)
	return &whole
}

// mendable tells the failures that another Access would mend.
func mendable(e *Error) bool {
	return slices.Contains([]Kind{Unauthorized, Untrusted, ClientCertificate, Proxy, PlainHTTP}, e.Kind)
}

// NotBefore says when the next request for ref may be made: asked, because a registry asked so (429, or 503 with
// Retry-After), to which requests keep in any case, as they fail without being sent; advised, because it failed, to which
// planned polls should keep. Zero or past means now. Of several endpoints it is the earliest.
func (c *Client) NotBefore(ref name.Reference) (asked, advised time.Time) {
	sources, err := c.conf.sources(ref, c.access.Mirrors)
	if err != nil {
		return time.Time{}, time.Time{} // Try will say why
	}
	for i, source := range sources {
		via := c.session(source).via
		a, b := c.pace.notBefore(newPaceKey(source.ref.Context().RegistryStr(), via))
		if i == 0 || a.Before(asked) {
			asked = a
		}
		if i == 0 || b.Before(advised) {
			advised = b
		}
	}
	return asked, advised
}

// Insecure lists the registries, host[:port] each, at which ref is looked for and that need not prove who they are: by Access,
// by a mirror, or by Config.ConfFile.
func (c *Client) Insecure(ref name.Reference) []string {
	sources, err := c.conf.sources(ref, c.access.Mirrors)
	if err != nil {
		return nil // Try will say why
	}
	var hosts []string
	for _, source := range sources {
		if host := source.ref.Context().RegistryStr(); c.isInsecure(source) && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

func (c *Client) isInsecure(source source) bool { return source.insecure || c.access.Insecure }

// session returns what source is asked through.
func (c *Client) session(source source) session {
	if c.isInsecure(source) {
		return c.insecure
	}
	return c.secure
}

func (c *Client) endpoints(ref name.Reference) ([]Endpoint, error) {
	sources, err := c.conf.sources(ref, c.access.Mirrors)
	if err != nil {
		return nil, err
	}
	endpoints := make([]Endpoint, len(sources))
	for i, source := range sources {
		ref, err := schemed(source.ref, c.isInsecure(source) || isLoopback(hostname(source.ref.Context().Registry)))
		if err != nil {
			return nil, failure(Configuration, source.ref, err, fmt.Sprintf("reading the reference %s: %v", source.ref, err))
		}
		endpoints[i] = Endpoint{Ref: ref, Remote: []remote.Option{remote.Reuse(c.session(source).puller)}}
	}
	return endpoints, nil
}

// schemed returns ref so that go-containerregistry tries plain HTTP after HTTPS, or does not (save for some names of its
// own, for which there is the guard). A registry's name is to be in ASCII, since others become one on the wire only, after
// all that goes by it.
func schemed(ref name.Reference, plain bool) (name.Reference, error) {
	if !isASCII(ref.Context().RegistryStr()) {
		return nil, errors.New("the name of the registry is not in ASCII; write it in Punycode (xn--…)")
	}
	if plain {
		return name.ParseReference(ref.String(), name.Insecure)
	}
	return name.ParseReference(ref.String())
}
