package health

import "time"

// At reads a time of a status, the zero time for none.
func At(text *string) time.Time {
	if text == nil {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, *text)
	if err != nil {
		return time.Time{}
	}
	return t
}

// First is the earlier of two times, of which the second may be absent and the first not be there yet.
func First(a time.Time, b *string) time.Time {
	t := At(b)
	if t.IsZero() || !a.IsZero() && a.Before(t) {
		return a
	}
	return t
}

// Later is the later one.
func Later(a time.Time, b *string) time.Time {
	if t := At(b); t.After(a) {
		return t
	}
	return a
}
