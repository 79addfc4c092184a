package mirror

import (
	"path/filepath"
	"testing"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/store"
	"resyncd/store/sqlite"
	"resyncd/sync/report"
)

// TestInStep: a set is in step only while its last pull or push is as young as the schedule wants, and, where push is
// required, while a hub holds a lease for its changes (coverage.md 3, contract.md 2).
func TestInStep(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	st, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), StateFile), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	src, err := st.EnsureSource(ctx, "lib", "https://lib.example/")
	if err != nil {
		t.Fatal(err)
	}
	claim, _, err := st.Claim(ctx, src.ID, "test")
	if err != nil {
		t.Fatal(err)
	}
	set, err := st.EnsureSet(ctx, claim, "https://lib.example/c.xml")
	if err != nil {
		t.Fatal(err)
	}
	pulled := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	err = st.Commit(ctx, &store.Commit{Claim: claim, Sets: []store.SetChange{{ID: set.ID, State: &store.SetState{
		Floor: store.NoTime, InStep: true, LastPull: store.MicrosOf(pulled),
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	schedule, err := config.ParseSchedule("@every 1h")
	if err != nil {
		t.Fatal(err)
	}
	at := func(age time.Duration, push config.Push) report.SetStatus {
		t.Helper()
		s, err := report.StatusOf(ctx, st, &src)
		if err != nil {
			t.Fatal(err)
		}
		p := Place{Source: config.Source{Policy: config.Policy{Schedule: schedule, Push: push}}}
		s.Expect(p.Expectation(pulled.Add(age)))
		return s.Sets[0]
	}
	check := func(what string, age time.Duration, push config.Push, want bool) {
		t.Helper()
		if got := at(age, push); got.InStep != want || got.NextPull.IsZero() || got.NextPull.String() != "2026-01-02T04:00:00Z" {
			t.Errorf("%s: in step %v, want %v; next pull %s", what, got.InStep, want, got.NextPull)
		}
	}
	check("just pulled", time.Second, config.PushAuto, true)
	check("the pull is due", time.Hour, config.PushAuto, true)
	check("the pull is late", 76*time.Minute, config.PushAuto, false)
	check("no channel where one is required", time.Second, config.PushRequired, false)

	sub := &store.Subscription{
		SourceID: src.ID, SetID: set.ID, Kind: store.ChannelFramework, Topic: "https://lib.example/t", Hub: "https://hub.example/",
		Token: "one", State: store.SubActive, Requested: store.NoTime, Verified: store.NoTime, Renew: store.NoTime,
		Expires: store.NoTime, Rotated: store.NoTime, Next: store.NoTime, Ended: store.NoTime,
	}
	if err := st.AddSubscription(ctx, sub); err != nil {
		t.Fatal(err)
	}
	check("a framework channel alone", time.Second, config.PushRequired, false)
	sub.Kind, sub.Token = store.ChannelChange, "two"
	if err := st.AddSubscription(ctx, sub); err != nil {
		t.Fatal(err)
	}
	check("an active channel", time.Second, config.PushRequired, true)
	check("an active channel that tells of nothing", 76*time.Minute, config.PushRequired, false)
	pushed := &store.Delivery{
		SubscriptionID: sub.ID, SourceID: src.ID, SetID: set.ID, Kind: store.ChannelChange,
		Received: store.MicrosOf(pulled.Add(time.Hour)), Signed: true, From: store.NoTime, Until: store.NoTime, Body: []byte("x"),
	}
	if err := st.Deliver(ctx, []*store.Delivery{pushed}, nil); err != nil {
		t.Fatal(err)
	}
	check("a push was here", 76*time.Minute, config.PushRequired, true)

	// A `sync URL DIR` mirror has no schedule to be late for.
	s, err := report.StatusOf(ctx, st, &src)
	if err != nil {
		t.Fatal(err)
	}
	s.Expect((&Place{AdHoc: true, Source: config.Source{Policy: config.Policy{Schedule: schedule}}}).Expectation(pulled.Add(1000 * time.Hour)))
	if !s.Sets[0].InStep || !s.Sets[0].NextPull.IsZero() {
		t.Errorf("a mirror without schedule: %+v", s.Sets[0])
	}
	s.Trouble("its disk is not mounted")
	if s.Sets[0].InStep || s.Problem == nil {
		t.Errorf("with trouble: %+v", s)
	}
}

// TestRenewAt: with a lease it is when that is renewed, without one when the hub is asked next.
func TestRenewAt(t *testing.T) {
	t.Parallel()
	for state, want := range map[store.SubscriptionState]string{
		store.SubActive: "1970-01-01T00:00:01Z", store.SubRenewing: "1970-01-01T00:00:01Z",
		store.SubPending: "1970-01-01T00:00:02Z", store.SubDenied: "1970-01-01T00:00:02Z", store.SubLapsed: "1970-01-01T00:00:02Z",
	} {
		c := report.Channel(&store.Subscription{State: state, Renew: 1e6, Next: 2e6, Verified: store.NoTime, Expires: store.NoTime})
		if c.RenewAt.String() != want {
			t.Errorf("%s: %s, want %s", state, c.RenewAt, want)
		}
	}
	c := report.Channel(&store.Subscription{State: store.SubOff, Renew: 1e6, Next: store.NoTime})
	if !c.RenewAt.IsZero() {
		t.Errorf("off: %s", c.RenewAt)
	}
}
