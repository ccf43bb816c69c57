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

// Who may read the content.
const (
	authKubernetes = "kubernetes" // whom the API server knows, and allows to get the path
	authNone       = "none"       // everybody who reaches the port
)

// contentConfig is what the flags say of the content service.
type contentConfig struct {
	addr           string
	externalURL    string
	certFile       string
	keyFile        string
	plainHTTP      bool
	auth           string // after complete authKubernetes or authNone; "" if nobody said and it cannot be guessed
	allowedHosts   []string
	maxConnections int
	maxQueries     int
}

func (c *contentConfig) addFlags(f *pflag.FlagSet) {
	f.StringVar(&c.addr, "content-bind-address", ":8443", "`address` of the content service; on a loopback address it is plain HTTP, unless there is a certificate")
	f.StringVar(&c.externalURL, "external-url", "", "`URL` at which clients reach the content service; it stands in statuses, and a certificate that catalogd makes is for its host (default: made from --content-bind-address)")
	f.StringVar(&c.certFile, "tls-cert-file", "", "`file` with the certificate of the content service, and its chain; read again when it changes (default: a certificate of catalogd's own authority, "+
		"which is published in the ConfigMap catalogd-ca)")
	f.StringVar(&c.keyFile, "tls-private-key-file", "", "`file` with the key of that certificate")
	f.BoolVar(&c.plainHTTP, "plain-http", false, "serve plain HTTP, whatever the address: for development, and behind a proxy that encrypts; tokens and content can be read on the way")
	f.StringVar(&c.auth, "content-auth", "", "`who` may read the content: kubernetes, those whom the API server knows and allows to get the path (see ClusterRole catalogd-content-reader), or none, "+
		"everybody (default: kubernetes in a pod, none on a loopback address; has to be given elsewhere)")
	f.StringSliceVar(&c.allowedHosts, "allowed-hosts", nil, "`names`, separated by commas, that clients of a loopback port may use "+
		"in the Host header, beside localhost, loopback addresses and the host of --external-url; requests for other hosts are "+
		"refused, which stops DNS rebinding")
	f.IntVar(&c.maxConnections, "max-connections", 1000, "most connections to the content service; of more, those that have waited longest give way")
	f.IntVar(&c.maxQueries, "max-concurrent-queries", 32, "most queries that are answered at a time; more are asked to come again")
}

// complete fills in what was not said.
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
	check(isURL(c.externalURL), "--external-url %q is no URL: write http://host[:port] or https://host[:port]", c.externalURL)
	check((c.certFile == "") == (c.keyFile == ""), "--tls-cert-file and --tls-private-key-file belong together: give both or neither")
	check(!c.plainHTTP || (c.certFile == "" && c.keyFile == ""), "--plain-http needs no certificate: give either that, or --tls-cert-file and --tls-private-key-file")
	check(c.auth != "", "who may read the content is not said, and --content-bind-address %q can be reached from other machines: give --content-auth=kubernetes to ask the API server, "+
		"--content-auth=none to let everybody read, or an address like 127.0.0.1:8080", c.addr)
	check(slices.Contains([]string{"", authKubernetes, authNone}, c.auth), "--content-auth %q is neither kubernetes nor none", c.auth)
	check(c.maxConnections > 0, "--max-connections %d is too small: it has to be 1 or more", c.maxConnections)
	check(c.maxQueries > 0, "--max-concurrent-queries %d is too small: it has to be 1 or more", c.maxQueries)
}

// onLoopback tells whether only this machine can reach the address.
func (c *contentConfig) onLoopback() bool {
	_, _, err := net.SplitHostPort(c.addr)
	return err != nil || isLoopback(c.addr) // if it is no address, validate says so, and nothing else about it
}

// hostsAt returns the hosts that requests to an address without authentication may name: any (nil) unless it is loopback.
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

// isLoopback tells whether this is an address that only this machine can reach.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || (ip != nil && ip.IsLoopback()))
}

// isURL tells whether this is a URL of a service: of HTTP or HTTPS, without a query.
func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.RawQuery == "" && u.Fragment == ""
}

// misleads says that clients are led to HTTPS where the service speaks plain HTTP, or the other way round; "" if they are not.
func (c *contentConfig) misleads() string {
	speaksTLS, leadsToTLS := c.hasFiles() || c.selfSigned(), strings.HasPrefix(c.externalURL, "https:")
	switch {
	case speaksTLS && !leadsToTLS:
		return "the content service speaks TLS, and --external-url leads clients to plain HTTP; that is right only behind a proxy"
	case leadsToTLS && !speaksTLS:
		return "the content service speaks plain HTTP, and --external-url leads clients to HTTPS; that is right only behind a proxy that speaks TLS"
	}
	return ""
}

// hasFiles tells whether the certificate is given; selfSigned, whether one has to be made.
func (c *contentConfig) hasFiles() bool   { return c.certFile != "" }
func (c *contentConfig) selfSigned() bool { return !c.plainHTTP && !c.hasFiles() && !c.onLoopback() }

// defaultURL makes a URL of the listening address; one without a host is taken to be reached on this machine.
func (c *contentConfig) defaultURL() string {
	scheme := "http://"
	if c.hasFiles() || c.selfSigned() {
		scheme = "https://"
	}
	host, port, err := net.SplitHostPort(c.addr)
	if err != nil {
		return scheme + c.addr // validate says what is wrong
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	return scheme + net.JoinHostPort(host, port)
}

// names are the host names and addresses by which clients call the service: what a certificate is made for.
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

// bindHost is the host of a listening address, "" where that is all interfaces.
func bindHost(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return ""
	}
	return host
}

// inPod tells whether the cluster that catalogd works for is the one it runs in.
func inPod(kubeconfig string) bool {
	if kubeconfig != "" {
		return false
	}
	_, err := rest.InClusterConfig()
	return err == nil
}

// describe says for the log how the content is protected.
func (c *contentConfig) describe() string {
	protocol := "plain HTTP"
	switch {
	case c.hasFiles():
		protocol = "TLS by " + c.certFile
	case c.selfSigned():
		protocol = "TLS by catalogd's own authority"
	}
	return fmt.Sprintf("%s, authentication: %s", protocol, c.auth)
}
