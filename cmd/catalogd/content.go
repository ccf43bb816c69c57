package main

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
)

// The values of --content-auth.
const (
	authKubernetes = "kubernetes" // users whom the API server authenticates and allows to get the path
	authNone       = "none"       // everybody who reaches the port
)

// contentConfig has the flags of the content service.
type contentConfig struct {
	addr           string
	externalURL    string
	certFile       string
	keyFile        string
	plainHTTP      bool
	auth           string // after complete authKubernetes or authNone; "" if it must be given
	anonymousRead  bool
	allowedHosts   []string
	maxConnections int
	maxQueries     int
	page           bool
}

func (c *contentConfig) addFlags(f *pflag.FlagSet) {
	f.StringVar(&c.addr, "content-bind-address", ":8443",
		"`address` of the content service; a loopback address speaks plain HTTP, unless there is a certificate")
	f.StringVar(&c.externalURL, "external-url", "", "`URL` at which clients reach the content service; it appears in statuses, and a "+
		"self-signed certificate is for its host (default: made from --content-bind-address)")
	f.StringVar(&c.certFile, "tls-cert-file", "",
		"`file` with the certificate chain of the content service; reloaded on changes (default: a certificate of catalogd's own CA, "+
			"which the ConfigMap catalogd-ca publishes)")
	f.StringVar(&c.keyFile, "tls-private-key-file", "", "`file` with the private key of that certificate")
	f.BoolVar(&c.plainHTTP, "plain-http", false,
		"serve plain HTTP on any address: for development, or behind a TLS proxy; tokens and content are not encrypted")
	f.StringVar(&c.auth, "content-auth", "",
		"`method` of authentication: kubernetes (users that the API server allows to get the path, see ClusterRole "+
			"catalogd-content-reader) or none "+
			"(default: kubernetes in a pod, none on a loopback address; required elsewhere)")
	f.BoolVar(&c.anonymousRead, "anonymous-read", false, "let clients without credentials read /catalogs/NAME/api/v1/all and metas, and "+
		"nothing else, if the API server allows user system:anonymous to get that path or the same with * for NAME; the clients of "+
		"OLM v1 send none (see config/components/cluster-catalogs); no effect with --content-auth=none, where everybody may read")
	f.StringSliceVar(&c.allowedHosts, "allowed-hosts", nil, "`names`, separated by commas, that clients of a loopback port may use "+
		"in the Host header, beside localhost, loopback addresses and the host of --external-url; requests for other hosts are "+
		"refused, which stops DNS rebinding")
	f.BoolVar(&c.page, "page", false, "serve a web page of the catalogs at /ui/; unless --content-auth=none, readers log in with a token "+
		"for the audience catalogd.operatorframework.io")
	f.IntVar(&c.maxConnections, "max-connections", 1000,
		"limit of connections to the content service; above it, the connections that are idle longest are closed")
	f.IntVar(&c.maxQueries, "max-concurrent-queries", 32, "limit of concurrent queries; above it, clients are asked to retry later")
}

// complete sets the defaults.
func (c *contentConfig) complete(inPod bool) {
	if c.auth == "" {
		switch {
		case c.onLoopback():
			c.auth = authNone
		case inPod:
			c.auth = authKubernetes
		}
	}
	if c.externalURL == "" {
		c.externalURL = c.defaultURL()
	}
	c.externalURL = strings.TrimSuffix(c.externalURL, "/")
}

func (c *contentConfig) validate(check func(ok bool, format string, args ...any)) {
	check(isURL(c.externalURL), "--external-url %q is not a URL: write http://host[:port] or https://host[:port]", c.externalURL)
	check((c.certFile == "") == (c.keyFile == ""), "--tls-cert-file and --tls-private-key-file must be set together")
	check(!c.plainHTTP || (c.certFile == "" && c.keyFile == ""), "--plain-http excludes --tls-cert-file and --tls-private-key-file")
	check(c.auth != "", "--content-auth is required, as other machines can reach --content-bind-address %q: use "+
		"--content-auth=kubernetes to let the API server authorize readers, "+
		"--content-auth=none to let everyone read, or an address like 127.0.0.1:8080", c.addr)
	check(slices.Contains([]string{"", authKubernetes, authNone}, c.auth), "--content-auth %q is neither kubernetes nor none", c.auth)
	check(c.maxConnections > 0, "--max-connections %d must be at least 1", c.maxConnections)
	check(c.maxQueries > 0, "--max-concurrent-queries %d must be at least 1", c.maxQueries)
}

// onLoopback reports whether only this machine can reach the address.
func (c *contentConfig) onLoopback() bool {
	_, _, err := net.SplitHostPort(c.addr)
	return err != nil || isLoopback(c.addr) // validate reports an invalid address
}

// hostsAt returns the allowed hosts of requests to an address; nil (any host) unless the address is loopback.
func (c *contentConfig) hostsAt(addr string) []string {
	if !isLoopback(addr) {
		return nil
	}
	hosts := []string{strings.ToLower(hostOf(c.externalURL))}
	for _, host := range c.allowedHosts {
		hosts = append(hosts, strings.ToLower(host))
	}
	return hosts
}

// isLoopback reports whether only this machine can reach an address.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || (ip != nil && ip.IsLoopback()))
}

// isURL reports whether text is an HTTP or HTTPS URL without a query.
func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.RawQuery == "" && u.Fragment == ""
}

// misleads returns a warning if --external-url has another protocol than the service; else "".
func (c *contentConfig) misleads() string {
	speaksTLS, leadsToTLS := c.hasFiles() || c.selfSigned(), strings.HasPrefix(c.externalURL, "https:")
	switch {
	case speaksTLS && !leadsToTLS:
		return "the content service speaks TLS, but --external-url is plain HTTP; this is right only behind a proxy"
	case leadsToTLS && !speaksTLS:
		return "the content service speaks plain HTTP, but --external-url is HTTPS; this is right only behind a TLS proxy"
	}
	return ""
}

// hasFiles reports whether the certificate is given; selfSigned, whether catalogd makes one.
func (c *contentConfig) hasFiles() bool   { return c.certFile != "" }
func (c *contentConfig) selfSigned() bool { return !c.plainHTTP && !c.hasFiles() && !c.onLoopback() }

// defaultURL returns the URL of the listening address; without a host, it is that of this machine.
func (c *contentConfig) defaultURL() string {
	scheme := "http://"
	if c.hasFiles() || c.selfSigned() {
		scheme = "https://"
	}
	host, port, err := net.SplitHostPort(c.addr)
	if err != nil {
		return scheme + c.addr // validate reports it
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	return scheme + net.JoinHostPort(host, port)
}

// names returns the host names and addresses for the certificate.
func (c *contentConfig) names() []string {
	names := []string{"localhost", "127.0.0.1", "::1"}
	for _, host := range []string{hostOf(c.externalURL), bindHost(c.addr)} {
		if host == "" || slices.Contains(names, host) {
			continue
		}
		names = append(names, host)
		if strings.HasSuffix(host, ".svc") {
			names = append(names, host+".cluster.local")
		}
	}
	return names
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// bindHost returns the host of a listening address; "" for all interfaces.
func bindHost(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return ""
	}
	return host
}

// inPod reports whether catalogd runs in the cluster that it works for.
func inPod(kubeconfig string) bool {
	if kubeconfig != "" {
		return false
	}
	_, err := rest.InClusterConfig()
	return err == nil
}

// protection describes for the log how the content is protected.
func (c *contentConfig) protection() string {
	protocol := "plain HTTP"
	switch {
	case c.hasFiles():
		protocol = "TLS by " + c.certFile
	case c.selfSigned():
		protocol = "TLS by catalogd's own CA"
	}
	method := c.auth
	if c.anonymousRead && c.auth == authKubernetes {
		method += ", or anonymous"
	}
	return fmt.Sprintf("%s, authentication: %s", protocol, method)
}
