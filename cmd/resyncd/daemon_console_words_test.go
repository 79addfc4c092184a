package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/console"
	"resyncd/store"
	"resyncd/store/blob"
	syncengine "resyncd/sync"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// healthy is a Source in step, with one set whose hub holds a lease.
func healthy() *standing {
	return &standing{
		now: noon, configured: true, following: true, push: config.PushAuto, poll: 15 * time.Minute, next: noon.Add(5 * time.Minute),
		gapPatience: 24 * time.Hour, feeds: map[int64]bool{}, suspect: map[int64]bool{},
		status: syncengine.SourceStatus{Name: "lib", URL: "https://lib.example/", Sets: []syncengine.SetStatus{{
			ID: 7, CapabilityList: "https://lib.example/c.xml", InStep: true, LastPull: ago(time.Minute), NextPull: ago(-14 * time.Minute),
			Channels: []syncengine.ChannelStatus{{Kind: "change", State: "active"}},
		}}},
	}
}

func ago(d time.Duration) *string { return syncengine.RFC3339(store.MicrosOf(noon.Add(-d))) }

func set(s *standing) *syncengine.SetStatus { return &s.status.Sets[0] }

// channel gives the set one channel in a state, for a reason.
func channel(s *standing, state store.SubscriptionState, reason string) {
	set(s).Channels = []syncengine.ChannelStatus{{Kind: "change", State: string(state), Reason: &reason, RenewAt: ago(-90 * time.Second)}}
}

func problem(s *standing, text string) {
	set(s).Problem, set(s).InStep = &text, false
}

func gap(s *standing, state store.GapState) {
	set(s).Gaps, set(s).InStep = []syncengine.GapStatus{{
		From: ago(2 * time.Hour), Until: ago(time.Hour), State: string(state), Found: store.MicrosOf(noon.Add(-30 * time.Minute)),
		Ended: store.MicrosOf(noon.Add(-20 * time.Minute)),
	}}, !state.Open()
}

// TestAssess: the cause of a fault, and what to do, stand in the words of a row (P12).
func TestAssess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		fault func(*standing)
		level console.Level
		state string
		why   []string // all of these
	}{
		{"in step", func(*standing) {}, console.Good, "in step", nil},
		{"in step, no hub", func(s *standing) { set(s).Channels = nil }, console.Good, "in step", []string{"no hub", "every 15m"}},
		{"push is off", func(s *standing) { s.push, set(s).Channels = config.PushOff, nil }, console.Good, "in step", nil},
		{"refused resources", func(s *standing) { set(s).Refused = 3 }, console.Good, "in step", []string{"3 resources are outside", "`scope`"}},
		{"not configured", func(s *standing) { s.configured = false }, console.Busy, "not configured", []string{"not configured any more"}},
		{"paused, and failing", func(s *standing) { problem(s, "x"); s.status.Paused = true }, console.Warn, "paused", []string{"Resume"}},
		{"503", func(s *standing) {
			problem(s, "read document https://lib.example/c.xml: get https://lib.example/c.xml: answered 503 Service Unavailable")
		},
			console.Bad, "failing", []string{"The Source answers 503 Service Unavailable", "Tried again at 12:05:00 UTC", "Pull", "c.xml"}},
		{"401", func(s *standing) { problem(s, "get https://lib.example/: answered 401 Unauthorized") }, console.Bad, "failing", []string{"`auth`"}},
		{"404", func(s *standing) { problem(s, "get https://lib.example/: answered 404 Not Found") }, console.Bad, "failing", []string{"`url`"}},
		{"a certificate", func(s *standing) {
			problem(s, "get https://lib.example/: tls: failed to verify certificate: x509: certificate has expired")
		},
			console.Bad, "failing", []string{"The Source's certificate is not accepted.", "the publisher has to renew it"}},
		{"refused connection", func(s *standing) {
			problem(s, "get http://lib.example/: dial tcp 192.0.2.1:80: connect: connection refused")
		},
			console.Bad, "failing", []string{"The Source does not take connections. Tried again", "Nothing listens there"}},
		{"several 5xx", func(s *standing) { problem(s, "a: answered 503 Service Unavailable; b: answered 502 Bad Gateway") }, console.Bad, "failing",
			[]string{"The Source answers server errors (5xx). Tried again", "publisher's to mend"}},
		{"an HTML page", func(s *standing) {
			problem(s, "refused document (forbidden markup at byte 0): an HTML page in place of a ResourceSync document")
		},
			console.Bad, "failing", []string{"The Source answers HTML pages in place of its documents. Tried again", "in a browser"}},
		{"a clock that is ahead", func(s *standing) {
			problem(s, "http://lib.example/cl.xml: its from, 2026-03-05T13:00:00Z, "+inTheFuture+": nobody can tell what changed before it")
		},
			console.Bad, "failing", []string{"The Source's clock is wrong. Tried again", "comes into step by itself", "2026-03-05T13:00:00Z"}},
		{"a problem of tomorrow", func(s *standing) { problem(s, "x"); s.next = noon.Add(20 * time.Hour) }, console.Bad, "failing", []string{"on 2026-03-05 08:00:00 UTC"}},
		{"never read, failing", func(s *standing) {
			s.status.Sets, s.unread = nil, errors.New("nothing to synchronise was found at http://lib.example/: answered 500 Internal Server Error")
			s.status.Trouble(syncengine.ErrNothingYet.Error())
		}, console.Bad, "failing", []string{"answers 500 Internal Server Error", "asked again soon"}},
		{"never read, since before this start", func(s *standing) {
			s.status.Sets = nil
			s.status.Trouble(syncengine.ErrNothingYet.Error() + ": nothing to synchronise was found at http://lib.example/: answered 500 Internal Server Error")
			s.status.Unread = true
		}, console.Bad, "failing", []string{"answers 500 Internal Server Error", "asked again soon"}},
		{"two answers", func(s *standing) { problem(s, "a: answered 404 Not Found; b: answered 500 X") }, console.Bad, "failing",
			[]string{"cannot be read: a: answered 404 Not Found; b", "12:05:00"}},
		{"never read", func(s *standing) { s.status.Sets = nil }, console.Busy, "starting", []string{"first pull is under way"}},
		{"its turn is to come", func(s *standing) { s.status.Sets, s.following = nil, false }, console.Busy, "waiting", []string{"within seconds"}},
		{"held by another", func(s *standing) {
			s.status.Trouble("source lib is held by another process (resyncd 1); wait until it has ended")
		},
			console.Bad, "not working", []string{"held by another process", "every 15s"}},
		{"mirror full", func(s *standing) {
			s.halted = fmt.Errorf("place: %w", blob.ErrNoSpace)
			set(s).Owed, set(s).InStep = 3, false
		},
			console.Bad, "disk full", []string{"free space or inodes on it. Work then goes on by itself", "3 resources are owed until"}},
		{"mirror read-only", func(s *standing) { s.halted = blob.ErrReadOnly }, console.Bad, "disk read-only", []string{"writable"}},
		{"mirror gone", func(s *standing) { s.halted = blob.ErrUnmarked }, console.Bad, "disk missing", []string{"mount"}},
		{"mirror failing", func(s *standing) { s.halted = blob.ErrSync }, console.Bad, "disk failing", []string{"look at it"}},
		{"out of files", func(s *standing) { s.halted = blob.ErrBusy }, console.Bad, "out of resources", []string{"open files"}},
		{"state full", func(s *standing) { s.state = store.ErrFull }, console.Bad, "state failing", []string{"free disk space", "come again"}},
		{"held", func(s *standing) { set(s).Held, set(s).InStep = 12, false }, console.Warn, "removals held", []string{"12 removals are held", "Approve", "Reject"}},
		{"owed", func(s *standing) {
			set(s).Owed, set(s).InStep = 2, false
			s.owed = &console.Item{URI: "u", Reason: "get https://lib.example/a: answered 403 Forbidden", Attempts: 3, NextTry: noon.Add(time.Minute)}
		}, console.Warn, "owed", []string{"2 resources are owed", "403", "Tried again at 12:01:00", "`auth`"}},
		{"fetching", func(s *standing) { set(s).Owed, set(s).InStep = 1, false }, console.Busy, "fetching", []string{"1 resource is being fetched"}},
		{"list lags", func(s *standing) { gap(s, store.GapLagging) }, console.Warn, "list lags",
			[]string{"lags behind a notification since 2026-03-04 11:30:00 UTC", "between 2026-03-04 10:00:00 UTC", "after 24h"}},
		{"gap", func(s *standing) { gap(s, store.GapWaiting) }, console.Busy, "closing a gap", []string{"list is asked"}},
		{"gap with baseline", func(s *standing) { gap(s, store.GapBaseline) }, console.Busy, "closing a gap", []string{"everything is compared"}},
		{"closed gap", func(s *standing) { gap(s, store.GapClosed) }, console.Good, "in step", nil},
		{"feed", func(s *standing) { gap(s, store.GapUnprovable); s.feeds[7] = true }, console.Warn, "feed cut short", []string{"did not reach back", "Pull more often"}},
		{"unprovable", func(s *standing) { gap(s, store.GapUnprovable) }, console.Warn, "unproven", []string{"Nobody can prove"}},
		{"unprovable long ago", func(s *standing) { gap(s, store.GapUnprovable); s.now = noon.Add(8 * 24 * time.Hour) }, console.Good, "in step", nil},
		{"denied", func(s *standing) { channel(s, store.SubDenied, "no such topic.") }, console.Warn, "hub refused",
			[]string{"The hub refused: no such topic.", "pulled by schedule only", "Renew"}},
		{"lapsed", func(s *standing) { channel(s, store.SubLapsed, "the lease ended before it was renewed") }, console.Warn, "no push", []string{"The lease ended"}},
		{"failed", func(s *standing) { channel(s, store.SubFailed, "connection refused"); s.deaf = true }, console.Warn, "no push",
			[]string{"Subscribing at the hub fails: connection refused. Nothing listens at its address", "at 12:01:30 UTC", "Renew asks at once", "callback.base_url"}},
		{"no hub there", func(s *standing) { channel(s, store.SubFailed, "the hub answered 405 Method Not Allowed") }, console.Warn, "no push",
			[]string{"is none: check `hub`"}},
		{"unverified", func(s *standing) { channel(s, store.SubPending, "unverified") }, console.Warn, "no push", []string{"has not confirmed: unverified"}},
		{"subscribing", func(s *standing) { channel(s, store.SubRequesting, "") }, console.Busy, "subscribing", nil},
		{"switched off", func(s *standing) { channel(s, store.SubOff, "") }, console.Good, "in step", []string{"Renew brings it back"}},
		{"required, switched off", func(s *standing) { channel(s, store.SubOff, ""); s.push = config.PushRequired }, console.Warn, "no channel", []string{"required"}},
		{"required, no hub", func(s *standing) { set(s).Channels, s.push = nil, config.PushRequired }, console.Warn, "no channel", []string{"push: auto"}},
		{"silent", func(s *standing) { s.suspect[7] = true }, console.Warn, "hub is silent", []string{"did not tell of"}},
		{"wrong signatures", func(s *standing) { s.rejected = "signature" }, console.Warn, "push rejected", []string{"wrong signature", "secret: off"}},
		{"too large", func(s *standing) { s.rejected = "too_large" }, console.Warn, "push rejected", []string{"callback.max_body"}},
		{"inbox full", func(s *standing) { s.rejected = "busy" }, console.Warn, "push rejected", []string{"come again"}},
		{"a stranger's token", func(s *standing) { s.rejected = "unknown" }, console.Good, "in step", nil},
		{"late", func(s *standing) { set(s).InStep, set(s).NextPull = false, ago(time.Hour) }, console.Busy, "late", []string{"due at 11:00:00 UTC"}},
		{"catching up", func(s *standing) { set(s).InStep = false }, console.Busy, "catching up", nil},
		{"two at once", func(s *standing) { problem(s, "answered 500 X"); set(s).Held = 1; channel(s, store.SubDenied, "no") },
			console.Bad, "failing", []string{"500", "1 removal is held", "The hub refused"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := healthy()
			c.fault(s)
			f := assess(s)
			if f.level != c.level || f.state != c.state {
				t.Errorf("level %d, %q, want %d, %q: %s", f.level, f.state, c.level, c.state, f.why)
			}
			for _, part := range c.why {
				if !strings.Contains(f.why, part) {
					t.Errorf("%q is not in %q", part, f.why)
				}
			}
			if c.why == nil && c.level == console.Good && f.why != "" {
				t.Errorf("it says %q", f.why)
			}
			if f.level == console.Good != (c.state == "in step") || strings.Contains(f.why, "  ") || strings.Contains(f.why, "..") {
				t.Errorf("%d %q: %q", f.level, f.state, f.why)
			}
			if len(s.status.Sets) > 0 { // one set says what its Source does, but for what concerns the Source alone
				one := assessSet(s, set(s))
				if one.state != f.state && s.halted == nil && s.state == nil {
					t.Errorf("its set is %q: %s", one.state, one.why)
				}
			}
		})
	}
}

// TestAssessNeverContradictsStatus: what `status` calls not in step is never shown as in step.
func TestAssessNeverContradictsStatus(t *testing.T) {
	t.Parallel()
	s := healthy()
	other := *set(s)
	other.ID, other.InStep = 8, false
	s.status.Sets = append(s.status.Sets, other)
	if f := assess(s); f.level == console.Good {
		t.Errorf("%+v", f)
	}
	if f := assessSet(s, set(s)); f.level != console.Good {
		t.Errorf("%+v", f)
	}
}

// TestClipped: texts of others become part of one line.
func TestClipped(t *testing.T) {
	t.Parallel()
	if got := clipped(" a\n\tb  c "); got != "a b c" {
		t.Errorf("%q", got)
	}
	if got := clipped(strings.Repeat("é", 1000)); len(got) > longestWhy+4 || !strings.HasSuffix(got, "é…") {
		t.Errorf("%d bytes, %q", len(got), got[len(got)-8:])
	}
	for text, want := range map[string]string{"read it.": "Read it", "https://x.example/ fails": "https://x.example/ fails", "": "", "state: bad": "state: bad", "ärger": "Ärger"} {
		if got := sentence(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
