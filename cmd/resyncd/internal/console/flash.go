package console

import (
	"crypto/rand"
	"slices"
	"sync"
	"time"
)

const (
	flashes   = 64
	flashTime = 10 * time.Minute
)

// flash is what an action had to say, for the page that follows it.
type flash struct {
	id    string
	until time.Time
	Level Level
	Text  string
}

// board keeps flashes here, so that no address carries a text that a stranger wrote.
type board struct {
	mu   sync.Mutex
	kept []flash
}

func (b *board) pin(now time.Time, level Level, text string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept = slices.DeleteFunc(b.kept, func(f flash) bool { return now.After(f.until) })
	if len(b.kept) >= flashes {
		b.kept = slices.Delete(b.kept, 0, len(b.kept)-flashes+1)
	}
	id := rand.Text()
	b.kept = append(b.kept, flash{id: id, until: now.Add(flashTime), Level: level, Text: plain(text)})
	return id
}

func (b *board) find(now time.Time, id string) *flash {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.kept {
		if f.id == id && !now.After(f.until) {
			return &f
		}
	}
	return nil
}
