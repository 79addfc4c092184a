package hub

import (
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/publicsuffix"

	"resyncd/destination/gate"
)

const (
	waitingMost = 10_000 // that wait in a line at all
	shareMost   = 2_000  // of them for one client, and for the callbacks of one site
)

// line is where requests wait to be verified. Living leases have one of their own: whatever strangers ask for, and however
// long their callbacks are silent, what there is is renewed and ended.
type line struct {
	waiting  int
	of       map[string]int // by share
	limits   limits
	checking pool
}

func newLine(perSecond float64) *line {
	return &line{of: map[string]int{}, limits: newLimits(perSecond), checking: make(pool, verifications)}
}

// full reports whether one more may not wait. Hub.mu is held.
func (l *line) full(shares []string) bool {
	for _, share := range shares {
		if l.of[share] >= shareMost {
			return true
		}
	}
	return l.waiting >= waitingMost
}

// count notes one more that waits. Hub.mu is held.
func (l *line) count(shares []string) {
	l.waiting++
	for _, share := range shares {
		l.of[share]++
	}
}

// uncount notes that one does not wait any more. Hub.mu is held.
func (l *line) uncount(shares []string) {
	l.waiting--
	for _, share := range shares {
		less(l.of, share)
	}
}

// sharesOf are whom a request takes from: the client that sent it, where it is known, and the site that its callback lies
// at. In this order each waits for its turn, so that no client holds the places of a site that is not its own.
func sharesOf(client, callback string) []string {
	site := siteOf(callback)
	if from, err := netip.ParseAddrPort(client); err == nil {
		if known := gate.Client(from.Addr()); known.IsValid() {
			return []string{known.String(), site}
		}
	}
	return []string{site}
}

// siteOf is whom callbacks are counted for, whatever the port: an IPv4 address, the /64 of another, or the name that
// somebody registered, below which its owner has as many as there are.
func siteOf(callback string) string {
	u, err := url.Parse(callback)
	if err != nil {
		return ""
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		if known := gate.Client(ip); known.IsValid() {
			return known.String()
		}
		return host
	}
	suffix, registry := publicsuffix.PublicSuffix(host)
	for !registry { // below a provider's name everybody has names, some without end
		_, above, more := strings.Cut(suffix, ".")
		if !more {
			break
		}
		suffix, registry = publicsuffix.PublicSuffix(above)
	}
	below, ok := strings.CutSuffix(host, "."+suffix)
	if !ok {
		return host
	}
	return below[strings.LastIndexByte(below, '.')+1:] + "." + suffix
}
