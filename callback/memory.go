package callback

import "sync"

// memoryLimit bounds the memory of notifications on their way into the inbox (P8), in all and for
// each subscription.
type memoryLimit struct {
	most, share int64

	mu   sync.Mutex
	used int64
	by   map[int64]int64 // subscription -> bytes
}

func newMemoryLimit(most int64) *memoryLimit {
	return &memoryLimit{most: most, share: most / 4, by: make(map[int64]int64)}
}

// reservation is the memory of one notification.
type reservation struct {
	of  *memoryLimit
	sub int64
	n   int64
}

const noteOverhead = 8 << 10

func (m *memoryLimit) reserve(sub int64) *reservation { return &reservation{of: m, sub: sub} }

func (l *reservation) extend(n int64) bool {
	if l.n == 0 {
		n += noteOverhead / 2
	}
	m := l.of
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used+n > m.most || m.by[l.sub]+n > m.share {
		return false
	}
	m.used += n
	m.by[l.sub] += n
	l.n += n
	return true
}

// transfer moves the reservation to a new owner, who releases it.
func (l *reservation) transfer() *reservation {
	other := *l
	l.n = 0
	return &other
}

// release may be called again.
func (l *reservation) release() {
	if l.n == 0 {
		return
	}
	m := l.of
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= l.n
	if m.by[l.sub] -= l.n; m.by[l.sub] <= 0 {
		delete(m.by, l.sub)
	}
	l.n = 0
}
