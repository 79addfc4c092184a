package fetch

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"
)

// guard decides on the address that is really dialled: that of a name can change at any time (DNS rebinding).
type guard struct {
	public *ssrf.Guardian
}

func newGuard(allow []netip.Prefix) guard {
	var v4, v6 []netip.Prefix
	for _, p := range allow {
		switch addr := p.Addr(); {
		case !p.IsValid():
		case addr.Is4():
			v4 = append(v4, p.Masked())
		case addr.Is4In6() && p.Bits() >= 96:
			v4 = append(v4, netip.PrefixFrom(addr.Unmap(), p.Bits()-96).Masked())
		default:
			v6 = append(v6, p.Masked())
		}
	}
	return guard{public: ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...),
		ssrf.WithAllowedV6Prefixes(v6...))}
}

func (g guard) control(network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return because(Refused, "network %s is not dialled", network)
	}
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return because(Refused, "dial target %q is not an address: %w", address, err)
	}
	// The tables know neither 4-in-6 addresses nor zones.
	ip := target.Addr().Unmap().WithZone("")
	if err := g.public.SafeAddr(ip); err != nil {
		return because(Refused, "address %s is not public; network.allow: [%s] would allow it: %w", ip,
			netip.PrefixFrom(ip, ip.BitLen()), err)
	}
	return nil
}

// A pool is keyed by host only: a connection that one Source's Trusted allowed must not serve a Source without that
// trust.
func (g guard) dialers(resolver *net.Resolver) (guarded, trusted *net.Dialer) {
	guarded = &net.Dialer{Timeout: dialTimeout, Resolver: resolver, Control: g.control}
	trusted = &net.Dialer{Timeout: dialTimeout, Resolver: resolver}
	return guarded, trusted
}

func (p *Policy) trusts(u *url.URL) bool {
	if p == nil || len(p.Trusted) == 0 {
		return false
	}
	target := hostPort(u)
	host, _, _ := net.SplitHostPort(target)
	for _, t := range p.Trusted {
		name, port := splitTrusted(t)
		if plainHost(name) == host && (port == "" || net.JoinHostPort(host, port) == target) {
			return true
		}
	}
	return false
}

// splitTrusted reads host, host:port, [v6]:port, [v6] and v6.
func splitTrusted(t string) (host, port string) {
	if h, p, err := net.SplitHostPort(t); err == nil {
		return h, p
	}
	return strings.TrimSuffix(strings.TrimPrefix(t, "["), "]"), ""
}
