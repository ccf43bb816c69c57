package registry

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// canonicalHost is the one name of host[:port] among those that lead to the same place by HTTPS: in lower case, without the
// dot at the end (RFC 1034, section 3.1), without port 443 and without zeros before a port.
func canonicalHost(host string) string {
	host = strings.ToLower(host)
	port := ""
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host, port = host[:i], strings.TrimLeft(host[i+1:], "0")
	}
	host = strings.TrimSuffix(host, ".")
	if port == "" || port == "443" {
		return host
	}
	return host + ":" + port
}

// hostname is the registry's without the port.
func hostname(registry name.Registry) string {
	if host, _, err := net.SplitHostPort(registry.RegistryStr()); err == nil {
		return host
	}
	return registry.RegistryStr()
}

// isLoopback tells hosts that are this machine whatever a name server says; host has no port.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.Unmap().IsLoopback()
}

// scope is from where a host, without its port, can be reached.
type scope string

const (
	anywhere    scope = ""
	network     scope = "network" // private and link-local addresses (RFC 1918, 4193, 3927, 4291), such as a cloud's metadata service
	thisMachine scope = "machine"
)

// scopeOf goes by the name only: which address a name server gives is not known here. Names that only some resolvers take
// for addresses ("127.1", "0x7f000001"), or that become others on the way (not ASCII: a Location has Punycode), are of the network.
func scopeOf(host string) scope {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if isLoopback(host) || strings.HasSuffix(host, ".localhost") {
		return thisMachine
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		_, notNumber := strconv.ParseUint(host[strings.LastIndexByte(host, '.')+1:], 0, 64)
		if notNumber == nil || !isASCII(host) {
			return network
		}
		return anywhere
	}
	switch addr = addr.Unmap(); {
	case addr.IsUnspecified(): // which connects to this machine
		return thisMachine
	case addr.IsPrivate(), addr.IsLinkLocalUnicast(), addr.IsMulticast():
		return network
	default:
		return anywhere
	}
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0
}
