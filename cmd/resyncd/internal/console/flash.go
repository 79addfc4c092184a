package console

import (
	"crypto/rand"
	"slices"
	"sync"
	"time"
)

const (
	mostFlashes = 64
	flashTime   = 10 * time.Minute
)

// flash is what an action had to say, for the page that follows it.
type flash struct {
	id    string
	until time.Time
	Level Level
	Text  string
}

// flashes are kept here, so that no address carries a text that a stranger wrote.
type flashes struct {
	mu   sync.Mutex
	kept []flash
}

func (b *flashes) pin(now time.Time, level Level, text string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept = slices.DeleteFunc(b.kept, func(f flash) bool { return now.After(f.until) })
	if len(b.kept) >= mostFlashes {
		b.kept = slices.Delete(b.kept, 0, len(b.kept)-mostFlashes+1)
	}
	id := rand.Text()
	b.kept = append(b.kept, flash{id: id, until: now.Add(flashTime), Level: level, Text: plain(text)})
	return id
}

func (b *flashes) find(now time.Time, id string) *flash {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.kept {
		if f.id == id && !now.After(f.until) {
			return &f
		}
	}
	return nil
}
