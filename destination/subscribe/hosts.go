package subscribe

import (
	"cmp"
	"maps"
	"net/url"
	"strings"
	"time"
)

// Bounds on concurrent requests (P8). Slow hubs share a part of the workers: otherwise they could take all of them.
const (
	workers        = 16
	workersPerHub  = 2
	workersForSick = workers / 2
	slow           = 5 * time.Second
	hostsKept      = 1024 // then idle hosts are forgotten
)

// hosts are those of the hubs that were asked. Guarded by Keeper.mu.
type hosts struct {
	byName  map[string]*host
	running int
	sick    int // requests at sick hosts
	turns   int
}

type host struct {
	turn    int // of its last request: who was served longest ago is next
	running int
	sick    bool
}

func newHosts() hosts { return hosts{byName: map[string]*host{}} }

func hostOf(hub string) string {
	u, err := url.Parse(hub)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// of is what is known of an entry's host.
func (l *hosts) of(r *entry) host {
	if a := l.byName[r.host]; a != nil {
		return *a
	}
	return host{}
}

// compare orders due entries: each host in turn, and leases that may be lost first.
func (l *hosts) compare(a, b *entry) int {
	urgency := func(r *entry) int {
		if r.sub.Live() {
			return 0
		}
		return 1
	}
	return cmp.Or(l.of(a).turn-l.of(b).turn, urgency(a)-urgency(b), cmp.Compare(a.at(), b.at()),
		cmp.Compare(a.sub.ID, b.sub.ID))
}

// busy reports that there is no worker for an entry.
func (l *hosts) busy(r *entry) bool {
	a := l.of(r)
	return l.running >= workers || a.running >= workersPerHub || a.sick && l.sick >= workersForSick
}

// begin takes a worker; end gives it back.
func (l *hosts) begin(r *entry) *host {
	a := l.byName[r.host]
	if a == nil {
		a = &host{}
		l.byName[r.host] = a
	}
	l.turns++
	a.turn = l.turns
	a.running++
	l.recount()
	return a
}

func (l *hosts) end(a *host, how health) {
	a.running--
	if how != unasked {
		a.sick = how == sick
	}
	l.recount()
	if len(l.byName) > hostsKept {
		maps.DeleteFunc(l.byName, func(_ string, a *host) bool { return a.running == 0 })
	}
}

func (l *hosts) recount() {
	l.running, l.sick = 0, 0
	for _, a := range l.byName {
		l.running += a.running
		if a.sick {
			l.sick += a.running
		}
	}
}

type health uint8

const (
	unasked health = iota
	well
	sick
)
