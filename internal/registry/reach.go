package registry

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// errForbidden is the refusal of a connection by reach. It does not tell why, so that it reveals nothing of the network.
var errForbidden = errors.New("the address is not allowed")

// reach limits the addresses to which a client connects, see Access.Confined. A nil *reach allows all.
type reach struct {
	registries sync.Map // canonical host[:port] -> true
	resolver   *net.Resolver
}

func newReach(config Config, access Access) *reach {
	if !access.Confined {
		return nil
	}
	r := &reach{resolver: config.resolver}
	for _, host := range access.Only {
		r.add(host)
	}
	return r
}

// add lists a registry, host[:port].
func (r *reach) add(registry string) {
	if r != nil {
		r.registries.Store(withoutPort80(registry), true)
	}
}

// has reports whether a registry is listed.
func (r *reach) has(registry string) bool {
	if r == nil {
		return true
	}
	_, ok := r.registries.Load(withoutPort80(registry))
	return ok
}

// allowsName reports whether a request may be sent to a host[:port] through a proxy, which resolves the name.
func (r *reach) allowsName(hostPort string) bool {
	host, _ := splitPort(hostPort)
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil && !isPublic(addr.Unmap().WithZone("")) {
		return r.has(hostPort)
	}
	return r.has(hostPort) || scopeOf(host) == anywhere
}

// withoutPort80 returns a canonical host[:port] without the default ports of HTTPS and HTTP.
func withoutPort80(host string) string { return strings.TrimSuffix(canonicalHost(host), ":80") }

// dialer returns the dialer for a connection to addr, host:port. It checks the address after the name is resolved, so
// the answer of a name server cannot change between the check and the connection. A proxy is the choice of an admin.
func (r *reach) dialer(ctx context.Context, addr string) *net.Dialer {
	d := &net.Dialer{Timeout: headerTimeout} // of a tls.Dialer, it includes the handshake
	if r != nil && ctx.Value(directly{}) != nil {
		d.Resolver = r.resolver
		d.Control = func(_, resolved string, _ syscall.RawConn) error {
			if to, err := netip.ParseAddrPort(resolved); err != nil || !r.allows(addr, to.Addr()) {
				return errForbidden
			}
			return nil
		}
	}
	return d
}

// allows reports whether a connection to addr may use an address of it. A listed name may be in a private network. It must
// not lead to this machine or its link, where services trust every client; only a listed address may.
func (r *reach) allows(addr string, to netip.Addr) bool {
	to = to.Unmap().WithZone("")
	if isPublic(to) {
		return true
	}
	if !r.has(addr) {
		return false
	}
	host, _ := splitPort(addr)
	if to.IsLoopback() {
		return isLoopback(host)
	}
	return to.IsPrivate() || sharedSpace.Contains(to) || host == to.String()
}

// sharedSpace is the address space of carriers (RFC 6598). Some networks and clouds use it as private.
var sharedSpace = netip.MustParsePrefix("100.64.0.0/10")

// special are the other prefixes that are not public (RFC 6890), and those whose addresses contain one of IPv4 (RFC 6052,
// 3056, 4380), which may be private.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("2001::/32"), netip.MustParsePrefix("fec0::/10"),
	netip.MustParsePrefix("::/96"),
}

func isPublic(addr netip.Addr) bool {
	return addr.IsGlobalUnicast() && !addr.IsPrivate() && !sharedSpace.Contains(addr) &&
		!slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(addr) })
}
