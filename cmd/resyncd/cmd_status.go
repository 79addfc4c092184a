package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/urfave/cli/v2"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/destination"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/store/blob/dir"
	syncengine "resyncd/sync"
)

func (sh *shell) statusCommand() *cli.Command {
	return sh.command(&cli.Command{
		Name: "status", Usage: "freshness, owed, held, gaps, channels and leases of Sources", ArgsUsage: "[NAME…]",
		Description: about("Reads the state only; works beside a running process.", codesEach, "resyncd status", "resyncd status --json ./mirror"),
		Flags:       []cli.Flag{boolFlag("json", "one JSON object")},
		Action: func(c *cli.Context) error {
			ps, err := sh.places(c, c.Args().Slice())
			if err != nil && !errors.Is(err, errNoSources) { // a configuration without any has a status too
				return err
			}
			return sh.status(c, ps)
		},
	})
}

// statusView is the JSON of status (contract.md 3).
type statusView struct {
	Version string                    `json:"version"`
	Sources []syncengine.SourceStatus `json:"sources"`
}

func (sh *shell) status(c *cli.Context, ps []place) error {
	view := statusView{Version: version, Sources: []syncengine.SourceStatus{}}
	var feeds []map[int64]bool // of each in view: which of its sets are feeds
	var v verdict
	for i := range ps {
		s, isFeed, err := sh.statusOf(c.Context, c, &ps[i])
		switch {
		case c.Context.Err() != nil, err != nil && len(ps) == 1:
			return err
		case err != nil: // told, and the others shown
			v.fail(err)
			sh.say("%s: %s", ps[i].label(), advised(err))
		default:
			v.parts++
			view.Sources, feeds = append(view.Sources, shownStatus(s)), append(feeds, isFeed)
		}
	}
	if c.Bool("json") {
		return errors.Join(sh.json().Encode(view), v.err())
	}
	for i := range view.Sources {
		printStatus(sh.out, &view.Sources[i], feeds[i])
	}
	return v.err()
}

// statusOf reads one Source, and which of its sets are feeds; a configured one that never ran stands there without sets.
func (sh *shell) statusOf(ctx context.Context, c *cli.Context, p *place) (s syncengine.SourceStatus, feeds map[int64]bool, err error) {
	s = syncengine.SourceStatus{Name: p.src.Name, URL: p.src.URL, Sets: []syncengine.SetStatus{}}
	o, err := sh.openKnown(ctx, c, p, false)
	if errors.Is(err, store.ErrNotFound) && !p.alone {
		return s, nil, nil
	}
	if err != nil {
		return s, nil, err
	}
	s, err = syncengine.StatusOf(ctx, o.engine.Store, o.known)
	s.Expect(expectation(p, sh.now()))
	if err == nil {
		s.Trouble(o.trouble())
		feeds, err = o.feeds(ctx, &s)
	}
	return s, feeds, errors.Join(err, o.close())
}

// feeds tells which sets are feeds.
func (o *opened) feeds(ctx context.Context, s *syncengine.SourceStatus) (map[int64]bool, error) {
	out := map[int64]bool{}
	for i := range s.Sets {
		set := &s.Sets[i]
		is, err := isFeed(ctx, o.engine.Store, o.src.Kind, o.known.ID, set.CapabilityList)
		if err != nil {
			return nil, err
		}
		out[set.ID] = is
	}
	return out, nil
}

// isFeed tells whether a set is a feed: each of a Source that is configured as one, else what was found to be one.
func isFeed(ctx context.Context, st store.Documents, kind config.Kind, source int64, set string) (bool, error) {
	if kind == config.KindFeed {
		return true, nil
	}
	doc, err := st.Document(ctx, source, set)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return doc.Kind == string(destination.KindFeed), err
}

// trouble says that the mirror is not where it was, as when its disk is not mounted (F12): no row tells of that.
func (o *opened) trouble() string {
	f, err := o.footing()
	if err == nil && o.known.RootID != "" && f.state != dir.Marked {
		err = blob.ErrUnmarked
	}
	if err == nil {
		return ""
	}
	return fmt.Sprintf("mirror %s: %s", o.mirror, advised(err))
}

// expectation is what the configuration holds a Source to. Nobody pulls a `sync URL DIR` mirror by schedule.
func expectation(p *place, now time.Time) syncengine.Expectation {
	e := syncengine.Expectation{Now: now}
	if !p.alone {
		e.Next, e.Push = p.src.Schedule.Next, p.src.Push == config.PushRequired
	}
	return e
}

func printStatus(w io.Writer, s *syncengine.SourceStatus, feeds map[int64]bool) {
	fmt.Fprintf(w, "%s  %s\n", s.Name, s.URL)
	if s.Paused {
		fmt.Fprintln(w, "  paused: `resyncd source resume` restarts it")
	}
	if s.Problem != nil {
		fmt.Fprintf(w, "  problem: %s\n", *s.Problem)
	}
	if len(s.Sets) == 0 {
		fmt.Fprintln(w, "  never synchronised")
	}
	for i := range s.Sets {
		printSet(w, &s.Sets[i], feeds[s.Sets[i].ID])
	}
}

func printSet(w io.Writer, set *syncengine.SetStatus, feed bool) {
	state := "in step"
	if !set.InStep {
		state = "NOT in step"
	}
	label, baselines := set.CapabilityList, fmt.Sprintf("; %d baselines", set.Baselines)
	if feed { // which has none
		label, baselines = "feed "+label, ""
	}
	fmt.Fprintf(w, "  %s\n    %s, up to %s, last pull %s, next pull %s\n    %d resources, %s; %d owed, %d held, %d refused%s\n",
		label, state, text(set.Position), text(set.LastPull), text(set.NextPull), set.Resources, bytesText(set.Bytes),
		set.Owed, set.Held, set.Refused, baselines)
	if set.Problem != nil {
		fmt.Fprintf(w, "    problem: %s\n", *set.Problem)
	}
	for i := range set.Channels {
		printChannel(w, &set.Channels[i])
	}
	for i := range set.Gaps {
		printGap(w, &set.Gaps[i], feed)
	}
}

func printGap(w io.Writer, g *syncengine.GapStatus, feed bool) {
	if feed && g.State == string(store.GapUnprovable) {
		fmt.Fprintf(w, "    the feed did not reach back: entries between %s and %s may be missing, nobody can tell\n", text(g.From), text(g.Until))
		return
	}
	fmt.Fprintf(w, "    gap %s to %s: %s", text(g.From), text(g.Until), g.State)
	if g.ClosedBy != nil {
		fmt.Fprintf(w, " by %s", *g.ClosedBy)
	}
	fmt.Fprintln(w)
}

// printChannel tells where a channel stands, until when its lease runs, and what came by it.
func printChannel(w io.Writer, c *syncengine.ChannelStatus) {
	fmt.Fprintf(w, "    %s channel %s at %s", c.Kind, c.State, c.Hub)
	if state := store.SubscriptionState(c.State); state == store.SubActive || state == store.SubRenewing {
		fmt.Fprintf(w, " until %s, to be renewed at %s", text(c.ExpiresAt), text(c.RenewAt))
	}
	if c.Reason != nil && *c.Reason != "" {
		fmt.Fprintf(w, " (%s)", oneLine(*c.Reason))
	}
	fmt.Fprintf(w, "\n      %d delivered, last %s; %d duplicates, %d rejected, %d push misses\n",
		c.Delivered, text(c.LastDelivery), c.Duplicates, c.Rejected, c.PushMisses)
}

// oneLine makes text that a peer wrote safe to print: one line, nothing that a terminal obeys.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}
