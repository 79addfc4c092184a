package daemon

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/cmd/resyncd/internal/mirror"
	"resyncd/destination/websub"
	"resyncd/store"
	"resyncd/store/sqlite"
)

func TestBaseAt(t *testing.T) {
	t.Parallel()
	addr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711}
	for base, want := range map[string]string{
		"https://m.example/cb/":   "https://m.example/cb",
		"https://m.example":       "https://m.example",
		"http://127.0.0.1:0/cb":   "http://127.0.0.1:4711/cb",
		"http://[::1]:0/cb":       "http://[::1]:4711/cb",
		"http://127.0.0.1:80/a/b": "http://127.0.0.1:80/a/b",
	} {
		if got := baseAt(base, addr); got != want {
			t.Errorf("%s: %s, want %s", base, got, want)
		}
	}
}

// TestLeases: a renewal does not begin anew, a lapse does; framework channels are none of it.
func TestLeases(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	h := newHubs(nil)
	note := func(sub *store.Subscription) turn {
		turn, _, _ := h.note(sub, store.MicrosOf(now))
		return turn
	}
	sub := store.Subscription{ID: 1, SourceID: 3, SetID: 7, Kind: store.ChannelChange, State: store.SubPending}
	step := func(state store.SubscriptionState, at int64, want store.Micros, turn turn) {
		t.Helper()
		now, sub.State = time.Unix(at, 0), state
		if got := note(&sub); got != turn {
			t.Errorf("%s at %d: turn %d, want %d", state, at, got, turn)
		}
		if got, want := h.of(3, 7).bare, turn == lost; got != want {
			t.Errorf("%s at %d: lacking %v", state, at, got)
		}
		if got := h.since(3)(7); got != want {
			t.Errorf("%s at %d: since %v, want %v", state, at, got, want)
		}
	}
	at := func(s int64) store.Micros { return store.MicrosOf(time.Unix(s, 0)) }
	step(store.SubPending, 1000, store.NoTime, noTurn)
	step(store.SubActive, 1010, at(1010), won)
	step(store.SubRenewing, 1020, at(1010), noTurn)
	step(store.SubActive, 1030, at(1010), noTurn)
	step(store.SubLapsed, 1040, store.NoTime, lost)
	step(store.SubActive, 1050, at(1050), won)
	step(store.SubDenied, 1051, store.NoTime, lost)
	step(store.SubOff, 1052, store.NoTime, left)
	step(store.SubActive, 1053, at(1053), won)
	second := store.Subscription{ID: 2, SourceID: 3, SetID: 7, Kind: store.ChannelChange, State: store.SubActive}
	now = time.Unix(1060, 0)
	note(&second)
	step(store.SubDenied, 1065, at(1060), noTurn)
	step(store.SubGone, 1070, at(1060), noTurn) // make before break: the other one held it meanwhile
	note(&store.Subscription{ID: 3, SourceID: 3, SetID: 8, Kind: store.ChannelFramework, State: store.SubActive})
	if got := h.since(3)(8); got.Known() {
		t.Errorf("a framework channel tells of changes: %v", got)
	}
}

// TestHurry: without a lease for its changes a Source is pulled more often, until all its sets have one again (S-42).
func TestHurry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := New(Options{Config: config.Default(), Log: slog.New(slog.DiscardHandler), Now: time.Now})
		schedule, err := config.ParseSchedule("@every 1h")
		if err != nil {
			t.Fatal(err)
		}
		d.sources.byID[3] = newRunner(d, config.Source{Name: "lib", Policy: config.Policy{Schedule: schedule}})
		d.jobs.Plan(3, "lib", schedule, time.Now())
		usual := time.Until(d.jobs.Next(3))
		step := func(set int64, state store.SubscriptionState, want time.Duration) {
			t.Helper()
			d.hubs.changed(&store.Subscription{ID: set, SourceID: 3, SetID: set, Kind: store.ChannelChange, State: state})
			if got := time.Until(d.jobs.Next(3)); got != want {
				t.Errorf("set %d %s: next pull in %s, want %s", set, state, got, want)
			}
		}
		step(7, store.SubActive, usual)
		step(8, store.SubActive, usual)
		step(7, store.SubDenied, time.Hour/suspectShare)
		step(8, store.SubLapsed, time.Hour/suspectShare)
		step(7, store.SubActive, time.Hour/suspectShare)
		step(8, store.SubActive, usual)
		step(8, store.SubFailed, time.Hour/suspectShare)
		step(8, store.SubOff, usual)
	})
}

// TestJudge: two pulls in a row make a hub suspect, a delivery in between clears it.
func TestJudge(t *testing.T) {
	t.Parallel()
	d := New(Options{Config: config.Default(), Log: slog.New(slog.DiscardHandler), Now: time.Now})
	h, m := d.hubs, miss{source: 1, set: 7, n: 3}
	if h.count(m) {
		t.Error("one pull makes a hub suspect")
	}
	h.delivered(1)
	if h.count(m) || !h.count(m) || !slices.Contains(h.suspects(1), 7) {
		t.Error("misses are not counted in a row")
	}
	if h.delivered(2); !slices.Contains(h.suspects(1), 7) {
		t.Error("a delivery clears another Source")
	}
	if h.delivered(1); len(h.suspects(1)) != 0 || h.count(m) {
		t.Error("a delivery does not clear its own Source")
	}
	for range 2 * cap(h.missing) { // nobody listens: never blocks
		h.add(1, 7, 1)
	}
}

// TestAwait: a pause ends by itself or by wake; a forgotten Source waits for its return.
func TestAwait(t *testing.T) {
	t.Parallel()
	r := newRunner(nil, config.Source{Name: "lib"})
	if !r.await(t.Context(), 0) {
		t.Error("no pause did not end")
	}
	r.wake()
	r.wake() // twice is once
	if !r.await(t.Context(), forGood) {
		t.Error("wake did not end the pause")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if r.await(ended, forGood) {
		t.Error("it waited beyond the end")
	}
}

// TestWeakestBeforeItsTurn: a Source is held to its min_signature from the start on, before anybody follows it.
func TestWeakestBeforeItsTurn(t *testing.T) {
	t.Parallel()
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), mirror.StateFile), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	strict, err := st.EnsureSource(t.Context(), "strict", "http://127.0.0.1/")
	if err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	src, err := cfg.Adhoc("strict", "http://127.0.0.1/")
	if err != nil {
		t.Fatal(err)
	}
	src.MinSignature = "sha384"
	cfg.Sources = []config.Source{src}
	d := New(Options{Config: cfg, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	d.st = st
	if err := d.loadSources(t.Context()); err != nil {
		t.Fatal(err)
	}
	weakest := d.callbackOptions(cfg).Weakest
	if got := weakest(strict.ID); got != websub.SHA384 {
		t.Errorf("weakest is %v", got)
	}
	if got := weakest(strict.ID + 1); got != websub.SHA1 {
		t.Errorf("of an unknown Source: %v", got)
	}
}
