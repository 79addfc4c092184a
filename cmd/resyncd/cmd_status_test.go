package main

import (
	"strings"
	"testing"
	"time"

	"resyncd/cmd/resyncd/internal/term"
	"resyncd/store"
	"resyncd/sync/report"
)

// TestStatusText: a feed is called one, and a hole that nobody can close is told in plain
// words (issue 4, 3).
func TestStatusText(t *testing.T) {
	t.Parallel()
	at := func(s string) (out report.Time) {
		var err error
		if out.Time, err = time.Parse(time.RFC3339, s); err != nil {
			t.Fatal(err)
		}
		return out
	}
	set := report.SetStatus{
		ID: 7, CapabilityList: "https://blog.example/feed", Position: at("2026-01-02T00:00:00Z"), Resources: 2, Bytes: 10, Baselines: 1, InStep: true,
		Gaps: []report.GapStatus{{From: at("2026-01-01T00:00:00Z"), Until: at("2026-01-02T00:00:00Z"), State: string(store.GapUnprovable)}},
	}
	subscribed := set
	subscribed.Channels = []report.ChannelStatus{{Kind: string(store.ChannelFeed), State: "pending", Hub: "https://hub.example/", Topic: set.CapabilityList}}
	const asFeed = `news  https://blog.example/
  feed https://blog.example/feed
    in step, up to 2026-01-02T00:00:00Z, last pull -, next pull -
    2 resources, 10 B; 0 owed, 0 held, 0 refused
`
	const hole = "    the feed did not reach back: entries between 2026-01-01T00:00:00Z and 2026-01-02T00:00:00Z may be missing, nobody can tell\n"
	for name, c := range map[string]struct {
		set  report.SetStatus
		feed bool
		want string
	}{
		"polled": {set, true, asFeed + hole},
		"subscribed": {subscribed, true, asFeed +
			"    feed channel pending at https://hub.example/\n      0 delivered, last -; 0 duplicates, 0 rejected, 0 push misses\n" + hole},
		"no feed": {set, false, `news  https://blog.example/
  https://blog.example/feed
    in step, up to 2026-01-02T00:00:00Z, last pull -, next pull -
    2 resources, 10 B; 0 owed, 0 held, 0 refused; 1 baselines
    gap 2026-01-01T00:00:00Z to 2026-01-02T00:00:00Z: unprovable
`},
	} {
		var out strings.Builder
		status := &report.SourceStatus{Name: "news", URL: "https://blog.example/", Sets: []report.SetStatus{c.set}}
		if err := printStatus(&out, status, map[int64]bool{7: c.feed}); err != nil {
			t.Error(err)
		}
		if out.String() != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, out.String(), c.want)
		}
	}
}

func TestEditText(t *testing.T) {
	t.Parallel()
	author := "tel:+5550100"
	for want, e := range map[string]report.EditLine{
		`by tel:+5550100: available_beds="12" total_beds erased`: {
			Author: &author, Fields: map[string]string{"total_beds": "", "available_beds": "12"},
		},
		`by -: services="a\x1b[2J, b"  # odd: services: unknown value "b"; no author`: {
			Fields: map[string]string{"services": "a\x1b[2J, b"}, Odd: []string{`services: unknown value "b"`, "no author"},
		},
	} {
		if got := term.Edit(&e); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
