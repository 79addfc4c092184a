package subscribe

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWaits(t *testing.T) {
	t.Parallel()
	const s, m, h = time.Second, time.Minute, time.Hour
	for _, tc := range []struct {
		name   string
		f      func(int, float64) time.Duration
		random float64
		want   []time.Duration // for n from 1
	}{
		{"Retry", retryWait, 0, []time.Duration{5 * s, 10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 4 * m, 4 * m}},
		{"Retry, jitter", retryWait, 1, []time.Duration{6250 * time.Millisecond, 12500 * time.Millisecond, 25 * s, 50 * s, 100 * s, 200 * s, 5 * m, 5 * m}},
		{"Silent", silentWait, 0, []time.Duration{5 * m, 10 * m, 20 * m, 40 * m, h, h}},
		{"Silent, jitter", silentWait, 1, []time.Duration{330 * s, 11 * m, 22 * m, 44 * m, 66 * m}},
		{"Refused", refusedWait, 0, []time.Duration{h, 2 * h, 4 * h, 8 * h, 16 * h, 24 * h, 24 * h}},
		{"Parting", unsubscribeWait, 0, []time.Duration{5 * s, 10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 320 * s, 640 * s, 1280 * s, 2560 * s, h, h}},
	} {
		for i, want := range tc.want {
			if got := tc.f(i+1, tc.random); got != want {
				t.Errorf("%s(%d) = %v, want %v", tc.name, i+1, got, want)
			}
		}
		for _, n := range []int{math.MinInt, -1, 0} {
			if got := tc.f(n, tc.random); got != tc.want[0] {
				t.Errorf("%s(%d) = %v", tc.name, n, got)
			}
		}
		if got := tc.f(math.MaxInt, 0); got <= 0 {
			t.Errorf("%s(max) = %v", tc.name, got)
		}
	}
}

func TestAfter(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ own, asked, remaining, want time.Duration }{
		{5 * time.Second, 0, 0, 5 * time.Second},
		{5 * time.Second, time.Hour, 0, time.Hour},
		{time.Hour, time.Minute, 0, time.Hour},
		{5 * time.Second, time.Hour, 2 * time.Hour, time.Hour},
		{5 * time.Second, time.Hour, time.Hour, 30 * time.Minute},
		{5 * time.Second, time.Hour, 8 * time.Second, 5 * time.Second},
	} {
		if got := longer(tc.own, tc.asked, tc.remaining); got != tc.want {
			t.Errorf("After(%v, %v, %v) = %v, want %v", tc.own, tc.asked, tc.remaining, got, tc.want)
		}
	}
}

// TestLaws: what holds for every lease and every roll of the dice (F20, F23, F33, S-56).
func TestLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		random := rapid.Float64Range(0, 0.9999999).Draw(rt, "random")
		lease := time.Duration(rapid.Int64Range(0, 30*86400).Draw(rt, "lease")) * time.Second
		renew := renewAfter(lease, random)
		if renew < gap || lease > 10*time.Second && (renew < lease/2 || renew > lease*8/10) {
			rt.Errorf("a lease of %v is renewed after %v", lease, renew)
		}
		n := rapid.IntRange(1, 1000).Draw(rt, "n")
		for name, f := range map[string]func(int, float64) time.Duration{"Retry": retryWait, "Silent": silentWait, "Refused": refusedWait, "Parting": unsubscribeWait} {
			wait := f(n, random)
			if wait < gap || f(n+1, 0) < f(n, 0) || wait > f(n, 0)*5/4 {
				rt.Errorf("%s(%d) = %v", name, n, wait)
			}
			if within := within(wait, lease); within < gap || within > gap && within > lease/4 || within > wait {
				rt.Errorf("Within(%v, %v) = %v", wait, lease, within)
			}
		}
		if got := spread(n, lease, random); got < 0 || got > time.Minute || lease > 0 && got > lease/4 || n == 1 && got != 0 {
			rt.Errorf("Spread(%d, %v) = %v", n, lease, got)
		}
	})
}

// TestRenewMean: two thirds (S-55).
func TestRenewMean(t *testing.T) {
	t.Parallel()
	if got := renewAfter(3*time.Hour, 0.5).Round(time.Second); got != 2*time.Hour {
		t.Errorf("in the mean after %v of 3h", got)
	}
}

// TestClimb: each rung once, then a wait that grows, and the place stays when a rung holds (T-05).
func TestClimb(t *testing.T) {
	t.Parallel()
	place, want := 0, []profile{{Lease: true}, {Lease: true, Verify: "sync"}, {Verify: "sync"}, {}}
	for climb := 1; climb < 4; climb++ {
		for i, p := range want {
			if got := rung(place); got != p {
				t.Errorf("place %d: %+v, want %+v", place, got, p)
			}
			var spent bool
			if place, spent = nextRung(place); spent != (i == len(want)-1) {
				t.Errorf("rung %d: spent is %v", i, spent)
			}
		}
		if climbs(place) != climb || settled(place) != 0 {
			t.Errorf("after %d climbs: %d, at rung %d", climb, climbs(place), settled(place))
		}
	}
	for _, tc := range []struct{ place, settled, climbs, up int }{{0, 0, 0, 4}, {2, 2, 0, 4}, {7, 3, 1, 8}, {-5, 0, 0, 4}} {
		if settled(tc.place) != tc.settled || climbs(tc.place) != tc.climbs || giveUp(tc.place) != tc.up {
			t.Errorf("place %d: %d, %d, %d", tc.place, settled(tc.place), climbs(tc.place), giveUp(tc.place))
		}
		if _, ok := map[profile]bool{want[0]: true, want[1]: true, want[2]: true, want[3]: true}[rung(tc.place)]; !ok {
			t.Errorf("place %d has no rung", tc.place)
		}
	}
}

func TestPatience(t *testing.T) {
	t.Parallel()
	if patience(true) <= patience(false) {
		t.Error("a lease is given up sooner than none")
	}
}
