package subscribe

import (
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
type hosts map[string]*host

type host struct {
	running int
	sick    bool
}

func hostOf(hub string) string {
	u, err := url.Parse(hub)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// busy reports that there is no worker for a host.
func (l hosts) busy(name string) bool {
	running, sick := 0, 0
	for _, a := range l {
		running += a.running
		if a.sick {
			sick += a.running
		}
	}
	a := l[name]
	return running >= workers || a != nil && (a.running >= workersPerHub || a.sick && sick >= workersForSick)
}

// begin takes a worker; end gives it back.
func (l hosts) begin(name string) *host {
	if l[name] == nil {
		l[name] = &host{}
	}
	l[name].running++
	return l[name]
}

func (l hosts) end(a *host, how health) {
	a.running--
	if how != unasked {
		a.sick = how == sick
	}
	if len(l) > hostsKept {
		maps.DeleteFunc(l, func(_ string, a *host) bool { return a.running == 0 })
	}
}

type health uint8

const (
	unasked health = iota
	well
	sick
)
