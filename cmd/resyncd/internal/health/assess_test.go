package health

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/console"
	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/store"
	"resyncd/store/blob"
	"resyncd/sync/report"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// healthy is a Source in step, with one set whose hub holds a lease.
func healthy() *Standing {
	return &Standing{
		Now: noon, Configured: true, Following: true, Push: config.PushAuto, Poll: 15 * time.Minute, Again: 15 * time.Second, Next: noon.Add(5 * time.Minute),
		GapPatience: 24 * time.Hour, Feeds: map[int64]bool{},
		Status: report.SourceStatus{Name: "lib", URL: "https://lib.example/", Sets: []report.SetStatus{{
			ID: 7, CapabilityList: "https://lib.example/c.xml", InStep: true, LastPull: ago(time.Minute), NextPull: ago(-14 * time.Minute),
			Channels: []report.ChannelStatus{{Kind: "change", State: "active"}},
		}}},
	}
}

func ago(d time.Duration) report.Time { return report.Time{Time: noon.Add(-d)} }

func set(s *Standing) *report.SetStatus { return &s.Status.Sets[0] }

// channel gives the set one channel in a state, for a reason.
func channel(s *Standing, state store.SubscriptionState, reason, cause string) {
	set(s).Channels = []report.ChannelStatus{{Kind: "change", State: string(state), Reason: &reason, Cause: cause, RenewAt: ago(-90 * time.Second)}}
}

func problem(s *Standing, text, cause string) {
	set(s).Problem, set(s).Cause, set(s).InStep = &text, cause, false
}

func gap(s *Standing, state store.GapState) {
	set(s).Gaps, set(s).InStep = []report.GapStatus{{
		From: ago(2 * time.Hour), Until: ago(time.Hour), State: string(state), Found: ago(30 * time.Minute),
		Ended: ago(20 * time.Minute),
	}}, !state.Open()
}

// TestAssess: the cause of a fault, and what to do, stand in the words of a row (P12).
func TestAssess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		fault func(*Standing)
		level console.Level
		state string
		Why   []string // all of these
	}{
		{"in step", func(*Standing) {}, console.Good, "in step", nil},
		{"in step, no hub", func(s *Standing) { set(s).Channels = nil }, console.Good, "in step", []string{"no hub", "every 15m"}},
		{"push is off", func(s *Standing) { s.Push, set(s).Channels = config.PushOff, nil }, console.Good, "in step", nil},
		{"refused resources", func(s *Standing) { set(s).Refused = 3 }, console.Good, "in step", []string{"3 resources are outside", "`scope`"}},
		{"not configured", func(s *Standing) { s.Configured = false }, console.Busy, "not configured", []string{"not configured any more"}},
		{"paused, and failing", func(s *Standing) { problem(s, "x", ""); s.Status.Paused = true }, console.Warn, "paused", []string{"Resume"}},
		{"503", func(s *Standing) {
			problem(s, "read document https://lib.example/c.xml: get https://lib.example/c.xml: answered 503 Service Unavailable", "http-503")
		},
			console.Bad, "failing", []string{"The Source answers 503 Service Unavailable", "Tried again at 12:05:00 UTC", "Pull", "c.xml"}},
		{"401", func(s *Standing) { problem(s, "get https://lib.example/: answered 401 Unauthorized", "http-401") }, console.Bad, "failing", []string{"`auth`"}},
		{"404", func(s *Standing) { problem(s, "get https://lib.example/: answered 404 Not Found", "http-404") }, console.Bad, "failing", []string{"`url`"}},
		{"a certificate", func(s *Standing) {
			problem(s, "get https://lib.example/: tls: failed to verify certificate: x509: certificate has expired", fetch.CauseCertificate)
		},
			console.Bad, "failing", []string{"The Source's certificate is not accepted.", "the publisher has to renew it"}},
		{"refused connection", func(s *Standing) {
			problem(s, "get http://lib.example/: dial tcp 192.0.2.1:80: connect: connection refused", fetch.CauseConnection)
		},
			console.Bad, "failing", []string{"The Source does not take connections. Tried again", "Nothing listens there"}},
		{"several 5xx", func(s *Standing) {
			problem(s, "a: answered 503 Service Unavailable; b: answered 502 Bad Gateway", fetch.CauseServer)
		}, console.Bad, "failing",
			[]string{"The Source answers server errors (5xx). Tried again", "publisher's to mend"}},
		{"an HTML page", func(s *Standing) {
			problem(s, "refused document (forbidden markup at byte 0): an HTML page in place of a ResourceSync document", rsdoc.CausePage)
		},
			console.Bad, "failing", []string{"The Source answers HTML pages in place of its documents. Tried again", "in a browser"}},
		{"a clock that is ahead", func(s *Standing) {
			problem(s, "http://lib.example/cl.xml: its from, 2026-03-05T13:00:00Z, lies in the future: nobody can tell what changed before it", store.CauseClock)
		},
			console.Bad, "failing", []string{"The Source's clock is wrong. Tried again", "comes into step by itself", "2026-03-05T13:00:00Z"}},
		{"a problem of tomorrow", func(s *Standing) { problem(s, "x", ""); s.Next = noon.Add(20 * time.Hour) }, console.Bad, "failing", []string{"on 2026-03-05 08:00:00 UTC"}},
		{"never read, failing", func(s *Standing) {
			s.Status.Sets, s.Unread = nil, &fetch.Error{Op: "get", URL: "http://lib.example/", Status: 500, Err: errors.New("answered 500 Internal Server Error")}
			s.Status.Trouble(report.ErrNothingYet.Error())
		}, console.Bad, "failing", []string{"answers 500 Internal Server Error", "asked again soon"}},
		{"never read, since before this start", func(s *Standing) {
			s.Status.Sets = nil
			s.Status.Trouble(report.ErrNothingYet.Error() + ": nothing to synchronise was found at http://lib.example/: answered 500 Internal Server Error")
			s.Status.Unread, s.Status.Cause = true, "http-500"
		}, console.Bad, "failing", []string{"answers 500 Internal Server Error", "asked again soon"}},
		{"two answers", func(s *Standing) { problem(s, "a: answered 404 Not Found; b: answered 500 X", "") }, console.Bad, "failing",
			[]string{"cannot be read: a: answered 404 Not Found; b", "12:05:00"}},
		{"never read", func(s *Standing) { s.Status.Sets = nil }, console.Busy, "starting", []string{"first pull is under way"}},
		{"its turn is to come", func(s *Standing) { s.Status.Sets, s.Following = nil, false }, console.Busy, "waiting", []string{"within seconds"}},
		{"held by another", func(s *Standing) {
			s.Status.Trouble("source lib is held by another process (resyncd 1); wait until it has ended")
		},
			console.Bad, "not working", []string{"held by another process", "every 15s"}},
		{"mirror full", func(s *Standing) {
			s.Halted = fmt.Errorf("place: %w", blob.ErrNoSpace)
			set(s).Owed, set(s).InStep = 3, false
		},
			console.Bad, "disk full", []string{"free space or inodes on it. Work then goes on by itself", "3 resources are owed until"}},
		{"mirror read-only", func(s *Standing) { s.Halted = blob.ErrReadOnly }, console.Bad, "disk read-only", []string{"writable"}},
		{"mirror gone", func(s *Standing) { s.Halted = blob.ErrUnmarked }, console.Bad, "disk missing", []string{"mount"}},
		{"mirror failing", func(s *Standing) { s.Halted = blob.ErrSync }, console.Bad, "disk failing", []string{"look at it"}},
		{"out of files", func(s *Standing) { s.Halted = blob.ErrBusy }, console.Bad, "out of resources", []string{"open files"}},
		{"state full", func(s *Standing) { s.State = store.ErrFull }, console.Bad, "state failing", []string{"free disk space", "come again"}},
		{"held", func(s *Standing) { set(s).Held, set(s).InStep = 12, false }, console.Warn, "removals held", []string{"12 removals are held", "Approve", "Reject"}},
		{"owed", func(s *Standing) {
			set(s).Owed, set(s).InStep = 2, false
			s.Owed = &store.Resource{URI: "u", Work: store.Work{
				Reason: "get https://lib.example/a: answered 403 Forbidden", Cause: "http-403", Attempts: 3, Due: store.MicrosOf(noon.Add(time.Minute)),
			}}
		}, console.Warn, "owed", []string{"2 resources are owed", "403", "Tried again at 12:01:00", "`auth`"}},
		{"fetching", func(s *Standing) { set(s).Owed, set(s).InStep = 1, false }, console.Busy, "fetching", []string{"1 resource is being fetched"}},
		{"list lags", func(s *Standing) { gap(s, store.GapLagging) }, console.Warn, "list lags",
			[]string{"lags behind a notification since 2026-03-04 11:30:00 UTC", "between 2026-03-04 10:00:00 UTC", "after 24h"}},
		{"gap", func(s *Standing) { gap(s, store.GapWaiting) }, console.Busy, "closing a gap", []string{"list is asked"}},
		{"gap with baseline", func(s *Standing) { gap(s, store.GapBaseline) }, console.Busy, "closing a gap", []string{"everything is compared"}},
		{"closed gap", func(s *Standing) { gap(s, store.GapClosed) }, console.Good, "in step", nil},
		{"feed", func(s *Standing) { gap(s, store.GapUnprovable); s.Feeds[7] = true }, console.Warn, "feed cut short", []string{"did not reach back", "Pull more often"}},
		{"unprovable", func(s *Standing) { gap(s, store.GapUnprovable) }, console.Warn, "unproven", []string{"Nobody can prove"}},
		{"unprovable long ago", func(s *Standing) { gap(s, store.GapUnprovable); s.Now = noon.Add(8 * 24 * time.Hour) }, console.Good, "in step", nil},
		{"denied", func(s *Standing) { channel(s, store.SubDenied, "no such topic.", "") }, console.Warn, "hub refused",
			[]string{"The hub refused: no such topic.", "pulled by schedule only", "Renew"}},
		{"lapsed", func(s *Standing) { channel(s, store.SubLapsed, "the lease ended before it was renewed", "") }, console.Warn, "no push", []string{"The lease ended"}},
		{"failed", func(s *Standing) {
			channel(s, store.SubFailed, "connection refused", fetch.CauseConnection)
			s.Deaf = true
		}, console.Warn, "no push",
			[]string{"Subscribing at the hub fails: connection refused. Nothing listens at its address", "at 12:01:30 UTC", "Renew asks at once", "callback.base_url"}},
		{"no hub there", func(s *Standing) { channel(s, store.SubFailed, "the hub answered 405 Method Not Allowed", "http-405") }, console.Warn, "no push",
			[]string{"is none: check `hub`"}},
		{"unverified", func(s *Standing) { channel(s, store.SubPending, "unverified", "") }, console.Warn, "no push", []string{"has not confirmed: unverified"}},
		{"subscribing", func(s *Standing) { channel(s, store.SubRequesting, "", "") }, console.Busy, "subscribing", nil},
		{"switched off", func(s *Standing) { channel(s, store.SubOff, "", "") }, console.Good, "in step", []string{"Renew brings it back"}},
		{"required, switched off", func(s *Standing) { channel(s, store.SubOff, "", ""); s.Push = config.PushRequired }, console.Warn, "no channel", []string{"required"}},
		{"required, no hub", func(s *Standing) { set(s).Channels, s.Push = nil, config.PushRequired }, console.Warn, "no channel", []string{"push: auto"}},
		{"silent", func(s *Standing) { s.Suspect = []int64{7} }, console.Warn, "hub is silent", []string{"did not tell of"}},
		{"wrong signatures", func(s *Standing) { s.Rejected = "signature" }, console.Warn, "push rejected", []string{"wrong signature", "secret: off"}},
		{"too large", func(s *Standing) { s.Rejected = "too_large" }, console.Warn, "push rejected", []string{"callback.max_body"}},
		{"inbox full", func(s *Standing) { s.Rejected = "busy" }, console.Warn, "push rejected", []string{"come again"}},
		{"a stranger's token", func(s *Standing) { s.Rejected = "unknown" }, console.Good, "in step", nil},
		{"late", func(s *Standing) { set(s).InStep, set(s).NextPull = false, ago(time.Hour) }, console.Busy, "late", []string{"due at 11:00:00 UTC"}},
		{"catching up", func(s *Standing) { set(s).InStep = false }, console.Busy, "catching up", nil},
		{"two at once", func(s *Standing) {
			problem(s, "answered 500 X", "http-500")
			set(s).Held = 1
			channel(s, store.SubDenied, "no", "")
		},
			console.Bad, "failing", []string{"500", "1 removal is held", "The hub refused"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := healthy()
			c.fault(s)
			f := Assess(s)
			if f.Level != c.level || f.State != c.state {
				t.Errorf("level %d, %q, want %d, %q: %s", f.Level, f.State, c.level, c.state, f.Why)
			}
			for _, part := range c.Why {
				if !strings.Contains(f.Why, part) {
					t.Errorf("%q is not in %q", part, f.Why)
				}
			}
			if c.Why == nil && c.level == console.Good && f.Why != "" {
				t.Errorf("it says %q", f.Why)
			}
			if f.Level == console.Good != (c.state == "in step") || strings.Contains(f.Why, "  ") || strings.Contains(f.Why, "..") {
				t.Errorf("%d %q: %q", f.Level, f.State, f.Why)
			}
			if len(s.Status.Sets) > 0 { // one set says what its Source does, but for what concerns the Source alone
				one := AssessSet(s, set(s))
				if one.State != f.State && s.Halted == nil && s.State == nil {
					t.Errorf("its set is %q: %s", one.State, one.Why)
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
	s.Status.Sets = append(s.Status.Sets, other)
	if f := Assess(s); f.Level == console.Good {
		t.Errorf("%+v", f)
	}
	if f := AssessSet(s, set(s)); f.Level != console.Good {
		t.Errorf("%+v", f)
	}
}

// TestClipped: texts of others become part of one line.
// TestPackageInFlight: it is told of where a Source is at work or in step, and not beside what an operator has to do.
func TestPackageInFlight(t *testing.T) {
	t.Parallel()
	s := healthy()
	s.Package, set(s).Owed, set(s).InStep = "package 2 of 4: 1.0 MiB of 3.0 MiB", 900, false
	if f := Assess(s); f.Level != console.Busy || f.Why != "900 resources are being fetched. Now package 2 of 4: 1.0 MiB of 3.0 MiB." {
		t.Errorf("%+v", f)
	}
	set(s).Held = 30
	if f := Assess(s); f.Level != console.Warn || strings.Contains(f.Why, "package") {
		t.Errorf("%+v", f)
	}
}

func TestClipped(t *testing.T) {
	t.Parallel()
	if got := Clipped(" a\n\tb  c "); got != "a b c" {
		t.Errorf("%q", got)
	}
	if got := Clipped(strings.Repeat("é", 1000)); len(got) > longestWhy+4 || !strings.HasSuffix(got, "é…") {
		t.Errorf("%d bytes, %q", len(got), got[len(got)-8:])
	}
	for text, want := range map[string]string{"read it.": "Read it", "https://x.example/ fails": "https://x.example/ fails", "": "", "state: bad": "state: bad", "ärger": "Ärger"} {
		if got := sentence(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
