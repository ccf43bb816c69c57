package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// TestAccess has settings that reach a registry; TestFaults has those that do not.
func TestAccess(t *testing.T) {
	ca := newAuthority(t)
	image, digest := withImage(t)
	type way struct {
		host   string
		access Access
	}
	trusting := func(access Access) Access {
		access.RootCAs = ca.pem()
		return access
	}
	plain, secure := serve(t, image), serveTLS(t, ca.server(), image)
	named := serveTLS(t, ca.server("registry.example"), image)
	mutual := serveTLS(t, ca.server(), image, wantsCertificate(ca, tls.VersionTLS13))
	wantsBasic := serveTLS(t, ca.server(), basic("user", password, image))
	wantsBearer := serveTLS(t, ca.server(), bearer("user", password, identityToken, bearerToken, image))
	toPlain, _ := forward(t, plain)
	toNamed, _ := forward(t, named)
	withCredentials := func(file string) Access { return trusting(Access{Credentials: credentials(t, file)}) }
	for name, test := range map[string]way{
		"plain HTTP on loopback": {plain, Access{}},
		"by name":                {strings.Replace(plain, "127.0.0.1", "localhost", 1), Access{}},
		"own CA":                 {secure, trusting(Access{})},
		"insecure, untrusted":    {secure, Access{Insecure: true}},
		"insecure, plain":        {"registry.example:5000", Access{Insecure: true, Proxy: toPlain}},
		"client certificate":     {mutual, trusting(Access{Certificate: ca.client()})},
		"basic":                  {wantsBasic, withCredentials(auths(wantsBasic, "user", password))},
		"basic, for the repository": {
			wantsBasic,
			trusting(Access{Credentials: credentials(t, auths(wantsBasic, "user", "wrong"), auths(wantsBasic+"/catalogs/foo", "user", password))}),
		},
		"bearer": {wantsBearer, withCredentials(auths(wantsBearer, "user", password))},
		"bearer, identity token": {
			wantsBearer, withCredentials(`{"auths":{"` + wantsBearer + `":{"identitytoken":"` + identityToken + `"}}}`),
		},
		"bearer, registry token": {
			wantsBearer, withCredentials(`{"auths":{"` + wantsBearer + `":{"registrytoken":"` + bearerToken + `"}}}`),
		},
		"proxy":                       {"registry.example", trusting(Access{Proxy: toNamed})},
		"proxy, another port":         {"registry.example:8443", trusting(Access{Proxy: toNamed})},
		"proxy, loopback goes by too": {"localhost:1", Access{Proxy: toPlain}},
	} {
		t.Run(name, func(t *testing.T) {
			got, endpoint, err := head(t, newTestClient(t, test.access), test.host+"/catalogs/foo:v1")
			if err != nil || got != digest {
				t.Fatalf("got %v, %v, want %v", got, err, digest)
			}
			if want := test.host + "/catalogs/foo:v1"; endpoint.Ref.String() != want {
				t.Errorf("served by %s, want %s", endpoint.Ref, want)
			}
		})
	}
}

// TestPull downloads an image through the whole chain of transports.
func TestPull(t *testing.T) {
	ca := newAuthority(t)
	image, _ := withImage(t)
	host := serveTLS(t, ca.server(), basic("user", password, image))
	client := newTestClient(t, Access{RootCAs: ca.pem(), Credentials: credentials(t, auths(host, "user", password))})
	_, err := client.Try(t.Context(), parse(t, host+"/catalogs/foo:v1"), func(ctx context.Context, e Endpoint) error {
		img, err := remote.Image(e.Ref, append(e.Remote, remote.WithContext(ctx))...)
		if err != nil {
			return err
		}
		return validate.Image(img)
	})
	if err != nil {
		t.Error(err)
	}
}

// TestGuard checks at a proxy that no request uses plain HTTP, not even for the target of a redirect.
func TestGuard(t *testing.T) {
	image, _ := withImage(t)
	for _, host := range []string{"10.1.2.3:5000", "172.16.0.1", "192.168.1.1:80", "registry.localhost:5000", "registry.example"} {
		proxy, seen := forward(t, serve(t, image))
		if _, _, err := head(t, newTestClient(t, Access{Proxy: proxy}), host+"/catalogs/foo:v1"); KindOf(err) != PlainHTTP {
			t.Errorf("%s: got %v, want an error of kind %s", host, err, PlainHTTP)
		}
		requests := seen.take()
		for _, request := range requests {
			if !strings.HasPrefix(request, "CONNECT ") {
				t.Errorf("%s: asked by plain HTTP: %s", host, request)
			}
		}
		if len(requests) == 0 {
			t.Errorf("%s: not asked by HTTPS either", host)
		}
	}
}

// places returns a client with three endpoints of quay.io/ns/foo, which Try asks in this order.
func places(t *testing.T) *Client {
	return newTestClient(t, Access{
		Credentials: credentials(t, auths("b.example", "user", password)),
		Mirrors:     []Mirror{{Source: "quay.io", Location: "a.example"}, {Source: "quay.io", Location: "b.example"}},
	})
}

func TestTry(t *testing.T) {
	ref := parse(t, "quay.io/ns/foo:v1")
	fault := func(kind Kind) func(Endpoint) error {
		return func(e Endpoint) error {
			return fmt.Errorf("layer 1 of 2: %w", failure(kind, e.Ref, nil, "registry "+e.Ref.Context().RegistryStr()+" failed"))
		}
	}
	fine := func(Endpoint) error { return nil }
	other := errors.New("the disk is full")
	full := func(Endpoint) error { return other }
	for name, test := range map[string]struct {
		does   map[string]func(Endpoint) error // by host
		asked  []string
		want   string // the endpoint, or the error
		kind   Kind
		host   string
		fileOf string
	}{
		"first": {
			does:  map[string]func(Endpoint) error{"a.example": fine},
			asked: []string{"a.example"}, want: "a.example/ns/foo:v1",
		},
		"fallback": {
			does:  map[string]func(Endpoint) error{"a.example": fault(NotFound), "b.example": fault(Damaged), "quay.io": fine},
			asked: []string{"a.example", "b.example", "quay.io"}, want: "quay.io/ns/foo:v1",
		},
		"no registry's fault": {
			does:  map[string]func(Endpoint) error{"a.example": fault(NotFound), "b.example": full},
			asked: []string{"a.example", "b.example"}, want: "the disk is full",
		},
		"all fail": {
			does:  map[string]func(Endpoint) error{"a.example": fault(Unreachable), "b.example": fault(Damaged), "quay.io": fault(NotFound)},
			asked: []string{"a.example", "b.example", "quay.io"},
			want: "image quay.io/ns/foo:v1 is not available from any of its 3 locations: registry a.example failed; registry b.example " +
				"failed; registry quay.io failed",
			kind: NotFound, host: "quay.io",
		},
		"what can be mended": {
			does: map[string]func(Endpoint) error{
				"a.example": fault(Unreachable), "b.example": fault(Unauthorized), "quay.io": fault(Unauthorized),
			},
			asked: []string{"a.example", "b.example", "quay.io"},
			want: "image quay.io/ns/foo:v1 is not available from any of its 3 locations: registry a.example failed; " +
				"registry b.example failed, and rejects those of Secret a; registry quay.io failed, and none are configured for it",
			kind: Unauthorized, host: "b.example", fileOf: "Secret a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			endpoint, err := places(t).Try(t.Context(), ref, func(_ context.Context, e Endpoint) error {
				host := e.Ref.Context().RegistryStr()
				asked = append(asked, host)
				return test.does[host](e)
			})
			if diff := cmp.Diff(test.asked, asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			if err == nil {
				if endpoint.Ref.String() != test.want {
					t.Errorf("served by %s, want %s", endpoint.Ref, test.want)
				}
				return
			}
			if err.Error() != test.want {
				t.Errorf("got error\n %v, want\n %s", err, test.want)
			}
			var got Error
			if failed, ok := errors.AsType[*Error](err); ok {
				got = *failed
			}
			if got.Kind != test.kind || got.Host != test.host || got.File != test.fileOf {
				t.Errorf("got kind %q, host %q, file %q; want %q, %q, %q", got.Kind, got.Host, got.File, test.kind, test.host, test.fileOf)
			}
		})
	}
}

func TestTryCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	_, err := places(t).Try(ctx, parse(t, "quay.io/ns/foo:v1"), func(_ context.Context, e Endpoint) error {
		asked++
		cancel()
		return failure(Unreachable, e.Ref, nil, "too late")
	})
	if asked != 1 || err == nil || err.Error() != "too late" {
		t.Errorf("after the end of the context: %d asked, %v", asked, err)
	}
}

// TestSession counts requests: in an open session a poll is one HEAD, and a failed request is not repeated.
func TestSession(t *testing.T) {
	ca := newAuthority(t)
	image, _ := withImage(t)
	seen := &requestLog{Handler: bearer("user", password, identityToken, bearerToken, image)}
	host := serveTLS(t, ca.server("registry.example"), seen)
	proxy, _ := forward(t, host)
	registries := newRegistries(t, Config{})
	access := func(password string) Access {
		return Access{RootCAs: ca.pem(), Proxy: proxy, Credentials: credentials(t, auths("registry.example", "user", password))}
	}
	poll := func(password, image string, wantErr Kind, want ...string) {
		t.Helper()
		client, err := registries.Client("test", access(password))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := head(t, client, image); KindOf(err) != wantErr {
			t.Fatalf("got error %v, want kind %q", err, wantErr)
		}
		if diff := cmp.Diff(want, seen.take()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	}
	const foo, asks = "registry.example/catalogs/foo:v1", "HEAD /v2/catalogs/foo/manifests/v1"
	poll("wrong", foo, Unauthorized, "GET /v2/", "GET /token")
	poll(password, foo, "", "GET /v2/", "GET /token", asks) // rotated
	poll(password, foo, "", asks)
	poll(password, foo, "", asks)
	poll("wrong", foo, Unauthorized, "GET /v2/", "GET /token") // no token of before is used
	poll(password, "registry.example/catalogs/bar:v1", NotFound, "GET /v2/", "GET /token", "HEAD /v2/catalogs/bar/manifests/v1")
}

func TestNoRetries(t *testing.T) {
	for _, status := range []int{408, 429, 500, 502, 503, 504} {
		seen := &requestLog{Handler: answer(status)}
		host := serve(t, seen)
		if _, _, err := head(t, newTestClient(t, Access{}), host+"/foo:v1"); err == nil {
			t.Errorf("%d is no error", status)
		}
		if diff := cmp.Diff([]string{"GET /v2/", "HEAD /v2/foo/manifests/v1"}, seen.take()); diff != "" {
			t.Errorf("%d: requests (-want +got):\n%s", status, diff)
		}
	}
}

func TestNotBefore(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	seen := &requestLog{Handler: answer(http.StatusTooManyRequests, "Retry-After", "30")}
	host := serve(t, seen)
	client, err := newRegistries(t, Config{Now: func() time.Time { return now }}).Client("test", Access{})
	if err != nil {
		t.Fatal(err)
	}
	image := host + "/foo:v1"
	if asked, advised := client.NotBefore(parse(t, image)); !asked.IsZero() || !advised.IsZero() {
		t.Errorf("before any request: %v, %v", asked, advised)
	}
	if _, _, err := head(t, client, image); KindOf(err) != RateLimited {
		t.Fatal(err)
	}
	if asked, _ := client.NotBefore(parse(t, image)); !asked.Equal(now.Add(30 * time.Second)) {
		t.Errorf("asked for patience until %v", asked)
	}
	seen.take()
	if _, _, err := head(t, client, image); KindOf(err) != RateLimited || seen.take() != nil {
		t.Errorf("asked all the same: %v", err)
	}
	mirrored, err := newRegistries(t, Config{}).Client("test", Access{Mirrors: []Mirror{{Source: host, Location: "mirror.example"}}})
	if err != nil {
		t.Fatal(err)
	}
	mirrored.pace = client.pace
	if asked, _ := mirrored.NotBefore(parse(t, image)); !asked.IsZero() {
		t.Errorf("with a mirror that asked for nothing: %v", asked)
	}
}

// Pauses requested through a catalog's own proxy or by an unverified registry do not affect other catalogs.
func TestPaceIsPerRoute(t *testing.T) {
	limited := serve(t, answer(http.StatusTooManyRequests, "Retry-After", "86400"))
	proxy, _ := forward(t, limited)
	const image = "registry.example/ns/foo:v1"
	for name, access := range map[string]Access{
		"own proxy":           {Proxy: proxy},
		"insecure":            {Insecure: true},
		"insecure, own proxy": {Insecure: true, Proxy: proxy},
		"insecure mirror":     {Mirrors: []Mirror{{Location: "registry.example", Insecure: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			clock := newStepClock()
			registries := newRegistries(t, Config{Now: clock.Now})
			of := func(catalog string, access Access) *Client {
				t.Helper()
				client, err := registries.Client(catalog, access)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { registries.Forget(catalog) })
				return client
			}
			one, same, other := of("test", access), of("same", access), of("other", Access{})
			sources, err := one.conf.sources(parse(t, image), access.Mirrors)
			if err != nil {
				t.Fatal(err)
			}
			via := one.session(sources[0]).via
			if access.Proxy != nil && access.Insecure { // all of the way; the others cannot get to a registry.example here
				if _, _, err := head(t, one, image); KindOf(err) != RateLimited {
					t.Fatal(err)
				}
			} else {
				registries.pace.answered(newPaceKey("registry.example", via), clock.Now(),
					&http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"86400"}}})
			}
			if len(sources) == 1 { // of two, the earliest counts
				if asked, _ := same.NotBefore(parse(t, image)); asked.Sub(clock.Now()) != 24*time.Hour {
					t.Errorf("a catalog that goes the same way may ask in %v, want a day", asked.Sub(clock.Now()))
				}
			}
			if asked, _ := other.NotBefore(parse(t, image)); !asked.IsZero() {
				t.Errorf("a catalog that goes another way may ask at %v, want now", asked)
			}
			if err := registries.pace.paused(newPaceKey("registry.example", ""), clock.Now()); err != nil {
				t.Errorf("a catalog that goes another way: %v", err)
			}
		})
	}
}
