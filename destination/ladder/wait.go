package ladder

import "time"

const (
	// Gap is the least time between two requests for one subscription, whatever the lease (F23).
	Gap = 5 * time.Second
	// RetryMost is the longest wait between failures that may pass (S-30).
	RetryMost = 5 * time.Minute
	// Pending is how long the first accepted request may wait for its verification (S-30, F21).
	Pending = 5 * time.Minute
)

const (
	retryPartly  = RetryMost * 4 / 5 // so that jitter ends at RetryMost
	silentMost   = time.Hour         // between requests that are accepted and never verified
	refusedFirst = time.Hour         // S-42
	refusedMost  = 24 * time.Hour    // S-42
	partingMost  = time.Hour         // between attempts to unsubscribe
)

// Retry is how long to wait after the n-th failure in a row, from 1: 5 s doubling to 5 min, with up to a quarter on top
// as jitter (S-30, F20).
func Retry(n int, random float64) time.Duration {
	return stretch(doubled(Gap, n, retryPartly), random/4)
}

// Silent is how long the n-th request in a row that was accepted may wait for its verification before the hub is asked
// again: 5 min doubling to an hour, with up to a tenth on top (S-30, F21).
func Silent(n int, random float64) time.Duration {
	return stretch(doubled(Pending, n, silentMost), random/10)
}

// Refused is how long to wait after the n-th refusal in a row, a denial (S-42) or a ladder without a rung that holds
// (S-30): an hour doubling to a day, with up to a tenth on top.
func Refused(n int, random float64) time.Duration {
	return stretch(doubled(refusedFirst, n, refusedMost), random/10)
}

// Parting is how long to wait after the n-th attempt to unsubscribe that failed: as Retry, but doubling on to an hour,
// because nothing but the hub's trouble depends on it.
func Parting(n int, random float64) time.Duration {
	return stretch(doubled(Gap, n, partingMost), random/4)
}

// Within cuts a wait to a quarter of what remains of a lease that is being renewed, but never below Gap (S-30, F20).
func Within(wait, remaining time.Duration) time.Duration {
	return max(min(wait, remaining/4), Gap)
}

// After is the wait that honours what a hub asked for with Retry-After, where own is our own back-off. A live lease of
// which remaining is left is not given up for it: then the hub is asked once more after half of that.
func After(own, asked, remaining time.Duration) time.Duration {
	if remaining > 0 && asked >= remaining {
		asked = remaining / 2
	}
	return max(own, asked)
}

// Spread is how long after a start, or after the clock jumped, one of n overdue subscriptions gets its turn: 50 ms apart
// in the mean, over a minute at most (S-56). One that has remaining left of a lease does not wait beyond a quarter of it.
func Spread(n int, remaining time.Duration, random float64) time.Duration {
	window := min(time.Duration(n-1)*50*time.Millisecond, time.Minute)
	if remaining > 0 {
		window = min(window, remaining/4)
	}
	return scale(max(window, 0), random)
}

// doubled is first, doubled with each n from 1 on up to most.
func doubled(first time.Duration, n int, most time.Duration) time.Duration {
	d := first
	for ; n > 1 && d < most; n-- {
		d *= 2
	}
	return min(d, most)
}

func stretch(d time.Duration, share float64) time.Duration { return d + scale(d, share) }

// scale is d times share, computed so that no duration of ours loses precision that matters.
func scale(d time.Duration, share float64) time.Duration { return time.Duration(float64(d) * share) }
