package keeper

import (
	"net/url"
	"strings"
	"time"
)

// Bounds on what goes on at once (P8). A hub that does not answer holds its workers for as long as a request may take, so
// hubs that were slow or failed last time share a part of the workers, and never have them all.
const (
	workers        = 16
	workersPerHub  = 2
	workersForSick = workers / 2
	slow           = 5 * time.Second
	hostsKept      = 1024 // beyond that many it is forgotten that a host was slow
)

// lanes are where rows wait for a worker, by the host of their hub. Guarded by Keeper.mu.
type lanes struct {
	byHost  map[string]*lane
	turns   []*lane // that have rows waiting, in the order of their turns
	running int
	sick    int // of running, at sick hosts
}

// lane is one host.
type lane struct {
	host    string
	urgent  []*row // with a lease to lose
	rest    []*row
	running int
	sick    bool
}

func newLanes() lanes { return lanes{byHost: map[string]*lane{}} }

// laneOf is the lane's name for a hub.
func laneOf(hub string) string {
	u, err := url.Parse(hub)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// enter lets a row wait.
func (l *lanes) enter(r *row) {
	host := laneOf(r.sub.Hub)
	a := l.byHost[host]
	if a == nil {
		a = &lane{host: host}
		l.byHost[host] = a
	}
	if len(a.urgent)+len(a.rest) == 0 {
		l.turns = append(l.turns, a)
	}
	if r.sub.Live() {
		a.urgent = append(a.urgent, r)
	} else {
		a.rest = append(a.rest, r)
	}
}

// next takes the next row for which there is a worker, nil for none. The lane's worker must be given back with leave.
func (l *lanes) next() (*row, *lane) {
	if l.running >= workers {
		return nil, nil
	}
	for i, a := range l.turns {
		if a.running >= workersPerHub || a.sick && l.sick >= workersForSick {
			continue
		}
		l.turns = append(l.turns[:i], l.turns[i+1:]...)
		r := a.take()
		if len(a.urgent)+len(a.rest) > 0 {
			l.turns = append(l.turns, a) // after all others
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

func (a *lane) take() *row {
	from := &a.urgent
	if len(*from) == 0 {
		from = &a.rest
	}
	r := (*from)[0]
	(*from)[0] = nil
	*from = (*from)[1:]
	return r
}

// leave gives a worker back and remembers how the host was.
func (l *lanes) leave(a *lane, how health) {
	a.running--
	l.running--
	if a.sick {
		l.sick--
	}
	if how != unasked && a.sick != (how == sick) {
		// Those still running count as what the host is now.
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

// health is what a turn told of a host.
type health uint8

const (
	unasked health = iota
	well
	sick
)
