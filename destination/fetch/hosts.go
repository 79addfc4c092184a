package fetch

import (
	"log/slog"
	"sync"
	"time"
)

// hostsKept bounds the memory spent on hosts (P8).
const hostsKept = 4096

type hosts struct {
	mu   sync.Mutex
	all  map[string]*host
	max  int
	rate float64
	log  *slog.Logger
}

func newHosts(o Options) *hosts {
	return &hosts{all: make(map[string]*host), max: o.Concurrency, rate: o.Rate, log: o.Log}
}

// get returns the host and counts a user, until unref or release.
func (s *hosts) get(target string, p *Policy) *host {
	limit, rate := s.max, s.rate
	if p != nil && p.Concurrency > 0 {
		limit = min(limit, p.Concurrency)
	}
	if p != nil && p.Rate > 0 {
		rate = p.Rate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.all[target]
	if h == nil {
		if len(s.all) >= hostsKept {
			s.evict(time.Now())
		}
		h = newHost(target, limit, s.log)
		s.all[target] = h
	}
	h.users.Add(1)
	h.tighten(limit, rate)
	return h
}

// evict drops every host at rest, or, if that is too little, any that are not in use.
func (s *hosts) evict(now time.Time) {
	for target, h := range s.all {
		if h.users.Load() == 0 && !h.remembers(now) {
			delete(s.all, target)
		}
	}
	for target, h := range s.all {
		if len(s.all) <= hostsKept*3/4 {
			return
		}
		if h.users.Load() == 0 {
			delete(s.all, target)
		}
	}
}
