package main

import (
	"context"
	"net"
	"testing"
	"time"

	"resyncd/cmd/resyncd/internal/config"
	"resyncd/store"
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
	l := newLeases(func() time.Time { return now })
	sub := store.Subscription{ID: 1, SetID: 7, Kind: store.ChannelChange, State: store.SubPending}
	step := func(state store.SubscriptionState, at int64, want store.Micros) {
		t.Helper()
		now, sub.State = time.Unix(at, 0), state
		l.note(&sub)
		if got := l.since(7); got != want {
			t.Errorf("%s at %d: since %v, want %v", state, at, got, want)
		}
	}
	at := func(s int64) store.Micros { return store.MicrosOf(time.Unix(s, 0)) }
	step(store.SubPending, 1000, store.NoTime)
	step(store.SubActive, 1010, at(1010))
	step(store.SubRenewing, 1020, at(1010))
	step(store.SubActive, 1030, at(1010))
	step(store.SubLapsed, 1040, store.NoTime)
	step(store.SubActive, 1050, at(1050))
	second := store.Subscription{ID: 2, SetID: 7, Kind: store.ChannelChange, State: store.SubActive}
	now = time.Unix(1060, 0)
	l.note(&second)
	step(store.SubGone, 1070, at(1060)) // make before break: the other one held it meanwhile
	l.note(&store.Subscription{ID: 3, SetID: 8, Kind: store.ChannelFramework, State: store.SubActive})
	if got := l.since(8); got.Known() {
		t.Errorf("a framework channel tells of changes: %v", got)
	}
}

// TestJudge: two pulls in a row make a hub suspect, a delivery in between clears it.
func TestJudge(t *testing.T) {
	t.Parallel()
	j := newJudge()
	m := miss{source: 1, set: 7, n: 3}
	if j.strike(m) != 1 || j.delivered(1) || j.strike(m) != 1 || j.strike(m) != strikesMost {
		t.Error("strikes are not counted in a row")
	}
	if j.delivered(2) || !j.delivered(1) || j.delivered(1) {
		t.Error("a delivery clears its own Source once")
	}
	for range 2 * cap(j.misses) { // nobody listens: never blocks
		j.missed(1, 7, 1)
	}
}

// TestAwait: a pause ends by itself or by a kick; a forgotten Source waits for its return.
func TestAwait(t *testing.T) {
	t.Parallel()
	r := newResident(config.Source{Name: "lib"})
	if !r.await(t.Context(), 0) {
		t.Error("no pause did not end")
	}
	r.lookAgain()
	r.lookAgain() // twice is once
	if !r.await(t.Context(), forGood) {
		t.Error("a kick did not end the pause")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if r.await(ended, forGood) {
		t.Error("it waited beyond the end")
	}
}
