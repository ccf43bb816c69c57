package content

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
)

// inCluster matches the host of a Service as it is named in the cluster: NAME.NAMESPACE.svc, and more labels of the cluster's domain.
var inCluster = regexp.MustCompile(`^([a-z0-9-]+)\.([a-z0-9-]+)\.svc(\.|$)`)

// An Address says where a content service is.
type Address struct {
	URL       *url.URL // as clients in the cluster, or outside, call it
	Name      string   // of its Service; empty unless it is one of the cluster, which is reached through the API server
	Namespace string
}

// ParseAddress reads status.urls.base of a CatalogSource: the URL of the content service, followed by /catalogs/ and the catalog's name.
func ParseAddress(base, catalog string) (Address, error) {
	u, err := url.Parse(strings.TrimSuffix(strings.TrimSuffix(base, "/"), "/catalogs/"+catalog))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return Address{}, fmt.Errorf("%q is no URL of a content service: it should look like https://HOST[:PORT]", base)
	}
	if slices.Contains(strings.Split(u.Path, "/"), "..") { // which would lead out of the service's proxy, to the rest of the API server
		return Address{}, fmt.Errorf("%q is no URL of a content service: there is .. in its path", base)
	}
	a := Address{URL: u}
	if m := inCluster.FindStringSubmatch(u.Hostname()); m != nil {
		a.Name, a.Namespace = m[1], m[2]
	}
	return a, nil
}

// Proxied returns the service at an address in the cluster, through the API server that config leads to. mint makes a token for catalogd.
func Proxied(config *rest.Config, a Address, mint func(context.Context) (string, error)) (*Service, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	port := a.URL.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[a.URL.Scheme]
	}
	service := fmt.Sprintf("%s:%s:%s", a.URL.Scheme, a.Name, port)
	base := server.JoinPath("/api/v1/namespaces", a.Namespace, "services", service, "proxy", a.URL.Path)
	return newService(base, client, mint), nil
}

// newService returns a service that follows no redirects, because the client would send its credentials to the new address.
func newService(base *url.URL, client *http.Client, mint func(context.Context) (string, error)) *Service {
	own := *client // it may be that of the whole process
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	s := &Service{base: base, http: &own}
	if mint != nil {
		s.tokens = &tokens{mint: mint}
	}
	return s
}

// Options say how a service is called directly.
type Options struct {
	Authorities []byte // PEM; instead of those of the system
	Credentials bool   // whether the service is sent the user's own credentials for the API server, which is only done over TLS

	// Mint makes a token for catalogd, if it wants one, which is only sent over TLS, too.
	Mint func(context.Context) (string, error)
}

// Direct returns the service at an address that can be reached from here. config is the user's for the API server.
func Direct(config *rest.Config, a Address, opts Options) (*Service, error) {
	own := rest.AnonymousClientConfig(config)
	switch {
	case a.URL.Scheme != "https":
		opts.Mint = nil
	case opts.Credentials:
		own = rest.CopyConfig(config)
	}
	own.Host, own.APIPath = a.URL.String(), ""
	own.TLSClientConfig.CAData, own.TLSClientConfig.CAFile = opts.Authorities, ""
	own.TLSClientConfig.ServerName, own.TLSClientConfig.Insecure = "", false
	client, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, err
	}
	return newService(a.URL, client, opts.Mint), nil
}
