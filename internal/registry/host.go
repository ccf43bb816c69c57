package registry

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// canonicalHost returns the canonical form of host[:port]: lower case, without a trailing dot (RFC 1034, section
// 3.1), port 443 or leading zeros of the port.
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

// splitPort splits host[:port].
func splitPort(registry string) (host, port string) {
	if host, port, err := net.SplitHostPort(registry); err == nil {
		return host, port
	}
	return registry, ""
}

// isLoopback reports whether host, which has no port, is this machine regardless of DNS.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.Unmap().IsLoopback()
}

// scope is the network from which a host is reachable.
type scope string

const (
	anywhere    scope = ""
	network     scope = "network" // private and link-local addresses (RFC 1918, 4193, 3927, 4291), such as a cloud's metadata service
	thisMachine scope = "machine"
)

// scopeOf classifies by the name only, without a DNS lookup. Names that only some resolvers take for addresses
// ("127.1", "0x7f000001"), or that change on the way (non-ASCII; a Location has Punycode), belong to the
// network.
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
	case addr.IsUnspecified(): // it connects to this machine
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
