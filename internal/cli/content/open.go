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

// inCluster matches the host of a Service in the cluster: NAME.NAMESPACE.svc, with or without the cluster's domain.
var inCluster = regexp.MustCompile(`^([a-z0-9-]+)\.([a-z0-9-]+)\.svc(\.|$)`)

// An Address is the address of a content service.
type Address struct {
	URL       *url.URL
	Name      string // of its Service in the cluster, which is reached through the API server; empty for another host
	Namespace string
}

// ParseAddress parses status.urls.base of a CatalogSource: the URL of the content service, /catalogs/ and the catalog's name.
func ParseAddress(base, catalog string) (Address, error) {
	u, err := url.Parse(strings.TrimSuffix(strings.TrimSuffix(base, "/"), "/catalogs/"+catalog))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return Address{}, fmt.Errorf("invalid URL of a content service %q: use https://HOST[:PORT]", base)
	}
	if slices.Contains(strings.Split(u.Path, "/"), "..") { // could request other resources of the API server
		return Address{}, fmt.Errorf("invalid URL of a content service %q: the path contains '..'", base)
	}
	a := Address{URL: u}
	if m := inCluster.FindStringSubmatch(u.Hostname()); m != nil {
		a.Name, a.Namespace = m[1], m[2]
	}
	return a, nil
}

// Proxied returns the service at an address in the cluster, through the API server of config. mint requests a token for catalogd.
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
	own := *client // may be http.DefaultClient
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	s := &Service{base: base, http: &own}
	if mint != nil {
		s.tokens = &tokens{mint: mint}
	}
	return s
}

// Options configure direct access to a service. Credentials and tokens are sent over TLS only.
type Options struct {
	CAFile      string                                // replaces the certificate authorities of the system
	Credentials bool                                  // send the user's own credentials for the API server
	Mint        func(context.Context) (string, error) // requests a token for catalogd, if that is required
}

// Direct returns the service at an address that is reachable from here. config is that of the API server.
func Direct(config *rest.Config, a Address, opts Options) (*Service, error) {
	own := rest.AnonymousClientConfig(config)
	switch {
	case a.URL.Scheme != "https":
		opts.Mint = nil
	case opts.Credentials:
		own = rest.CopyConfig(config)
	}
	own.Host, own.APIPath = a.URL.String(), ""
	own.TLSClientConfig.CAData, own.TLSClientConfig.CAFile = nil, opts.CAFile
	own.TLSClientConfig.ServerName, own.TLSClientConfig.Insecure = "", false
	client, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, err
	}
	return newService(a.URL, client, opts.Mint), nil
}
