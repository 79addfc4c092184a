package logging

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// How often one message may be written.
const (
	repeatsMost = 100 // of one Source
	repeatsIn   = 10 * time.Second
)

// bounded writes a message at most repeatsMost times in a stretch and counts the rest: a flood of notifications, which
// anybody may send, must not fill the disk. Lines at debug are not bounded.
type bounded struct {
	slog.Handler
	seen *sync.Map // of message, *repeats
}

type message struct {
	level slog.Level
	text  string
}

type repeats struct{ since, n atomic.Int64 }

// Handle implements slog.Handler.
func (b bounded) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelInfo {
		return b.Handler.Handle(ctx, r)
	}
	found, _ := b.seen.LoadOrStore(message{r.Level, r.Message}, new(repeats))
	c := found.(*repeats) //nolint:forcetypeassert // nothing else is in it
	now, since := time.Now().UnixNano(), c.since.Load()
	if now-since >= int64(repeatsIn) && c.n.Load() <= repeatsMost && c.since.CompareAndSwap(since, now) {
		c.n.Store(0)
	}
	switch n := c.n.Add(1); {
	case n <= repeatsMost:
		return b.Handler.Handle(ctx, r)
	case n == repeatsMost+1:
		time.AfterFunc(repeatsIn, func() { b.sumUp(c, r.Level, r.Message) })
		return b.about(ctx, r.Level, "lines that say the same are left out for a while", slog.String("message",
			r.Message))
	}
	return nil
}

func (b bounded) sumUp(c *repeats, level slog.Level, text string) {
	c.since.Store(time.Now().UnixNano())
	left := c.n.Swap(0) - repeatsMost
	_ = b.about(context.Background(), level, "lines that said the same were left out", slog.String("message", text),
		slog.Int64("lines", left))
}

func (b bounded) about(ctx context.Context, level slog.Level, text string, attrs ...slog.Attr) error {
	r := slog.NewRecord(time.Now(), level, text, 0)
	r.AddAttrs(attrs...)
	return b.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler. Each Source has a count of its own.
func (b bounded) WithAttrs(attrs []slog.Attr) slog.Handler {
	seen := b.seen
	if slices.ContainsFunc(attrs, func(a slog.Attr) bool { return a.Key == KeySource }) {
		seen = new(sync.Map)
	}
	return bounded{b.Handler.WithAttrs(attrs), seen}
}

// WithGroup implements slog.Handler.
func (b bounded) WithGroup(name string) slog.Handler {
	return bounded{b.Handler.WithGroup(name), b.seen}
}
