package health

import "time"

// First is the earlier of two times of which either may be zero, which is not known.
func First(a, b time.Time) time.Time {
	if b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}

// Later is the later one.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
