package callback

import "sync"

// memory bounds what notifications on their way into the inbox take (P8), in all and for one subscription, so that no hub
// can shut out the others.
type memory struct {
	most, share int64

	mu   sync.Mutex
	used int64
	by   map[int64]int64 // subscription -> bytes
}

func newMemory(most int64) *memory {
	return &memory{most: most, share: most / 4, by: make(map[int64]int64)}
}

// loan is the memory of one notification.
type loan struct {
	of  *memory
	sub int64
	n   int64
}

// noteOverhead stands for all that a notification takes beside its bytes.
const noteOverhead = 8 << 10

func (m *memory) borrow(sub int64) *loan { return &loan{of: m, sub: sub} }

// take reports whether there are n bytes more.
func (l *loan) take(n int64) bool {
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

// pass returns the loan under another name, for who gives it back now.
func (l *loan) pass() *loan {
	other := *l
	l.n = 0
	return &other
}

// giveBack may be called again.
func (l *loan) giveBack() {
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
