package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	syncengine "resyncd/sync"
)

// summary tells a person what a run did with one set, and what to do next where something is to be done.
func summary(p *place, r *syncengine.Result) string {
	r = shownResult(r)
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n", r.Source, r.Set)
	if r.DryRun {
		fmt.Fprintf(&b, "  dry run (%s): nothing was touched\n", r.Kind)
	} else {
		fmt.Fprintf(&b, "  %s: %d fetched, %d unchanged, %d deleted, %d failed (%d requests, %s, %.1f s)\n",
			r.Kind, r.Fetched, r.Unchanged, r.Deleted, r.Failed, r.Requests, bytesText(r.Bytes), r.Seconds)
	}
	if r.Problem != "" {
		fmt.Fprintf(&b, "  problem: %s\n", r.Problem)
	}
	if r.DryRun {
		return b.String()
	}
	if r.GapsFound > 0 {
		fmt.Fprintf(&b, "  %d gaps found, %d closed\n", r.GapsFound, r.GapsClosed)
	}
	if r.Refused > 0 {
		fmt.Fprintf(&b, "  %d refused (outside scope or policy): resyncd ls --refused %s\n", r.Refused, p.label())
	}
	if r.Held > 0 {
		fmt.Fprintf(&b, "  %d removals held for you: resyncd ls --held %s, then resyncd approve %s\n", r.Held, p.label(), p.label())
	}
	if r.Owed > 0 {
		fmt.Fprintf(&b, "  %d owed: resyncd ls --owed %s\n", r.Owed, p.label())
	}
	switch {
	case r.Unavailable:
		b.WriteString("  failed: no document of this set could be used\n")
	case r.InStep && r.Position != nil:
		fmt.Fprintf(&b, "  in step, up to %s\n", *r.Position)
	case r.InStep:
		b.WriteString("  in step\n")
	default:
		b.WriteString("  not in step\n")
	}
	return b.String()
}

// shownOutstanding is how many owed, and how many held, resources a run lists; `ls` lists all.
const shownOutstanding = 20

var errEnough = errors.New("enough was listed")

// outstanding lists what a run leaves owed or held, with reason and next try.
func (r *syncRun) outstanding(ctx context.Context, o *opened, results []syncengine.Result) error {
	var owed, held int64
	for i := range results {
		owed += results[i].Owed
		held += results[i].Held
	}
	for _, kind := range []struct {
		filter syncengine.ListFilter
		n      int64
	}{{syncengine.ListOwed, owed}, {syncengine.ListHeld, held}} {
		if kind.n == 0 {
			continue
		}
		n := 0
		err := syncengine.List(ctx, o.engine.Store, o.known.ID, kind.filter, func(l syncengine.Listing) error {
			if n++; n > shownOutstanding {
				fmt.Fprintf(r.sh.out, "%s: and more: resyncd ls --%s %s\n", kind.filter, kind.filter, o.label())
				return errEnough
			}
			_, err := fmt.Fprintf(r.sh.out, "%s: %s%s\n", kind.filter, oneLine(l.URI), why(&l))
			return err
		})
		if err != nil && !errors.Is(err, errEnough) {
			return err
		}
	}
	return nil
}

func text(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

// bytesText writes a number of bytes for people.
func bytesText(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, units := float64(n)/1024, "KMGTPE"
	for f >= 1024 && len(units) > 1 {
		f, units = f/1024, units[1:]
	}
	return fmt.Sprintf("%.1f %ciB", f, units[0])
}
