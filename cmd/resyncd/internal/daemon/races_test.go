package daemon

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/control"
	"resyncd/cmd/resyncd/internal/exit"
	"resyncd/destination/subscribe"
	"resyncd/store"
	"resyncd/store/sqlite"
	syncengine "resyncd/sync"
)

// idle is a daemon of which nothing runs.
func idle(t testing.TB) *Daemon {
	t.Helper()
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	d := New(Options{Config: &config.Config{}, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	d.st, d.sampler.st = st, st
	d.keeper = subscribe.New(subscribe.Options{Store: st, Callback: func(token string) string { return token }})
	return d
}

// subscribed gives a Source of the store one active subscription.
func subscribed(t testing.TB, d *Daemon, name string) store.Subscription {
	t.Helper()
	src, err := d.st.EnsureSource(t.Context(), name, "https://"+name+".example/")
	if err != nil {
		t.Fatal(err)
	}
	now := store.MicrosOf(time.Now())
	sub := store.Subscription{
		SourceID: src.ID, SetID: 1, Kind: store.ChannelChange, Topic: "https://" + name + ".example/changes", Hub: "https://hub.example/",
		Token: "token-of-" + name, State: store.SubActive, Requested: now, Verified: now, Granted: 3600,
		Renew: now + 1800e6, Expires: now + 3600e6, Next: now + 1800e6, Rotated: now, Ended: store.NoTime,
	}
	if err := d.st.AddSubscription(t.Context(), &sub); err != nil {
		t.Fatal(err)
	}
	return sub
}

func stateOf(t *testing.T, d *Daemon, id int64) store.SubscriptionState {
	t.Helper()
	sub, err := d.st.Subscription(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return sub.State
}

// TestUnknownYet: what is asked for a Source whose turn has not come since the start touches no other Source.
func TestUnknownYet(t *testing.T) {
	t.Parallel()
	for _, command := range []string{control.AskRenew, control.AskCancel, control.AskPause, control.AskResume, control.AskForget} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			d := idle(t)
			other := subscribed(t, d, "other")
			d.sources.byName["lib"] = newRunner(d, config.Source{Name: "lib"})
			err := d.operator.command(t.Context(), "lib", command, control.Args{}, &control.Answer{})
			if exit.Code(t.Context(), err) != exit.Held || exit.Advised(err) == "" {
				t.Errorf("it ended with %v", err)
			}
			after, err := d.st.Subscription(t.Context(), other.ID)
			if err != nil {
				t.Fatal(err)
			}
			if after.State != store.SubActive || after.Next != other.Next {
				t.Errorf("another Source's subscription is %s", after.State)
			}
		})
	}
}

// configured has a daemon read a configuration with these Sources again.
func configured(t *testing.T, d *Daemon, sources ...config.Source) {
	t.Helper()
	d.o.Reread = func() (*config.Config, error) { return &config.Config{Sources: sources}, nil }
	d.reload(t.Context())
	t.Cleanup(d.endSources)
}

// TestLateChange: a Source that is changed is followed by its new configuration, once the run by the old one, which may
// just be being prepared, has come to its end; one that did not change goes on.
func TestLateChange(t *testing.T) {
	t.Parallel()
	d := idle(t)
	same := config.Source{Name: "same", URL: "https://same.example/"}
	configured(t, d, config.Source{Name: "lib", URL: "https://a.example/"}, same)
	sub := subscribed(t, d, "lib")
	before, other := d.sources.named("lib"), d.sources.named("same")
	d.sources.bind(before, sub.SourceID)
	before.seen.gaps[7] = store.GapLagging
	configured(t, d, config.Source{Name: "lib", URL: "https://b.example/"}, same)
	<-before.part.done
	r := d.sources.named("lib")
	if r == before || r.src.Load().URL != "https://b.example/" || d.sources.of(sub.SourceID) != r || r.seen.gaps[7] == "" {
		t.Errorf("%+v", r)
	}
	if d.sources.named("same") != other {
		t.Error("another Source was begun anew")
	}
	if got := stateOf(t, d, sub.ID); got != store.SubActive {
		t.Errorf("its subscription is %s", got)
	}
}

// TestForgottenBeginsAnew: a Source that was forgotten is followed again when the configuration is read again.
func TestForgottenBeginsAnew(t *testing.T) {
	t.Parallel()
	d := idle(t)
	src := config.Source{Name: "lib", URL: "https://a.example/"}
	configured(t, d, src)
	before := d.sources.named("lib")
	d.sources.remove(before)
	configured(t, d, src)
	if r := d.sources.named("lib"); r == nil || r == before {
		t.Errorf("%+v", r)
	}
	endAll([]*part{before.part})
}

// TestRetry: a reload looks after what is at rest; one that was not begun yet keeps its turn.
func TestRetry(t *testing.T) {
	t.Parallel()
	d := idle(t)
	sources := []config.Source{{Name: "paused"}, {Name: "fresh"}}
	paused, fresh := newRunner(d, sources[0]), newRunner(d, sources[1])
	paused.id = 3
	d.sources.byName["paused"], d.sources.byName["fresh"] = paused, fresh
	d.sources.cfg.Sources = sources
	configured(t, d, sources...)
	if len(paused.woken) != 1 || len(fresh.woken) != 0 {
		t.Errorf("paused %d, fresh %d", len(paused.woken), len(fresh.woken))
	}
}

// TestRemoveUnbegun: a Source that is removed before its turn after the start came is unsubscribed all the same.
func TestRemoveUnbegun(t *testing.T) {
	t.Parallel()
	d := idle(t)
	sub, other := subscribed(t, d, "lib"), subscribed(t, d, "other")
	d.startSource(t.Context(), config.Source{Name: "lib"}, time.Hour)
	d.removeSource(t.Context(), "lib")
	if got := stateOf(t, d, sub.ID); got != store.SubUnsubscribing {
		t.Errorf("the subscription is %s", got)
	}
	if got := stateOf(t, d, other.ID); got != store.SubActive {
		t.Errorf("another Source's subscription is %s", got)
	}
}

// resideHourly has a daemon know a Source that it pulls every hour.
func resideHourly(t *testing.T, d *Daemon, id int64) config.Source {
	t.Helper()
	schedule, err := config.ParseSchedule("@every 1h")
	if err != nil {
		t.Fatal(err)
	}
	src := config.Source{Name: "lib", Policy: config.Policy{Schedule: schedule}}
	d.sources.byID[id] = newRunner(d, src)
	return src
}

// TestStillLost: a new run pulls as often as the one before, while no hub tells of changes.
func TestStillLost(t *testing.T) {
	t.Parallel()
	d := idle(t)
	src := resideHourly(t, d, 3)
	sub := store.Subscription{ID: 1, SourceID: 3, SetID: 7, Kind: store.ChannelChange, State: store.SubActive}
	d.hubs.note(&sub, 1)
	sub.State = store.SubDenied
	d.hubs.note(&sub, 1)
	d.schedule(t.Context(), 3, &src)
	if next := time.Until(d.jobs.Next(3)); next > time.Hour/suspectShare {
		t.Errorf("the next pull is in %s", next)
	}
}

// TestAskedAtTheEnd: a request that the end of the daemon cuts short says so.
func TestAskedAtTheEnd(t *testing.T) {
	t.Parallel()
	d := idle(t)
	sub := subscribed(t, d, "lib")
	r := newRunner(d, config.Source{Name: "lib"})
	r.id = sub.SourceID
	r.run = &run{over: make(chan error, 1), ended: make(chan struct{})} // which does not come to its end
	d.sources.byName["lib"] = r
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := d.operator.command(ctx, "lib", control.AskPause, control.Args{}, &control.Answer{})
	if exit.Code(t.Context(), err) != exit.Held || err.Error() != errEnding.Error() {
		t.Errorf("it ended with %v", err)
	}
}

// TestBetweenJobs: what an operator wants done waits for the job that has the Follower, and is told of its run's end.
func TestBetweenJobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := New(Options{Config: &config.Config{}, Log: slog.New(slog.DiscardHandler), Now: time.Now})
		r := newRunner(d, config.Source{Name: "lib"})
		s := newRun(nil)
		r.run = s
		done := make(chan string, 1)
		ask := func() {
			said, err := r.between(t.Context(), func(context.Context, *syncengine.Follower) (string, error) { return "done", nil })
			if err != nil {
				said = err.Error()
			}
			done <- said
		}
		if !s.take(t.Context()) {
			t.Fatal("nobody has the Follower")
		}
		go ask()
		synctest.Wait()
		if len(done) != 0 {
			t.Error("it did not wait for the job")
		}
		s.release()
		if said := <-done; said != "done" {
			t.Errorf("said %q", said)
		}
		s.take(t.Context())
		go ask()
		synctest.Wait()
		s.end()
		if said := <-done; said != errLeft.Error() {
			t.Errorf("said %q", said)
		}
		if _, err := r.between(t.Context(), nil); exit.Code(t.Context(), err) != exit.Held {
			t.Errorf("after the end: %v", err)
		}
	})
}

// TestCalmedMeanwhile: a Source whose hub told of a change while it was being judged is pulled at its usual pace.
func TestCalmedMeanwhile(t *testing.T) {
	t.Parallel()
	d := idle(t)
	src := resideHourly(t, d, 3)
	d.jobs.Plan(3, src.Name, src.Schedule, time.Now())
	usual := d.jobs.Next(3)
	for range suspectAfter {
		d.hubs.count(miss{3, 7, 1})
	}
	d.hubs.pace(3, true)
	if !d.jobs.Next(3).Before(usual) {
		t.Error("a suspect hub is relied on")
	}
	d.hubs.delivered(3)
	d.hubs.pace(3, true) // which had been decided on before
	if next := d.jobs.Next(3); next.Before(usual) {
		t.Errorf("the next pull is at %s, usually at %s", next, usual)
	}
}
