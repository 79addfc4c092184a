package ladder

import (
	"time"

	"resyncd/destination/backoff"
)

const (
	// Gap is the least time between two requests for one subscription (F23).
	Gap = 5 * time.Second
	// RetryMost is the longest wait between transient failures (S-30).
	RetryMost = 5 * time.Minute
	// Pending is how long the first accepted request may wait for its verification (S-30, F21).
	Pending = 5 * time.Minute
)

const (
	retryPartly     = RetryMost * 4 / 5 // so that jitter ends at RetryMost
	silentMost      = time.Hour
	refusedFirst    = time.Hour      // S-42
	refusedMost     = 24 * time.Hour // S-42
	unsubscribeMost = time.Hour
)

// Retry is the wait after the n-th failure in a row, from 1 (S-30, F20).
func Retry(n int, random float64) time.Duration {
	return stretch(backoff.Doubled(Gap, n, retryPartly), random/4)
}

// Silent is how long the n-th accepted request in a row may wait for its verification (S-30, F21).
func Silent(n int, random float64) time.Duration {
	return stretch(backoff.Doubled(Pending, n, silentMost), random/10)
}

// Refused is the wait after the n-th refusal in a row: a denial (S-42), or a ladder without a rung that holds (S-30).
func Refused(n int, random float64) time.Duration {
	return stretch(backoff.Doubled(refusedFirst, n, refusedMost), random/10)
}

// Unsubscribe is the wait after the n-th failed attempt: only the hub's load depends on it.
func Unsubscribe(n int, random float64) time.Duration {
	return stretch(backoff.Doubled(Gap, n, unsubscribeMost), random/4)
}

// Within cuts a wait to a quarter of what remains of a lease that is being renewed (S-30, F20).
func Within(wait, remaining time.Duration) time.Duration {
	return max(min(wait, remaining/4), Gap)
}

// After is the longer of our own back-off and the hub's Retry-After. It does not give up a live lease.
func After(own, asked, remaining time.Duration) time.Duration {
	if remaining > 0 && asked >= remaining {
		asked = remaining / 2
	}
	return max(own, asked)
}

// Spread is the wait of one of n overdue subscriptions after a start or a jump of the clock, so that they do not all go
// out at once (S-56).
func Spread(n int, remaining time.Duration, random float64) time.Duration {
	window := min(time.Duration(n-1)*50*time.Millisecond, time.Minute)
	if remaining > 0 {
		window = min(window, remaining/4)
	}
	return scale(max(window, 0), random)
}

func stretch(d time.Duration, share float64) time.Duration { return d + scale(d, share) }

func scale(d time.Duration, share float64) time.Duration { return time.Duration(float64(d) * share) }
