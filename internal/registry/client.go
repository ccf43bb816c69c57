package registry

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Client is one catalog's access to registries. Registries owns it. Its methods may be called concurrently. Its
// printed form contains no secret.
type Client struct {
	sum    digest // fingerprint of its settings
	access Access
	conf   *conf
	pace   *pace
	reach  *reach // nil: none

	secure   session
	insecure session // also uses plain HTTP; verifies no certificate
}

// session is a transport with its tokens and connections.
type session struct {
	wire   *http.Transport
	puller *remote.Puller
	via    string // the route of wire, for the pace
}

// Endpoint is one location of an image.
type Endpoint struct {
	Ref    name.Reference  // the image's name at this location
	Remote []remote.Option // options for go-containerregistry; they carry the sessions and tokens of the Client
}

func newClient(config Config, access Access, files shared, pace *pace) (*Client, error) {
	fault := func(err error) error {
		return &Error{Kind: Configuration, text: "setting up access to registries: " + err.Error(), cause: err}
	}
	verify, err := tlsConfig(access, files.cas)
	if err != nil {
		return nil, fault(err)
	}
	c := &Client{access: access, conf: files.conf, pace: pace, reach: newReach(config, access)}
	if c.secure, err = c.newSession(config, verify, false); err != nil {
		return nil, fault(err)
	}
	trust := verify.Clone()
	trust.InsecureSkipVerify = true // only for endpoints that the admin marked insecure
	if c.insecure, err = c.newSession(config, trust, true); err != nil {
		return nil, fault(err)
	}
	dialInsecurely(c.insecure.wire, verify, c.reach)
	return c, nil
}

// newSession disables the retries of go-containerregistry: the pace and the caller decide when to retry.
func (c *Client) newSession(config Config, trust *tls.Config, insecure bool) (session, error) {
	wire, via := newTransport(trust, c.access.Proxy, c.reach), c.access.via(insecure)
	options := []remote.Option{
		remote.WithTransport(chain(wire, c.reach, c.pace, via, insecure)),
		remote.WithAuthFromKeychain(c.access.Credentials),
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

// Fingerprint identifies the settings of the Client: it changes with the Access or the shared files. It reveals
// no secret.
func (c *Client) Fingerprint() string { return hex.EncodeToString(c.sum[:]) }

// close closes idle connections; active ones close when they become idle. A nil Client is valid.
func (c *Client) close() {
	if c != nil {
		c.secure.wire.CloseIdleConnections()
		c.insecure.wire.CloseIdleConnections()
	}
}

// String returns a summary without any secret.
func (c *Client) String() string { return fmt.Sprintf("registry.Client{%v}", c.access) }

// GoString returns String, so that %#v shows no secret.
func (c *Client) GoString() string { return c.String() }

// Try calls do with each endpoint of ref in turn until one succeeds, and returns that endpoint. It tries the
// next endpoint only after an *Error, which is a registry's failure. Any other error, or the end of ctx, stops
// it.
//
// If all endpoints fail, the error is one *Error. For several endpoints its text has the reason of each, and All
// returns the failures. Its kind is the first that a change of Access can fix, else that of the last endpoint,
// which is the image's own registry.
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

// attribute returns err, which wraps failed, as one Error that also names the rejected credentials.
func (c *Client) attribute(endpoint Endpoint, failed *Error, err error) *Error {
	whole := *failed
	whole.text, whole.reason, whole.cause = err.Error(), cmp.Or(failed.reason, failed.text), err
	if failed.Kind != Unauthorized {
		return &whole
	}
	more := ", and none are configured for it"
	if file, ok := c.access.Credentials.For(endpoint.Ref.Context()); ok {
		whole.File = file
		more = ", and rejects those of " + file
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
		errs[i], reasons[i] = failed, failed.reason // it names the registry
	}
	whole := *failures[len(failures)-1]
	if i := slices.IndexFunc(failures, isFixable); i >= 0 {
		whole = *failures[i]
	}
	whole.text = fmt.Sprintf("image %s is not available from any of its %d locations: %s", ref, len(failures), strings.Join(reasons, "; "))
	whole.all, whole.cause = failures, errors.Join(errs...)
	return &whole
}

// isFixable reports whether another Access would fix the failure.
func isFixable(e *Error) bool {
	return slices.Contains([]Kind{Unauthorized, Untrusted, ClientCertificate, Proxy, PlainHTTP}, e.Kind)
}

// NotBefore returns when the next request for ref may be sent. asked is the time requested by a registry (429,
// or 503 with Retry-After); earlier requests fail without being sent. advised is the end of the backoff after a
// failure, for scheduled polls. Zero or past means now. With several endpoints it is the earliest time.
func (c *Client) NotBefore(ref name.Reference) (asked, advised time.Time) {
	sources, err := c.conf.sources(ref, c.access.Mirrors)
	if err != nil {
		return time.Time{}, time.Time{} // Try returns the error
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

// Insecure returns the registries of ref, as host[:port], that are not authenticated, because Access, a mirror
// or Config.ConfFile marks them insecure.
func (c *Client) Insecure(ref name.Reference) []string {
	sources, err := c.conf.sources(ref, c.access.Mirrors)
	if err != nil {
		return nil // Try returns the error
	}
	var hosts []string
	for _, source := range sources {
		if host := source.ref.Context().RegistryStr(); c.isInsecure(source) && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// Registries returns the registries of ref, as host[:port]: its mirrors and its own.
func (c *Client) Registries(ref name.Reference) []string {
	sources, err := c.conf.sources(ref, c.access.Mirrors)
	if err != nil {
		return nil // Try returns the error
	}
	var hosts []string
	for _, source := range sources {
		if host := source.ref.Context().RegistryStr(); !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

func (c *Client) isInsecure(source source) bool { return source.insecure || c.access.Insecure }

// session returns the session for source.
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
	var endpoints []Endpoint
	for _, source := range sources {
		registry := source.ref.Context().RegistryStr()
		if registry != ref.Context().RegistryStr() {
			c.reach.add(registry) // a mirror, which an admin configured
		} else if !c.reach.has(registry) {
			continue
		}
		host, _ := splitPort(registry)
		ref, err := schemed(source.ref, c.isInsecure(source) || isLoopback(host))
		if err != nil {
			return nil, failure(Configuration, source.ref, err, fmt.Sprintf("reading the reference %s: %v", source.ref, err))
		}
		endpoints = append(endpoints, Endpoint{Ref: ref, Remote: []remote.Option{remote.Reuse(c.session(source).puller)}})
	}
	if len(endpoints) == 0 {
		return nil, failure(Forbidden, ref, nil, "the registry of image "+ref.String()+" is not allowed")
	}
	return endpoints, nil
}

// schemed returns ref so that go-containerregistry does or does not try plain HTTP after HTTPS (except for some
// hosts of its own, which guarded handles). The registry's name must be ASCII: conversion on the wire would
// bypass all checks by name.
func schemed(ref name.Reference, plain bool) (name.Reference, error) {
	if !isASCII(ref.Context().RegistryStr()) {
		return nil, errors.New("the registry's host name is not ASCII; use Punycode (xn--…)")
	}
	if plain {
		return name.ParseReference(ref.String(), name.Insecure)
	}
	return name.ParseReference(ref.String())
}
