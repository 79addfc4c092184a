package daemon

import (
	"context"
	"log/slog"
	"time"

	"resyncd/cmd/resyncd/internal/logging"
	"resyncd/store"
	syncengine "resyncd/sync"
)

// sourceLogger logs what was done for a Source, one line for each slice of work.
type sourceLogger struct {
	log   *slog.Logger
	level slog.Level
}

// logger logs at debug where somebody tells people of it in another way, as the demo does.
func (r *runner) logger() *sourceLogger {
	s := &sourceLogger{log: r.d.o.Log.With(logging.KeySource, r.name), level: slog.LevelInfo}
	if r.d.o.Observe.Pulled != nil {
		s.level = slog.LevelDebug
	}
	return s
}

func (s *sourceLogger) say(what string, attrs ...slog.Attr) {
	s.log.LogAttrs(context.Background(), s.level, what, attrs...)
}

func (s *sourceLogger) pulled(r *syncengine.Result) {
	attrs := []slog.Attr{
		slog.Any("set", logging.URI(r.Set)), slog.String("kind", r.Kind),
		slog.Int64("fetched", r.Fetched), slog.Int64("unchanged", r.Unchanged), slog.Int64("deleted", r.Deleted),
		slog.Int64("owed", r.Owed), slog.Int64("held", r.Held),
		slog.Int64("requests", r.Requests), slog.Int64("bytes", r.Bytes),
		slog.Duration("took", time.Duration(r.Seconds*float64(time.Second)).Round(time.Millisecond)),
		slog.Bool("in_step", r.InStep),
	}
	if r.Position != nil {
		attrs = append(attrs, slog.String("position", *r.Position))
	}
	if r.Problem != "" {
		attrs = append(attrs, slog.String("problem", logging.Redact(r.Problem)))
	}
	s.say("pulled", attrs...)
}

func (s *sourceLogger) mirrored(m *syncengine.Mirrored) {
	s.say("notification carried out", slog.Int64("set_id", m.SetID), slog.Int("changes", m.Changes),
		slog.Int("owed", m.Owed),
		slog.Duration("took", m.Took.Round(time.Microsecond)), slog.Time("until", m.Until.Time()))
}

func (s *sourceLogger) gap(g *store.Gap) {
	attrs := []slog.Attr{slog.Int64("set_id", g.SetID), slog.Time("from", g.From.Time()),
		slog.Time("until", g.Until.Time()), slog.String("state", string(g.State))}
	if g.ClosedBy != "" {
		attrs = append(attrs, slog.String("closed_by", g.ClosedBy))
	}
	s.say("gap", attrs...)
}
