package subscribe

import (
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
	hostsKept      = 1024 // then slow hosts are forgotten
)

// hostQueues are the entries that wait for a worker, by the host of their hub. Guarded by Keeper.mu.
type hostQueues struct {
	byHost  map[string]*hostQueue
	ready   []*hostQueue // with entries, in round-robin order
	running int
	sick    int // requests at sick hosts
}

type hostQueue struct {
	host    string
	urgent  []*entry // with a lease to lose
	rest    []*entry
	running int
	sick    bool
}

func newHostQueues() hostQueues { return hostQueues{byHost: map[string]*hostQueue{}} }

func hostOf(hub string) string {
	u, err := url.Parse(hub)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

func (l *hostQueues) enqueue(r *entry) {
	host := hostOf(r.sub.Hub)
	a := l.byHost[host]
	if a == nil {
		a = &hostQueue{host: host}
		l.byHost[host] = a
	}
	if len(a.urgent)+len(a.rest) == 0 {
		l.ready = append(l.ready, a)
	}
	if r.sub.Live() {
		a.urgent = append(a.urgent, r)
	} else {
		a.rest = append(a.rest, r)
	}
}

// next takes the next entry for which there is a worker; release gives that back.
func (l *hostQueues) next() (*entry, *hostQueue) {
	if l.running >= workers {
		return nil, nil
	}
	for i, a := range l.ready {
		if a.running >= workersPerHub || a.sick && l.sick >= workersForSick {
			continue
		}
		l.ready = append(l.ready[:i], l.ready[i+1:]...)
		r := a.take()
		if len(a.urgent)+len(a.rest) > 0 {
			l.ready = append(l.ready, a) // last in the order
		}
		a.running++
		l.running++
		if a.sick {
			l.sick++
		}
		return r, a
	}
	return nil, nil
}

func (a *hostQueue) take() *entry {
	from := &a.urgent
	if len(*from) == 0 {
		from = &a.rest
	}
	r := (*from)[0]
	(*from)[0] = nil
	*from = (*from)[1:]
	return r
}

func (l *hostQueues) release(a *hostQueue, how health) {
	a.running--
	l.running--
	if a.sick {
		l.sick--
	}
	if how != unasked && a.sick != (how == sick) {
		// Running requests count by the host's present health.
		a.sick = how == sick
		if a.sick {
			l.sick += a.running
		} else {
			l.sick -= a.running
		}
	}
	if a.running == 0 && len(a.urgent)+len(a.rest) == 0 && (!a.sick || len(l.byHost) > hostsKept) {
		delete(l.byHost, a.host)
	}
}

type health uint8

const (
	unasked health = iota
	well
	sick
)
